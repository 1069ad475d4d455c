"""Where several arrays show the same place of the world: how the voxel edges of one lie on those of another, and at
which voxels a crop of all of them may start. Knows one axis at a time; opens nothing and draws nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from damacy._core.counter_rng_many import I64
from damacy._open.world import NEAR, Place

if TYPE_CHECKING:
    from fractions import Fraction

_MOST_MULTIPLE = 4096  # an error suggests extents up to this

Voxel = TypeVar("Voxel", int, I64)


@dataclasses.dataclass(frozen=True, slots=True)
class Scaled:
    """An axis of an array whose voxels are not those of the crop's axis.

    The edge before voxel `a` of the crop's axis is the edge before voxel `(times * a + offset) / per` of this one.
    """

    axis: int
    """The number of the crop's axis."""
    times: int
    per: int
    offset: int

    def interval(self, start: Voxel, stop: Voxel) -> tuple[Voxel, Voxel]:
        """The voxels of this axis, for edges that are edges of both.

        >>> Scaled(0, 1, 2, 6).interval(4, 10)
        (5, 8)
        """
        return (self.times * start + self.offset) // self.per, (self.times * stop + self.offset) // self.per

    def hull(self, start: Voxel, stop: Voxel) -> tuple[Voxel, Voxel]:
        """The smallest interval of the crop's axis that contains these voxels of this axis.

        >>> Scaled(0, 2, 1, 0).hull(3, 5)
        (1, 3)
        """
        return (
            (start * self.per - self.offset) // self.times,
            -((self.offset - stop * self.per) // self.times),
        )

    def inside(self, size: int) -> tuple[int, int]:
        """The interval of the crop's axis whose voxels lie in an array of this size."""
        return -(self.offset // self.times), (size * self.per - self.offset) // self.times


class Steps(NamedTuple):
    """Numbers with the same distance: `first + k * step`, for all integers k."""

    step: int
    first: int

    def common(self, other: Steps) -> Steps | None:
        """The numbers that both have; None if there are none.

        >>> Steps(4, 1).common(Steps(6, 3))
        Steps(step=12, first=9)
        """
        if other.step == 1 or self == other:
            return self
        shared = math.gcd(self.step, other.step)
        apart = other.first - self.first
        if apart % shared:
            return None
        step = math.lcm(self.step, other.step)
        count = apart // shared * pow(self.step // shared, -1, other.step // shared)
        return Steps(step, (self.first + count * self.step) % step)


EVERY = Steps(1, 0)


class Fit(NamedTuple):
    """How the voxels of several arrays lie on those of the first one."""

    starts: Steps
    """The voxels of the first array where crops may start, so that they start on voxel edges of all arrays."""
    axes: tuple[Scaled, ...]
    """For each other array."""
    misfits: tuple[float, ...]
    """For each other array by how much its voxels lie beside those of the first one, in its voxels; 0 if they fit."""


def fit(axis: int, first: Place, others: Sequence[Place], ratios: Sequence[Fraction]) -> Fit:
    """How other arrays lie on the first one. `ratios`: voxels of the other array for one of the first one.

    If translations say that no voxel edges coincide, the nearest voxel of the coarser array is taken, the lower one if
    two are equally near.
    """
    offsets = [_offset(first, other, ratio) for other, ratio in zip(others, ratios)]
    starts = EVERY
    found: dict[int, Scaled] = {}
    # Arrays whose edges coincide with the first one's decide first where crops start.
    for k in sorted(range(len(others)), key=lambda k: not _is_near_edge(offsets[k], ratios[k])):
        ratio, offset = ratios[k], offsets[k]
        times, per = ratio.numerator, ratio.denominator
        if _is_near_edge(offset, ratio):
            whole = round(offset * per)
            wanted = Steps(per, -whole * pow(times, -1, per) % per)
        elif ratio <= 1:
            whole = per * _nearest(offset)
            wanted = Steps(per, 0)
        else:
            shift = _nearest(-offset / float(ratio))
            whole = -times * shift
            wanted = Steps(per, shift % per)
        both = starts.common(wanted)
        if both is None:
            whole = per * _nearest(float(ratio * starts.first) + offset) - times * starts.first
            both = Steps(math.lcm(starts.step, per), starts.first)
        starts = both
        found[k] = Scaled(axis, times, per, whole)
    axes = tuple(found[k] for k in range(len(others)))
    misfits = (offset - axis.offset / axis.per for offset, axis in zip(offsets, axes))
    return Fit(starts, axes, tuple(0.0 if abs(misfit) <= NEAR else misfit for misfit in misfits))


def ratio_of(extent: int, first: float, other: float) -> Fraction | None:
    """Voxels of scale `other` for one of scale `first`; None if `extent` voxels are no whole number of the others.

    >>> ratio_of(96, 0.5, 1.0), ratio_of(15, 0.5, 1.0)
    (Fraction(1, 2), None)
    """
    if other == 0 or not extent * first / other > 0:
        return None
    exact = extent * first / other
    nearest = round(exact)
    if nearest < 1 or abs(exact - nearest) > NEAR:
        return None
    from fractions import Fraction  # loads slowly, and `import damacy` does not need it

    return Fraction(nearest, extent)


def least_extent(first: float, other: float) -> int | None:
    """The smallest number of voxels that is a whole number of the others; None if it is large or does not exist."""
    return next((n for n in range(1, _MOST_MULTIPLE + 1) if ratio_of(n, first, other) is not None), None)


def _offset(first: Place, other: Place, ratio: Fraction) -> float:
    """The place of the first array's first edge, in voxels of the other array. Translations are those of centres."""
    return (first.translation - other.translation) / other.scale + float(1 - ratio) / 2


def _is_near_edge(offset: float, ratio: Fraction) -> bool:
    """Whether some edges of the two arrays coincide."""
    return abs(offset - round(offset * ratio.denominator) / ratio.denominator) <= NEAR


def _nearest(number: float) -> int:
    """The nearest integer, the lower one of two."""
    return math.ceil(number - 0.5 - NEAR)
