"""Where the classes of a label are: blocks of its voxels that hold a class, with counts. Works on arrays in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection

import numpy as np

from damacy._core.counter_rng_many import I64


@dataclasses.dataclass(frozen=True, slots=True)
class LabelBlocks:
    """The blocks of one label. Row k says that block `blocks[k]` has `counts[k]` voxels of the class `classes[k]`."""

    shape: tuple[int, ...]
    block: tuple[int, ...]
    """Its extents in voxels."""
    classes: I64
    """Sorted; within a class the blocks are."""
    blocks: I64
    """Numbers in the grid of blocks, in C order."""
    counts: I64

    @property
    def nbytes(self) -> int:
        return self.classes.nbytes + self.blocks.nbytes + self.counts.nbytes

    def bounds(self) -> I64:
        """The boxes of the rows' blocks, which end where the label ends: an array of shape (n, axes, 2)."""
        starts = np.stack(np.unravel_index(self.blocks, grid_of(self.shape, self.block)), axis=1) * np.array(self.block)
        return np.stack([starts, np.minimum(starts + np.array(self.block), np.array(self.shape))], axis=2)

    def doubled(self) -> LabelBlocks:
        """The same with blocks of twice the extents."""
        places = np.unravel_index(self.blocks, grid_of(self.shape, self.block))
        block = tuple(2 * extent for extent in self.block)
        larger = np.ravel_multi_index(tuple(place // 2 for place in places), grid_of(self.shape, block))
        return LabelBlocks(self.shape, block, *_summed(self.classes, np.asarray(larger, np.int64), self.counts))

    def with_rows(self, classes: I64, blocks: I64, counts: I64) -> LabelBlocks:
        """These rows and others, of the same blocks."""
        rows = ((self.classes, classes), (self.blocks, blocks), (self.counts, counts))
        return LabelBlocks(self.shape, self.block, *_summed(*(np.concatenate(pair) for pair in rows)))


def no_blocks(shape: tuple[int, ...], block: tuple[int, ...]) -> LabelBlocks:
    """A label of which nothing is known yet."""
    return LabelBlocks(shape, block, *(np.zeros(0, np.int64) for _ in range(3)))


def grid_of(shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """The number of blocks on each axis."""
    return tuple(max(1, math.ceil(size / extent)) for size, extent in zip(shape, block))


def rows_of(
    voxels: I64, start: tuple[int, ...], label: LabelBlocks, classes: Collection[int] | None
) -> tuple[I64, I64, I64]:
    """The rows of the voxels of a box that begins at `start`: classes, blocks and counts. Without `classes` all
    classes except 0."""
    wanted = voxels != 0 if classes is None else np.isin(voxels, np.array(sorted(classes), np.int64))
    places = np.nonzero(wanted)
    grid = grid_of(label.shape, label.block)
    blocks = np.zeros(len(places[0]), np.int64)
    for place, first, extent, count in zip(places, start, label.block, grid):
        blocks = blocks * count + (place + first) // extent
    found = voxels[wanted]
    return _summed(found, blocks, np.ones(len(found), np.int64))


def _summed(classes: I64, blocks: I64, counts: I64) -> tuple[I64, I64, I64]:
    """Rows with one row for each class and block."""
    order = np.lexsort((blocks, classes))
    classes, blocks, counts = classes[order], blocks[order], counts[order]
    if len(classes):
        begins = np.flatnonzero(np.concatenate([[True], (np.diff(classes) != 0) | (np.diff(blocks) != 0)]))
        classes, blocks, counts = classes[begins], blocks[begins], np.add.reduceat(counts, begins)
    return classes, blocks, counts
