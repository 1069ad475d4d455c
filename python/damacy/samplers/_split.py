"""`split`: divides arrays, or the blocks of arrays, into sides such as training and validation."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from damacy._core import counter_rng_many
from damacy._core.counter_rng_many import I64
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import (
    Arrays,
    Cropped,
    Extents,
    cut_axes,
    first_uri,
    first_uris,
    least_axes,
    looked_at,
)
from damacy.samplers._sampler import checked_stream
from damacy.samplers._within import Blocks, Undecided, Within


def split(
    arrays: Arrays,
    shares: Mapping[str, float],
    *,
    by: Literal["array", "chunk"] = "array",
    seed: int = 0,
    block: Extents | None = None,
    extents: Extents | None = None,
    stream: int = 2,
) -> dict[str, Within]:
    """Divide arrays into sides, at random. A value of the result is the argument `within` of a sampler.

    * `arrays`: as for `RandomCrops`. Of samples of several arrays the first array is divided, and the others with it.
    * `shares`: for each side its part of the whole; they add up to 1. The number of blocks of a side differs from its
      share by at most 1.
    * `by="array"`: each array belongs to one side. `by="chunk"`: each array is cut into blocks, each block belongs to
      one side, and crops lie in blocks of their side. No voxel is on two sides.
    * `block`: the size of blocks in voxels, by default that of a shard, or of a chunk where there are no shards.
    * `extents`: of the largest crop. Blocks are doubled until it fits; a smaller remainder at the end of an axis
      belongs to the block before it. `block` and `extents` are as `extents` of `RandomCrops`, and only the axes that
      they name are cut. If neither is given, the first sampler that takes a side decides for all sides: if its crops do
      not fit into shards, chunks, or the remainder at the end of an axis, the arrays are cut again. Later samplers may
      have smaller crops. Sides whose `blocks` were read, and pickled sides, are decided.
    * `stream`: the version of the random numbers. 2 puts each of fewer than 4,096 arrays or blocks on a side equally
      often; 1 is needed for states of loaders that were saved with it.

    >>> arrays = {"a.zarr": (100,), "b.zarr": (60,)}
    >>> sides = split(arrays, {"train": 0.75, "val": 0.25}, by="chunk", block=(20,), seed=1)
    >>> {side: len(within) for side, within in sides.items()}
    {'train': 6, 'val': 2}
    """
    if by not in ("array", "chunk"):
        raise ValueError(f"by must be 'array' or 'chunk' (got {by!r})")
    if by == "array" and (block is not None or extents is not None):
        raise ValueError("block and extents are for by='chunk'")
    _check(shares)
    draw = _Draw(dict(shares), as_int(seed, "seed"), checked_stream(stream, 1, 2))
    if by == "array":
        axes, cuts = _whole(arrays)
        return {side: Within(axes, blocks, draw.stream) for side, blocks in _divided(cuts, draw, "arrays").items()}
    axes, cuts = _cut(arrays, block, extents)
    parts = _divided(cuts, draw, "blocks")
    open_cuts = _Cuts(arrays, axes, draw) if block is None and extents is None else None
    sides = {side: Within(axes, blocks, draw.stream, open_cuts) for side, blocks in parts.items()}
    if open_cuts is not None:
        open_cuts.sides = sides
    return sides


@dataclasses.dataclass(frozen=True, slots=True)
class _Draw:
    """How blocks are drawn for sides."""

    shares: Mapping[str, float]
    seed: int
    stream: int

    def sides(self, total: int) -> I64:
        """For each block the number of its side."""
        ends = [round(end * total) for end in itertools.accumulate(self.shares.values())]
        ends[-1] = total
        shuffled = counter_rng_many.shuffled if self.stream == 1 else counter_rng_many.evenly_shuffled
        return np.searchsorted(np.array(ends), shuffled(np.arange(total), total, self.seed), side="right")


class _Cuts(Undecided):
    """Blocks that are chunks or shards until a sampler says how large its crops are."""

    def __init__(self, arrays: Any, axes: tuple[int, ...], draw: _Draw) -> None:
        uris = list(dict.fromkeys(first_uris(arrays)))
        looks = looked_at(uris)
        self._shapes = {uri: looks[uri].shape for uri in uris}
        self._grids = {uri: looks[uri].shards or looks[uri].chunks for uri in uris}
        self._axes, self._draw = axes, draw
        self._is_decided = False
        self.sides: dict[str, Within] = {}

    def decide(self, extents: tuple[int, ...], from_last: tuple[int, ...]) -> None:
        if self._is_decided:
            return
        self.settle()
        crop = dict(zip(from_last, extents))
        if all(self._has_room(uri, axis, crop.get(axis)) for uri in self._shapes for axis in self._axes):
            return
        cuts = {
            uri: tuple(
                _ends(shape[len(shape) - axis], _doubled(self._grids[uri][len(shape) - axis], least), least)
                for axis, least in crop.items()
            )
            for uri, shape in self._shapes.items()
        }
        for side, blocks in _divided(cuts, self._draw, "blocks").items():
            self.sides[side]._cut_again(from_last, blocks)

    def settle(self) -> None:
        self._is_decided = True

    def _has_room(self, uri: str, axis: int, extent: int | None) -> bool:
        """Whether all blocks are as large as a crop, which has the whole axis if `extent` is None."""
        place = len(self._shapes[uri]) - axis
        block, size = self._grids[uri][place], self._shapes[uri][place]
        if extent is None or block >= size:
            return bool(block >= size)
        remainder = size % block if self._draw.stream > 1 else 0
        return bool(block >= extent and (remainder == 0 or remainder >= extent))


def _divided(cuts: Cuts, draw: _Draw, what: str) -> dict[str, dict[str, Blocks]]:
    """For each side and array the blocks of the side."""
    counts = [math.prod(len(ends) - 1 for ends in each) for each in cuts.values()]
    ends = list(itertools.accumulate(counts, initial=0))
    total = ends[-1]
    sides = draw.sides(total)
    for number, side in enumerate(draw.shares):
        if not (sides == number).any():
            raise ValueError(f"the side {side!r} gets none of {total} {what}: give it a larger share")
    return {
        side: {
            uri: Blocks(cuts[uri], np.flatnonzero(sides[first:last] == number))
            for uri, (first, last) in zip(cuts, itertools.pairwise(ends))
        }
        for number, side in enumerate(draw.shares)
    }


def _check(shares: Mapping[str, float]) -> None:
    if not isinstance(shares, Mapping):
        raise TypeError(f"shares must be a mapping from side to number (got {type(shares).__name__})")
    if not all(math.isfinite(share) and share > 0 for share in shares.values()):
        raise ValueError("shares must be finite and > 0")
    if abs(math.fsum(shares.values()) - 1) > 1e-6:
        raise ValueError(f"shares must add up to 1 (got {math.fsum(shares.values()):g})")


Cuts = dict[str, tuple[I64, ...]]


def _whole(arrays: Any) -> tuple[tuple[int, ...], Cuts]:
    uris = first_uris(arrays)
    if not uris:
        raise ValueError("arrays must name at least one array")
    return (), {uri: () for uri in uris}


def _cut(arrays: Any, block: Extents | None, extents: Extents | None) -> tuple[tuple[int, ...], Cuts]:
    """The cut axes, counted from the last one, and for each array where they are cut."""
    given = block if block is not None else extents
    if given is None:
        given = (1,) * least_axes(arrays)
    blocks = cut_axes(arrays, given, "extents" if block is None else "block", first_only=True)
    crop = (1,) * len(blocks.extents) if extents is None else _crop(arrays, blocks, extents)
    sizes = {first_uri(origin): size for origin, size in blocks.sizes.items()}
    if block is None:
        steps = {uri: _chunk(look, blocks.from_last) for uri, look in looked_at(sizes).items()}
    else:
        steps = dict.fromkeys(sizes, blocks.extents)
    cuts = {}
    for uri, shape in sizes.items():
        cuts[uri] = tuple(
            _ends(size, _doubled(step, least), least) for size, step, least in zip(shape, steps[uri], crop)
        )
    return blocks.from_last, cuts


def _crop(arrays: Any, blocks: Cropped, extents: Extents) -> tuple[int, ...]:
    """The extents of the largest crop on the cut axes; 1 on those that it does not name."""
    crops = cut_axes(arrays, extents, first_only=True)
    by_axis = dict(zip(crops.from_last, crops.extents))
    return tuple(by_axis.get(axis, 1) for axis in blocks.from_last)


def _chunk(look: Any, from_last: Sequence[int]) -> tuple[int, ...]:
    grid = look.shards or look.chunks
    return tuple(grid[len(grid) - axis] for axis in from_last)


def _doubled(step: int, least: int) -> int:
    while step < least:
        step *= 2
    return step


def _ends(size: int, step: int, least: int) -> I64:
    ends = [*range(0, size, step), size]
    if len(ends) > 2 and size - ends[-2] < least:
        del ends[-2]
    return np.array(ends, np.int64)
