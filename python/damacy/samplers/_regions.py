"""The regions that crops lie in: whole arrays, or the blocks of one side of a split. Draws nothing."""

from __future__ import annotations

import dataclasses

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._pipeline.cropped_arrays import Cropped, Origin, first_uri
from damacy.samplers._within import Within


@dataclasses.dataclass(frozen=True, slots=True)
class Regions:
    """Boxes of arrays; a crop lies in one of them."""

    origins: tuple[Origin, ...]
    """The arrays of the samples."""
    which: I64
    """For each region the number of its origin, ascending."""
    low: I64
    """For each region and axis its first voxel."""
    high: I64
    """The end of it."""

    def grown(self, margins: tuple[int, ...]) -> Regions:
        """By so many voxels an axis, on both sides."""
        if not any(margins):
            return self
        by = np.array(margins, np.int64)
        return dataclasses.replace(self, low=self.low - by, high=self.high + by)


def regions_of(crops: Cropped, within: Within | None = None, align: tuple[int, ...] | None = None) -> Regions:
    """The regions in which a crop has a place, at a multiple of `align`. `ValueError` if there are none."""
    origins, sizes = tuple(crops.sizes), list(crops.sizes.values())
    axes = len(crops.extents)
    if within is None:
        high = np.array(sizes, np.int64).reshape(len(sizes), axes)
        return Regions(origins, np.arange(len(high)), np.zeros_like(high), high)
    if not isinstance(within, Within):
        raise TypeError(f"within must be a value of the mapping that split returns (got {type(within).__name__})")
    parts = [within._bounds(first_uri(origin), size, crops.from_last) for origin, size in crops.sizes.items()]
    which = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    bounds = np.concatenate(parts)
    steps = np.array(align or (1,) * axes, np.int64)
    first = -(-bounds[:, :, 0] // steps) * steps
    fits = (first + np.array(crops.extents, np.int64) <= bounds[:, :, 1]).all(axis=1)
    if not fits.any():
        raise ValueError(
            f"within: no block has room for a crop of {crops.extents}: say split(..., extents={crops.extents})"
            if len(bounds)
            else "within: none of the arrays lies on this side of the split"
        )
    return Regions(origins, which[fits], bounds[fits, :, 0], bounds[fits, :, 1])
