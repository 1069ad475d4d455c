"""How the arrays of one sample are cropped together on one axis: by their scales and translations, or by equal sizes.
Knows opened arrays; opens none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from damacy._core.integers import elements
from damacy._open.world import Place
from damacy._pipeline.same_place import EVERY, Scaled, Steps, fit, least_extent, ratio_of

if TYPE_CHECKING:
    from fractions import Fraction

Key = str | int


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One array of a sample."""

    name: str
    look: Any
    """An `Array`; or an `ArrayInfo`, if it is the only array of the sample."""
    keys: tuple[Any, ...]
    """For each axis its name, or its number counted from the last one, which is -1."""

    def size(self, key: Key) -> int:
        size: int = self.look.shape[self.keys.index(key)]
        return size

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The names of its axes, as far as they have names."""
        return tuple(self.look.dims) or (None,) * self.look.ndim

    def place(self, key: Key) -> Place | None:
        """None if the axis has no scale."""
        axis = self.keys.index(key)
        scale = self.look.scale[axis]
        return None if scale is None else Place(scale, self.look.translation[axis] or 0.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Misfit:
    """The voxels of an array lie beside those of the first array of its sample."""

    name: str
    key: Key
    voxels: float
    """Of the array; above 0 if its voxels lie below the place they are taken for."""
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class SharedAxis:
    """One cropped axis of all arrays of a sample."""

    low: int
    """Crops lie in the voxels [`low`, `high`) of the first array."""
    high: int
    starts: Steps
    """Where they may start."""
    axes: tuple[int | Scaled | None, ...]
    """For each array, as in `Axes`; None if it lacks the axis."""
    misfits: tuple[Misfit, ...] = ()

    def extents(self, extent: int) -> tuple[int | None, ...]:
        """For each array the voxels of a crop; None if it lacks the axis."""
        return tuple(
            extent * axis.times // axis.per if isinstance(axis, Scaled) else None if axis is None else extent
            for axis in self.axes
        )


def first_axis(members: Sequence[Member], number: int, key: Key) -> SharedAxis:
    """The axis of the first array, without regard to the others."""
    axes = tuple(number if key in member.keys else None for member in members)
    return SharedAxis(0, members[0].size(key), EVERY, axes)


def shared_axis(members: Sequence[Member], number: int, key: Key, extent: int, sample: int) -> SharedAxis:
    """Axis `number` of a crop, which has `extent` voxels of the first array. `ValueError` if the arrays do not fit."""
    first = members[0]
    alone = first_axis(members, number, key)
    others = [k for k, axis in enumerate(alone.axes) if k > 0 and axis is not None]
    if not others:
        return alone
    place = first.place(key)
    low, high = alone.low, alone.high
    scaled: list[tuple[int, Place, Fraction]] = []
    for k in others:
        member = members[k]
        size, other = member.size(key), member.place(key)
        if place is None or other is None:
            if size != first.size(key):
                raise ValueError(
                    f"{first.look.uri}, {member.name} {sample}: axis {key} has {elements(first.size(key))}, "
                    f"{member.name} {size}, and no scale: give arrays with scale, or equal shapes"
                )
        elif other == place:
            high = min(high, size)
        else:
            scaled.append((k, other, _ratio(first, member, key, extent, place, other)))
    if place is None or not scaled:
        return dataclasses.replace(alone, high=high)
    found = fit(number, place, [other for _, other, _ in scaled], [ratio for *_, ratio in scaled])
    axes, misfits = list(alone.axes), []
    for (k, other, _), axis, misfit in zip(scaled, found.axes, found.misfits):
        begin, end = axis.inside(members[k].size(key))
        low, high = max(low, begin), min(high, end)
        axes[k] = number if axis == Scaled(number, 1, 1, 0) else axis
        if misfit:
            name = members[k].name
            text = (
                f"axis {key}: {name} lies {abs(misfit):.6g} of its voxels beside {first.name}: "
                f"translations {place.translation:g} and {other.translation:g}"
            )
            misfits.append(Misfit(name, key, misfit, text))
    return SharedAxis(low, high, found.starts, tuple(axes), tuple(misfits))


def _ratio(first: Member, other: Member, key: Key, extent: int, place: Place, other_place: Place) -> Fraction:
    """Voxels of the other array for one of the first one."""
    ratio = ratio_of(extent, place.scale, other_place.scale)
    if ratio is not None:
        return ratio
    scales = f"{first.name} (scale {float(place.scale)})", f"{other.name} (scale {float(other_place.scale)})"
    if not place.scale * other_place.scale > 0:
        raise ValueError(f"axis {key}: the scales of {scales[0]} and {scales[1]} must have one sign, and not be 0")
    least = least_extent(place.scale, other_place.scale)
    advice = f"choose a multiple of {least}" if least is not None else "no number of voxels fits: correct the scales"
    raise ValueError(
        f"axis {key}: {extent} voxels of {scales[0]} are {extent * place.scale / other_place.scale:g} of {scales[1]}: "
        f"{advice}"
    )
