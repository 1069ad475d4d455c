"""Voxels and world coordinates: the centre of voxel `i` lies at `scale * i + translation`. Knows no arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

NEAR = 1e-6  # a number of voxels this close to an integer is that integer


class Place(NamedTuple):
    """Where the voxels of one axis lie."""

    scale: float
    translation: float


def voxels(number: float) -> int:
    """The first voxel at or after a place in voxels: the ceiling, except within 1e-6 of an integer.

    >>> voxels(2.0000001), voxels(2.1), voxels(1.9999999)
    (2, 3, 2)
    """
    nearest = round(number)
    return nearest if abs(number - nearest) <= NEAR else math.ceil(number)


def first_voxel(place: Place, world: float) -> int:
    """The first voxel whose centre is not below `world`."""
    return voxels((world - place.translation) / place.scale)


def around(place: Place, center: float, count: int) -> tuple[int, int]:
    """The `count` voxels around a point.

    >>> around(Place(0.5, 0.0), 2.0, 3), around(Place(0.5, 0.0), 2.0, 4)
    ((3, 6), (2, 6))
    """
    start = voxels((center - place.translation) / place.scale - count / 2)
    return start, start + count


def edges(place: Place, start: int, stop: int) -> tuple[float, float]:
    """The world interval from the edge of voxel `start` to that before `stop`: half a voxel before the centres.

    >>> edges(Place(0.5, 10.0), 0, 4)
    (9.75, 11.75)
    """
    return place.scale * (start - 0.5) + place.translation, place.scale * (stop - 0.5) + place.translation


def finite(value: Any, name: str) -> float:
    """`value` as a finite float; `TypeError` or `ValueError` with `name`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number (got {type(value).__name__})") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite (got {number})")
    return number
