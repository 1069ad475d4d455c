"""`Within`: the blocks of arrays that are one side of a split."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._core.integers import elements


@dataclasses.dataclass(frozen=True, slots=True)
class Blocks:
    """Some cells of the grid that cuts one array."""

    cuts: tuple[I64, ...]
    """For each cut axis the ends of its cells, from 0 to the array's size."""
    cells: I64
    """The numbers of the cells in the grid, in C order, ascending."""

    def bounds(self) -> I64:
        """Their boxes on the cut axes: an array of shape (n, axes, 2)."""
        grid = tuple(len(cut) - 1 for cut in self.cuts)
        places = np.unravel_index(self.cells, grid) if grid else ()
        found = np.empty((len(self.cells), len(grid), 2), np.int64)
        for k, (cut, place) in enumerate(zip(self.cuts, places)):
            found[:, k, 0], found[:, k, 1] = cut[place], cut[place + 1]
        return found


class Undecided(Protocol):
    """The blocks of all sides of a split, as long as no sampler has used them."""

    def decide(self, extents: tuple[int, ...], from_last: tuple[int, ...]) -> None:
        """Cut arrays again if crops of these extents do not fit. Later calls do nothing."""
        ...

    def settle(self) -> None:
        """The blocks are in use: `decide` does nothing from now on."""
        ...


class Within:
    """One side of a `split`: the argument `within` of samplers. A crop lies in one block of its side.

    If the split was made without `block` and `extents`, blocks are shards or chunks until a side is used: by a sampler,
    by `blocks`, or by a pickle.
    """

    _stream = 1  # of pickles that have none

    def __init__(
        self, axes: tuple[int, ...], blocks: dict[str, Blocks], stream: int, undecided: Undecided | None = None
    ) -> None:
        self._stream = stream  # of the split
        self._axes = axes  # the cut axes, counted from the last one, which is 1
        self._blocks = blocks  # of all arrays that were split; those of other sides have none
        self._undecided = undecided

    def __getstate__(self) -> dict[str, Any]:
        # Copies in other processes could not agree on other blocks, so this one must not have others either.
        self._settle()
        return {"_axes": self._axes, "_blocks": self._blocks, "_stream": self._stream, "_undecided": None}

    def __repr__(self) -> str:
        used = sum(len(blocks.cells) > 0 for blocks in self._blocks.values())
        return f"<damacy.samplers.Within of {used} arrays: {len(self)} blocks>"

    def __len__(self) -> int:
        """The number of blocks; whole arrays count as one."""
        return sum(len(blocks.cells) for blocks in self._blocks.values())

    @property
    def uris(self) -> tuple[str, ...]:
        """The arrays that have blocks on this side."""
        return tuple(uri for uri, blocks in self._blocks.items() if len(blocks.cells))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are cut, counted from the last one, which is -1; on other axes blocks are whole."""
        return tuple(-axis for axis in self._axes)

    def blocks(self, uri: str) -> I64:
        """The blocks of an array on the cut axes: an array of shape (n, axes, 2), in voxels. No sampler changes them
        afterwards."""
        self._settle()
        return self._known(uri).bounds()

    def _decide(self, extents: tuple[int, ...], from_last: tuple[int, ...]) -> None:
        """A sampler has such crops."""
        if self._undecided is not None:
            self._undecided.decide(extents, from_last)

    def _settle(self) -> None:
        if self._undecided is not None:
            self._undecided.settle()

    def _cut_again(self, axes: tuple[int, ...], blocks: dict[str, Blocks]) -> None:
        self._axes, self._blocks = axes, blocks

    def _cuts(self, from_last: int) -> bool:
        """Whether an array has several blocks on this axis."""
        if from_last not in self._axes:
            return False
        k = self._axes.index(from_last)
        return any(len(blocks.cuts[k]) > 2 for blocks in self._blocks.values())

    def _known(self, uri: str) -> Blocks:
        if uri not in self._blocks:
            raise ValueError(f"within: {uri} is not among the {len(self._blocks)} arrays that were split")
        return self._blocks[uri]

    def _bounds(self, uri: str, sizes: tuple[int, ...], from_last: tuple[int, ...]) -> I64:
        """The blocks on a crop's axes, which have these sizes and places."""
        blocks = self._known(uri)
        cut = blocks.bounds()
        found = np.zeros((len(cut), len(sizes), 2), np.int64)
        found[:, :, 1] = np.array(sizes, np.int64)
        for k, axis in enumerate(self._axes):
            ends = blocks.cuts[k]
            if axis in from_last:
                place = from_last.index(axis)
                if ends[-1] != sizes[place]:
                    raise ValueError(
                        f"within: axis {-axis} of {uri} has {elements(sizes[place])}, the split had {ends[-1]}"
                    )
                found[:, place] = cut[:, k]
            elif len(ends) > 2:
                raise ValueError(
                    f"within: the split cuts axis {-axis} of {uri}, which crops have whole: say split(..., extents=), "
                    "with the axes that crops cut"
                )
        return found
