"""Which stored array of a label is read for an index, and how its voxels lie on those of the label. Reads metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._open.images import Image
from damacy._open.world import Place
from damacy._pipeline.cropped_arrays import looked_at
from damacy._pipeline.same_place import Scaled, fit

_LARGEST_DENOMINATOR = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True)
class LabelLevel:
    """A level of a label, and how it lies on the label."""

    number: int
    shape: tuple[int, ...]
    """Of the label, that is of its level 0."""
    axes: tuple[Scaled, ...]
    """For each axis how the voxels of the level lie on those of the label."""

    def extents(self, of_label: tuple[int, ...]) -> tuple[int, ...]:
        """The whole voxels of the level in so many of the label."""
        return tuple(extent * axis.times // axis.per for extent, axis in zip(of_label, self.axes))

    def voxels(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """The voxels of the label in so many of the level, rounded up."""
        return tuple(-(-extent * axis.per // axis.times) for extent, axis in zip(extents, self.axes))

    def on_label(self, bounds: I64) -> I64:
        """The smallest boxes of the label that contain boxes of the level, and end where the label ends."""
        if self.number == 0:
            return bounds
        found = np.empty_like(bounds)
        for k, (axis, size) in enumerate(zip(self.axes, self.shape)):
            low, high = axis.hull(bounds[:, k, 0], bounds[:, k, 1])
            found[:, k, 0], found[:, k, 1] = np.clip(low, 0, size - 1), np.clip(high, 1, size)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class ReadLabel:
    """What is read of a label."""

    uri: str
    """Of the array that is read."""
    look: Any
    """Its metadata."""
    level: LabelLevel
    path: str
    """Of the array in the label; empty if the label is an array."""


def labels_read(uris: Iterable[str], level: int) -> dict[str, ReadLabel]:
    """By the uri of the label. `ValueError` if a label has no such level, or if the level has no scale."""
    if level == 0:
        return {
            uri: ReadLabel(uri, look, same_level(look.shape), path_of(look, 0) or "")
            for uri, look in looked_at(uris).items()
        }
    return {uri: _of_level(uri, level) for uri in dict.fromkeys(uris)}


def path_of(look: Any, level: int) -> str | None:
    """The path of a level in its image, empty for an array; None if there is none."""
    if level == 0 and not look.levels:
        return ""
    levels: tuple[str, ...] = look.levels
    return levels[level] if level < len(levels) else None


def same_level(shape: tuple[int, ...]) -> LabelLevel:
    """Level 0."""
    return LabelLevel(0, shape, tuple(Scaled(k, 1, 1, 0) for k in range(len(shape))))


def _of_level(uri: str, level: int) -> ReadLabel:
    from damacy._open.opening import array_or_image

    label = array_or_image(uri)
    if not isinstance(label, Image) or level >= len(label.levels):
        count = len(label.levels) if isinstance(label, Image) else 1
        raise ValueError(f"{uri}: no level {level}: the label has {count}")
    coarse = label.level(level)
    axes: list[Scaled] = []
    for k, (scale, other) in enumerate(zip(label.scale, coarse.scale)):
        if scale is None or other is None or not scale * other > 0:
            raise ValueError(f"{uri}: axis {k} of level {level} has no scale that tells its place: use level 0")
        places = Place(scale, label.translation[k] or 0.0), Place(other, coarse.translation[k] or 0.0)
        ratio = Fraction(scale / other).limit_denominator(_LARGEST_DENOMINATOR)
        if ratio == 0:
            raise ValueError(f"{uri}: a voxel of level {level} is too large on axis {k}: use a finer level")
        axes += fit(k, places[0], [places[1]], [ratio]).axes
    return ReadLabel(coarse.uri, coarse, LabelLevel(level, label.shape, tuple(axes)), label.levels[level])
