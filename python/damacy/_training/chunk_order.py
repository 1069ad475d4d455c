"""The order of an epoch's samples in which ranks read disjoint chunks, as far as boxes allow.

Knows samplers and the chunk shapes of arrays. Draws each sample of an epoch once more than without, and opens only
arrays that two ranks share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from damacy._pipeline.opening import open as look
from damacy._pipeline.sample import with_row_key
from damacy._pipeline.take import Take

if TYPE_CHECKING:
    from damacy._pipeline.boxes import BoxAxis
    from damacy._pipeline.sample import Sample
    from damacy.samplers import Sampler

I64 = npt.NDArray[np.int64]

_TOGETHER = 1 << 18  # about so many samples are divided at once: they are in memory, and wait for each other
_PORTION = 4096  # at most so many samples are drawn by one call
_KEY_BITS = 63


@dataclasses.dataclass(frozen=True, slots=True)
class Shards:
    """Into how many shards an epoch is divided, and how many samples of a shard are in a step."""

    ranks: int
    batch_size: int


class ChunkOrder:
    """For each position of an epoch the index of its sample.

    The samples of a step are those of shard 0, then those of shard 1, and so on. All shards have the same number of
    samples in each step. Within a shard samples are in the order of the sampler. The samples behind the last whole step
    stay where they are.
    """

    def __init__(self, sampler: Sampler, shards: Shards) -> None:
        self._sampler = sampler
        self._shards = shards
        step = shards.ranks * shards.batch_size
        self._divided = len(sampler) // step * step  # samples
        self._window = max(1, _TOGETHER // step) * step
        self._known: tuple[tuple[int, int], I64] = (-1, -1), np.empty(0, np.int64)  # the last window and its indices
        self._chunks: dict[str, tuple[int, ...]] = {}

    def samples(self, epoch: int, start: int, stop: int) -> Iterator[Sample]:
        """Those at the positions [start, stop), with their row keys."""
        sampler: Any = self._sampler
        indices: Sequence[int]
        drawn: Iterable[Sample]
        if self._shards.ranks == 1:
            indices, drawn = range(start, stop), _drawn(sampler, epoch, start, stop)
        else:
            picked = self.indices(epoch, start, stop)
            indices, many = picked.tolist(), getattr(sampler, "_picked", None)
            drawn = many(epoch, picked) if callable(many) else (sampler.sample(epoch, index) for index in indices)
        for index, sample in zip(indices, drawn, strict=True):
            yield with_row_key(sample, (epoch, index))

    def indices(self, epoch: int, start: int, stop: int) -> I64:
        """Those of the positions [start, stop)."""
        if self._shards.ranks == 1:
            return np.arange(start, stop)
        parts = []
        while start < stop and start < self._divided:
            window = start // self._window
            first = window * self._window
            end = min(stop, first + self._window, self._divided)
            parts.append(self._indices_of(epoch, window)[start - first : end - first])
            start = end
        return np.concatenate([*parts, np.arange(start, stop)])

    def _indices_of(self, epoch: int, window: int) -> I64:
        if self._known[0] != (epoch, window):
            first = window * self._window
            order = self._order(epoch, first, min(first + self._window, self._divided))
            self._known = (epoch, window), first + order
        return self._known[1]

    def _order(self, epoch: int, start: int, stop: int) -> I64:
        """The places within the window, by position."""
        ranks, batch_size = self._shards.ranks, self._shards.batch_size
        uris, which, centres = _places(_drawn(self._sampler, epoch, start, stop))
        by_array = np.argsort(which, kind="stable")
        size = (stop - start) // ranks
        cuts = np.arange(1, ranks) * size
        ends = np.cumsum(np.bincount(which, minlength=len(uris)))
        begins = ends - np.diff(ends, prepend=0)
        for array in np.unique(np.searchsorted(ends, cuts, side="right")).tolist():
            begin, end = begins[array], ends[array]
            if not np.any((cuts > begin) & (cuts < end)):
                continue  # a cut is between this array and the previous one
            members = by_array[begin:end]
            keys = _curve(np.array([centres[k] for k in members.tolist()], np.int64), self._chunks_of(uris[array]))
            by_array[begin:end] = members[np.argsort(keys, kind="stable")]
        shards = np.sort(by_array.reshape(ranks, size), axis=1)
        return shards.reshape(ranks, size // batch_size, batch_size).swapaxes(0, 1).reshape(-1)

    def _chunks_of(self, uri: str) -> tuple[int, ...]:
        """Looked up once, so that all epochs of a run are divided by the same shapes."""
        if uri not in self._chunks:
            self._chunks[uri] = look(uri).chunks
        return self._chunks[uri]


def _drawn(sampler: Any, epoch: int, start: int, stop: int) -> Iterator[Sample]:
    many = getattr(sampler, "samples", None)
    for first in range(start, stop, _PORTION):
        end = min(first + _PORTION, stop)
        if callable(many):
            yield from many(epoch, first, end)
        else:
            yield from (sampler.sample(epoch, index) for index in range(first, end))


def _places(samples: Iterator[Sample]) -> tuple[list[str], I64, list[tuple[int, ...]]]:
    """The sorted uris of the first arrays; for each sample the number of its uri, and twice the centre of its box."""
    numbers: dict[str, int] = {}
    which, centres = [], []
    for sample in samples:
        which.append(numbers.setdefault(sample.uri, len(numbers)))
        centres.append(tuple([sum(axis) if type(axis) is tuple else _ends(axis) for axis in sample.aabb]))
    uris = sorted(numbers)
    places = np.empty(len(uris), np.int64)
    places[[numbers[uri] for uri in uris]] = np.arange(len(uris))
    return uris, places[np.array(which, np.int64)], centres


def _ends(axis: BoxAxis) -> int:
    indices = axis.indices if isinstance(axis, Take) else axis
    return int(min(indices) + max(indices) + 1)


def _curve(doubled: I64, chunks: tuple[int, ...]) -> I64:
    """For each centre the place of its chunk on a curve through all chunks, along which near places are near in space
    (Morton order). Axes that all boxes take whole do not matter."""
    cells = np.maximum(doubled, 0) // (2 * np.array(chunks, np.int64))
    cells -= cells.min(axis=0)
    widths = [int(most).bit_length() for most in cells.max(axis=0)]
    while sum(widths) > _KEY_BITS:  # coarser cells
        widest = int(np.argmax(widths))
        cells[:, widest] >>= 1
        widths[widest] -= 1
    keys = np.zeros(len(cells), np.int64)
    at = 0
    for bit in range(max(widths, default=0)):
        for axis in reversed(range(len(widths))):
            if bit < widths[axis]:
                keys |= (cells[:, axis] >> bit & 1) << at
                at += 1
    return keys
