"""The regions that crops lie in: whole arrays, or the blocks of one side of a split. Draws nothing."""

from __future__ import annotations

import dataclasses

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._pipeline.cropped_arrays import Cropped, Origin, first_uri
from damacy._pipeline.same_place import Steps
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
    steps: I64
    """For each region and axis the distance between the voxels where crops may start."""
    firsts: I64
    """One of these voxels."""

    def starts(self) -> I64:
        """For each region and axis the first voxel where a crop may start."""
        return self.low + (self.firsts - self.low) % self.steps

    def last_starts(self, extents: tuple[int, ...]) -> I64:
        """The last ones; below the first ones where a region has no room for a crop."""
        room = self.high - np.array(extents, np.int64)
        return room - (room - self.firsts) % self.steps

    def grown(self, margins: tuple[int, ...]) -> Regions:
        """By so many voxels an axis, on both sides."""
        if not any(margins):
            return self
        by = np.array(margins, np.int64)
        return dataclasses.replace(self, low=self.low - by, high=self.high + by)


def regions_of(
    crops: Cropped,
    within: Within | None = None,
    align: tuple[int, ...] | None = None,
    margins: tuple[int, ...] | None = None,
) -> Regions:
    """The regions in which a crop has a place, at a multiple of `align`. `ValueError` if there are none, or if an array
    has none without `within`."""
    origins = tuple(crops.sizes)
    rooms = [crops.room(origin) for origin in origins]
    axes = len(crops.extents)
    common = [_common(room.starts, align or (1,) * axes, crops, origin) for room, origin in zip(rooms, origins)]
    steps = np.array([[each.step for each in starts] for starts in common], np.int64).reshape(-1, axes)
    firsts = np.array([[each.first for each in starts] for starts in common], np.int64).reshape(-1, axes)
    low = np.array([room.low for room in rooms], np.int64).reshape(-1, axes)
    high = np.array([room.high for room in rooms], np.int64).reshape(-1, axes)
    if within is None:
        regions = Regions(origins, np.arange(len(high)), low, high, steps, firsts).grown(margins or (0,) * axes)
        missing = regions.last_starts(crops.extents) < regions.starts()
        if missing.any():
            which, axis = np.argwhere(missing)[0].tolist()
            origin, extent = origins[which], crops.extents[axis]
            raise ValueError(
                f"{first_uri(origin)}: axis {crops.axis(origin, axis)}: a crop of {extent} voxels has no place where it"
                f" starts at a voxel edge of all arrays, every {steps[which, axis]} voxels"
            )
        return regions
    if not isinstance(within, Within):
        raise TypeError(f"within must be a value of the mapping that split returns (got {type(within).__name__})")
    within._decide(crops.extents, crops.from_last)
    for key, place, margin in zip(crops.keys, crops.from_last, margins or ()):
        if margin and within._cuts(place):
            raise ValueError(
                f"margin and within exclude each other on axis {key}, where the split cuts arrays: crops of a side "
                "must not overhang its blocks"
            )
    parts = [within._bounds(first_uri(origin), size, crops.from_last) for origin, size in crops.sizes.items()]
    which = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    bounds = np.concatenate(parts)
    regions = Regions(
        origins,
        which,
        np.maximum(bounds[:, :, 0], low[which]),
        np.minimum(bounds[:, :, 1], high[which]),
        steps[which],
        firsts[which],
    ).grown(margins or (0,) * axes)
    fits = (regions.starts() <= regions.last_starts(crops.extents)).all(axis=1)
    if not fits.any():
        raise ValueError(
            f"within: no block has room for a crop of {crops.extents}: say split(..., extents={crops.extents})"
            if len(bounds)
            else "within: none of the arrays lies on this side of the split"
        )
    return Regions(origins, *(getattr(regions, name)[fits] for name in ("which", "low", "high", "steps", "firsts")))


def _common(starts: tuple[Steps, ...], align: tuple[int, ...], crops: Cropped, origin: Origin) -> list[Steps]:
    """Where crops start that start at multiples of `align`."""
    found = []
    for k, (each, multiple) in enumerate(zip(starts, align)):
        both = Steps(multiple, 0).common(each)
        if both is None:
            raise ValueError(
                f"align: axis {crops.axis(origin, k)} of {first_uri(origin)}: no multiple of {multiple} is a voxel "
                f"edge of all arrays; these are {each.first}, {each.first + each.step}, ..."
            )
        found.append(both)
    return found
