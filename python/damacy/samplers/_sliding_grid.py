"""`SlidingGrid`: crops on a grid, in order or shuffled."""

from __future__ import annotations

import numpy as np

from damacy._core import counter_rng, counter_rng_many
from damacy._core.counter_rng_many import I64
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import Arrays, Axes, Cropped, Extents, counted, cropped
from damacy.samplers._regions import regions_of
from damacy.samplers._sampler import FEW, BoxSampler, PerAxis, checked_stream, per_axis
from damacy.samplers._within import Within


class SlidingGrid(BoxSampler):
    """All crops of `extents` on a grid over all arrays: for evaluation, and for epochs that cover everything.

    `arrays` and `extents` are given as to `RandomCrops`. `stride` is the step of the grid, by default `extents`.
    Instead, `overlap` can be given: the voxels that neighbours have in common, `extents - stride`. Both are one number,
    one for each axis of `extents`, or, where `extents` is a mapping, a mapping from some of its axes. A last crop that
    would extend beyond the array is moved inside, so every voxel is covered if stride <= extents. With a `seed`, each
    epoch has another random order. `within`: a side of a `split`; each of its blocks has a grid of its own, and blocks
    without room for a crop have none. `stream`: the version of the random order. 2 draws all orders of fewer than 4,096
    crops equally often; 1 is needed for states that were saved with it.

    Arrays of one sample may have different voxels, as for `RandomCrops`. Crops then start where all arrays have a voxel
    edge, and the grid covers the whole voxels that all arrays have in common. `ValueError` if the stride would leave
    these edges.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Extents,
        *,
        stride: PerAxis | None = None,
        overlap: PerAxis | None = None,
        seed: int | None = None,
        within: Within | None = None,
        stream: int = 2,
    ) -> None:
        known = checked_stream(stream, 1, 2)
        self.stream = 1 if seed is None else known  # a grid in order draws nothing
        self.seed = 0 if seed is None else as_int(seed, "seed")
        self._shuffle = seed is not None
        crops = cropped(arrays, extents)
        self._extents = crops.extents
        self._stride = _stride(crops, stride, overlap)
        regions = regions_of(crops, within)
        self._split_stream = 1 if within is None else within._stream
        self._origins, self._which, self._misfit = regions.origins, regions.which, crops.misfit
        self._sizes = tuple(crops.sizes.values())
        self._low = regions.starts()
        self._room = regions.last_starts(self._extents) - self._low  # greatest start, from low
        for k, step in enumerate(self._stride):
            for apart in np.unique(regions.steps[:, k]).tolist():
                if step % apart:
                    raise ValueError(
                        f"stride[{k}] must be a multiple of {apart}, so that crops start at a voxel edge of all arrays "
                        f"(got {step})"
                    )
        self._grids = -(-self._room // np.array(self._stride, np.int64)) + 1
        self._ends = np.cumsum(np.prod(self._grids, axis=1))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __repr__(self) -> str:
        order = f"seed={self.seed}" if self._shuffle else "in order"
        return (
            f"<damacy.samplers.SlidingGrid of {self._extents} in {counted(self._origins)}: {len(self)} crops, "
            f"stride={self._stride}, {order}>"
        )

    def _draw(self, epoch: int, indices: I64) -> tuple[I64, I64]:
        places = self._shuffled(epoch, indices) if self._shuffle else indices
        regions = np.searchsorted(self._ends, places, side="right")
        left = places - np.concatenate([[0], self._ends])[regions]
        boxes = np.empty((len(indices), len(self._extents), 2), np.int64)
        for k in reversed(range(len(self._extents))):
            left, cells = np.divmod(left, self._grids[regions, k])
            boxes[:, k, 0] = self._low[regions, k] + np.minimum(cells * self._stride[k], self._room[regions, k])
            boxes[:, k, 1] = boxes[:, k, 0] + self._extents[k]
        return self._which[regions], boxes

    def _starts_of(self, axes: Axes) -> list[list[tuple[list[int], int]]]:
        """For each region and axis of one of its arrays: the starts of the windows, ascending, and their extent.

        Windows are at all combinations of starts. The last axis of the crop changes fastest."""
        found = []
        for low, room, cells in zip(self._low.tolist(), self._room.tolist(), self._grids.tolist()):
            starts = [[a + min(k * step, b) for k in range(n)] for a, b, n, step in zip(low, room, cells, self._stride)]
            region = []
            for axis in axes:
                if isinstance(axis, tuple):
                    region.append(([axis[0]], axis[1] - axis[0]))
                    continue
                k = axis if isinstance(axis, int) else axis.axis
                pairs = [(start, start + self._extents[k]) for start in starts[k]]
                if not isinstance(axis, int):
                    pairs = [axis.interval(*pair) for pair in pairs]
                region.append(([start for start, _ in pairs], pairs[0][1] - pairs[0][0]))
            found.append(region)
        return found

    def _shuffled(self, epoch: int, indices: I64) -> I64:
        size = len(self)
        if len(indices) > FEW or size < counter_rng_many.EVEN_BELOW:
            shuffled = counter_rng_many.shuffled if self.stream == 1 else counter_rng_many.evenly_shuffled
            return shuffled(indices, size, self.seed, epoch)
        return np.array([counter_rng.shuffled(k, size, self.seed, epoch) for k in indices.tolist()], np.int64)


def _stride(crops: Cropped, stride: PerAxis | None, overlap: PerAxis | None) -> tuple[int, ...]:
    extents = crops.extents
    if overlap is None:
        return extents if stride is None else per_axis(stride, crops, "stride", others=extents)
    if stride is not None:
        raise ValueError("give stride or overlap, not both: stride is extents - overlap")
    common = per_axis(overlap, crops, "overlap", others=[0] * len(extents), least=0)
    for k, (extent, voxels) in enumerate(zip(extents, common)):
        if voxels >= extent:
            raise ValueError(f"overlap[{k}] must be below the extent {extent} (got {voxels})")
    return tuple(extent - voxels for extent, voxels in zip(extents, common))
