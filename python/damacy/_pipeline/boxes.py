"""The forms of a box: slices, pairs, ranges and single indices, as they are given and as a `Sample` stores them. Knows
shapes where they are given; no arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from types import EllipsisType
from typing import Any

from damacy._core.integers import as_int
from damacy._pipeline.take import Take

BoxAxis = tuple[int, int] | range | Take
"""An axis of a box: (start, stop), a range with a step above 1, or single indices."""


def box_of(aabb: Iterable[Any], *, steps: bool = False) -> tuple[BoxAxis, ...]:
    """The axes of a box as a sample stores them. `steps`: slices may have steps."""
    return tuple([_axis(k, axis, steps) for k, axis in enumerate(_axes(aabb))])


def _axes(aabb: Iterable[Any]) -> Iterable[Any]:
    if type(aabb) is list or type(aabb) is tuple:
        return aabb
    if getattr(aabb, "ndim", None) == 2 and hasattr(aabb, "tolist"):  # an array of NumPy or of another library
        rows: list[Any] = aabb.tolist()
        return rows
    try:
        return iter(aabb)
    except TypeError:
        one_axis = "; of one axis: [(start, stop)]" if isinstance(aabb, slice) else ""
        raise TypeError(
            f"aabb must be an iterable of slices or (start, stop) tuples (got {type(aabb).__name__}{one_axis})"
        ) from None


def closed(aabb: Any, shape: tuple[int, ...]) -> list[Any]:
    """The axes of a box of an array of that shape, with omitted starts, stops and axes filled in."""
    axes = [aabb] if isinstance(aabb, (slice, EllipsisType)) else list(_axes(aabb))
    dots = [k for k, axis in enumerate(axes) if axis is ...]
    if len(dots) > 1:
        raise ValueError("aabb has more than one '...'")
    if len(axes) - len(dots) > len(shape):
        return axes  # too many: push says so
    at = dots[0] if dots else len(axes)
    axes[at : at + 1] = [slice(None)] * (len(shape) - len(axes) + len(dots))
    return [
        slice(axis.start, size, axis.step) if isinstance(axis, slice) and axis.stop is None else axis
        for axis, size in zip(axes, shape)
    ]


def _axis(k: int, axis: Any, steps: bool) -> BoxAxis:
    if type(axis) is tuple and len(axis) == 2 and type(axis[0]) is int and type(axis[1]) is int:
        return axis  # as most are: the rest takes several times as long
    if isinstance(axis, Take):
        return axis
    if isinstance(axis, range):
        return _stepped(k, axis)
    if isinstance(axis, slice):
        if not _is_unit_step(axis.step):
            if not steps:
                raise ValueError(f"aabb axis {k}: slice step must be 1 or omitted (got step={axis.step})")
            if axis.stop is not None:
                start = as_int(0 if axis.start is None else axis.start, f"aabb axis {k}: start")
                stop, step = as_int(axis.stop, f"aabb axis {k}: stop"), as_int(axis.step, f"aabb axis {k}: step")
                _check_step(k, step)
                return _stepped(k, range(start, stop, step))
        if axis.stop is None:
            raise ValueError(f"aabb axis {k}: slice stop is required (got {axis!r})")
        start, stop = 0 if axis.start is None else axis.start, axis.stop
    elif is_pair(axis):
        start, stop = axis
    else:
        raise TypeError(f"aabb axis {k}: expected slice or (start, stop) tuple; got {type(axis).__name__}")
    if type(start) is int and type(stop) is int:
        return start, stop
    return as_int(start, f"aabb axis {k}: start"), as_int(stop, f"aabb axis {k}: stop")


def _check_step(k: int, step: int) -> None:
    if step < 1:
        raise ValueError(f"aabb axis {k}: slice step must be >= 1 (got step={step}): say flip=({k},)")


def _stepped(k: int, axis: range) -> BoxAxis:
    _check_step(k, axis.step)
    if axis.step == 1 or not axis:
        return axis.start, axis.stop
    if axis[-1] == axis.start:
        return axis.start, axis.start + 1
    return range(axis.start, axis[-1] + 1, axis.step)  # the elements decide, however far away the stop is


def is_pair(axis: Any) -> bool:
    """A tuple or list of two, or a row of an integer array."""
    if isinstance(axis, (tuple, list)):
        return len(axis) == 2
    return getattr(axis, "shape", None) == (2,) and hasattr(axis, "tolist")


def _is_unit_step(step: Any) -> bool:
    if step is None:
        return True
    try:
        return not isinstance(step, bool) and operator.index(step) == 1
    except TypeError:
        return False
