"""Turns a box or an index into stretches of indices along each axis, which the native library reads. Reads nothing.

Integers and slices follow NumPy's basic indexing: negative numbers count from the end, and slices are cut at the ends.
Pairs, ranges and lists of indices are boxes: negative numbers lie before the array."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from damacy._core.errors import InvalidArgument, RankMismatch
from damacy._core.integers import as_int, shown
from damacy._pipeline.boxes import is_pair

Stretch = tuple[int, int, int]  # start, step, count


class Selection(NamedTuple):
    """Stretches of each stored axis, the extents that they select, and the shape of the result."""

    stretches: list[list[Stretch]]
    extents: tuple[int, ...]
    shape: tuple[int, ...]


def selection(box: Any, shape: tuple[int, ...]) -> Selection:
    """The selection of a box in an array of `shape`; None is the whole array.

    >>> selection((slice(None, None, 2), -1), (5, 3))
    Selection(stretches=[[(0, 2, 3)], [(2, 1, 1)]], extents=(3, 1), shape=(3,))
    >>> selection([(1, 4), range(0, 3, 2)], (5, 3)).shape
    (3, 2)
    """
    axes = _all_axes(box, shape)
    stretches: list[list[Stretch]] = []
    extents: list[int] = []
    result: list[int] = []
    for axis in axes:
        if axis is None:
            result.append(1)
            continue
        k = len(stretches)
        found = _axis(k, axis, shape[k])
        stretches.append(found)
        extents.append(sum(count for _, _, count in found))
        if not is_index(axis):
            result.append(extents[-1])
    return Selection(stretches, tuple(extents), tuple(result))


def row_box(box: Any, shape: tuple[int, ...]) -> list[Any]:
    """The axes of a box for a `Sample`, or integers, which are not negative. Slices become ranges in the array.

    >>> row_box((slice(None, None, 2), -1), (5, 3))
    [range(0, 5, 2), 2]
    """
    axes = _all_axes(box, shape)
    if None in axes:
        raise TypeError("a box of a row has no new axes: say ArraySpec(order=...)")
    return [_row_axis(k, axis, size) for k, (axis, size) in enumerate(zip(axes, shape))]


def _row_axis(k: int, axis: Any, size: int) -> Any:
    if is_index(axis):
        return _index(k, operator.index(axis), size)
    if isinstance(axis, slice):
        _step(k, axis.step)
        return range(*axis.indices(size))
    if isinstance(axis, range):
        _step(k, axis.step)
    return axis


def _all_axes(box: Any, shape: tuple[int, ...]) -> list[Any]:
    """One item for each axis of the array; `...` and what is left out at the end are whole. None is a new axis."""
    axes = _axes(box)
    used = sum(axis is not None and axis is not ... for axis in axes)
    if used > len(shape):
        raise RankMismatch(
            f"the index has {used} axes, the array has {len(shape)}: its shape is {shape}", reason="rank"
        )
    dots = [k for k, axis in enumerate(axes) if axis is ...]
    if len(dots) > 1:
        raise IndexError("the index has more than one '...'")
    at = dots[0] if dots else len(axes)
    axes[at : at + 1] = [slice(None)] * (len(shape) - used)
    return axes


def _axes(box: Any) -> list[Any]:
    if box is None:
        return [...]
    if getattr(box, "ndim", None) == 2 and hasattr(box, "tolist"):  # pairs in an array
        return list(box.tolist())
    if isinstance(box, (tuple, list)):
        return list(box)
    return [box]


def is_index(axis: Any) -> bool:
    """Whether an axis of a box is an integer, which drops the axis."""
    return not isinstance(axis, bool) and hasattr(type(axis), "__index__") and not getattr(axis, "shape", ())


def _axis(k: int, axis: Any, size: int) -> list[Stretch]:
    if is_index(axis):
        return [(_index(k, operator.index(axis), size), 1, 1)]
    if isinstance(axis, slice):
        step = _step(k, axis.step)
        start, stop, _ = axis.indices(size)
        return [(start, step, len(range(start, stop, step)))]
    if isinstance(axis, range):
        _step(k, axis.step)
        return _inside(k, axis.start, axis.step, len(axis), size)
    if (indices := getattr(axis, "indices", None)) is not None:  # damacy.Take
        return [piece for index in indices for piece in _inside(k, index, 1, 1, size)]
    if is_pair(axis):
        start, stop = (as_int(bound, f"aabb axis {k}: {name}") for bound, name in zip(axis, ("start", "stop")))
        if stop < start:
            raise InvalidArgument(f"aabb axis {k}: stop {shown(stop)} is below start {shown(start)}", reason="aabb")
        return _inside(k, start, 1, stop - start, size)
    raise TypeError(f"aabb axis {k}: expected an integer, a slice, a (start, stop) pair or a range; got {_kind(axis)}")


def _kind(axis: Any) -> str:
    return type(axis).__name__


def _step(k: int, given: Any) -> int:
    step = 1 if given is None else as_int(given, f"aabb axis {k}: slice step")
    if step < 1:
        raise InvalidArgument(
            f"aabb axis {k}: slice step must be >= 1 (got step={step}): say flip=({k},)", reason="aabb"
        )
    return step


def _index(k: int, index: int, size: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"index {shown(index)} is out of bounds for axis {k} with size {size}")
    return index + size if index < 0 else index


def _inside(k: int, start: int, step: int, count: int, size: int) -> list[Stretch]:
    if count and start < 0:
        raise InvalidArgument(f"aabb axis {k}: index {shown(start)} is before the array", reason="aabb")
    if count and start + (count - 1) * step >= size:
        stop = start + (count - 1) * step + 1
        raise InvalidArgument(f"aabb axis {k}: stop {shown(stop)} is beyond the array's size {size}", reason="aabb")
    return [(start, step, count)]
