"""`SlidingGrid`: crops on a grid, in order or shuffled."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

from damacy._core import counter_rng
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import Arrays, Extents, counted, cropped, sample_of
from damacy._pipeline.sample import Sample
from damacy.samplers._sampler import check_index, check_range, per_axis


class SlidingGrid:
    """All crops of `extents` on a grid over all arrays: for evaluation, and for epochs that cover everything.

    `arrays` are given as to `RandomCrops`. `stride` is the step of the grid, by default `extents`. A last crop that
    would extend beyond the array is moved inside, so every voxel is covered if stride <= extents. With a `seed`, each
    epoch has another random order.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Extents,
        *,
        stride: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> None:
        self.seed = 0 if seed is None else as_int(seed, "seed")
        self._shuffle = seed is not None
        crops = cropped(arrays, extents)
        self._extents = crops.extents
        self._stride = self._extents if stride is None else per_axis(stride, self._extents, "stride")
        self._arrays = tuple(crops.sizes.items())
        self._grids = [
            tuple(-(-(size - extent) // step) + 1 for size, extent, step in zip(shape, self._extents, self._stride))
            for _, shape in self._arrays
        ]
        self._ends = list(itertools.accumulate(math.prod(grid) for grid in self._grids))

    def __len__(self) -> int:
        return self._ends[-1]

    def __repr__(self) -> str:
        order = f"seed={self.seed}" if self._shuffle else "in order"
        origins = counted(origin for origin, _ in self._arrays)
        return (
            f"<damacy.samplers.SlidingGrid of {self._extents} in {origins}: {len(self)} crops, "
            f"stride={self._stride}, {order}>"
        )

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch: 0 <= index < len(self), else `IndexError`."""
        check_index(index, len(self))
        return self._cell(epoch, index)

    def samples(self, epoch: int, start: int, stop: int) -> list[Sample]:
        """Samples [start, stop) of an epoch, as `sample` returns them."""
        check_range(start, stop, len(self))
        return [self._cell(epoch, index) for index in range(start, stop)]

    def _cell(self, epoch: int, index: int) -> Sample:
        place = counter_rng.shuffled(index, len(self), self.seed, epoch) if self._shuffle else index
        which = bisect.bisect_right(self._ends, place)
        at = place - (self._ends[which - 1] if which else 0)
        origin, shape = self._arrays[which]
        starts = []
        for k in reversed(range(len(shape))):
            at, cell = divmod(at, self._grids[which][k])
            starts.append(min(cell * self._stride[k], shape[k] - self._extents[k]))
        box = tuple((start, start + extent) for start, extent in zip(reversed(starts), self._extents))
        return sample_of(origin, box, (epoch, index))
