"""`Sample`: a box in an array. Knows how a box may be spelled; push judges whether the array exists and holds it."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Iterable

from damacy._integers import as_int

Axis = slice | tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """A box of an array: `aabb` is half-open, in level-0 voxels, one axis per axis of the array in stored order.

    An axis is a `slice` or a `(start, stop)` tuple; equal boxes are equal however they were spelled. The shape is not
    looked up, so a slice needs its stop, and negative numbers do not count from the end: `push` refuses them.

    >>> a = Sample(uri="cell.zarr", aabb=[(0, 64), (0, 256), (0, 256)])
    >>> b = Sample(uri="cell.zarr", aabb=[slice(None, 64), slice(0, 256), slice(0, 256)])
    >>> a == b, hash(a) == hash(b), a.aabb
    (True, True, ((0, 64), (0, 256), (0, 256)))
    >>> Sample(uri="cell.zarr", aabb=[64, 256, 256])
    Traceback (most recent call last):
    TypeError: aabb axis 0: expected slice or (start, stop) tuple; got int
    >>> Sample(uri="cell.zarr", aabb=slice(0, 64))
    Traceback (most recent call last):
    TypeError: aabb must be an iterable of slices or (start, stop) tuples (got slice; of one axis: [(start, stop)])
    """

    uri: str
    aabb: tuple[tuple[int, int], ...]

    # The fields are what is stored; this is what is taken.
    def __init__(self, uri: str | os.PathLike[str], aabb: Iterable[Axis]) -> None:
        object.__setattr__(self, "uri", uri_text(uri))
        object.__setattr__(self, "aabb", _box(aabb))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}(uri={_without_secrets(self.uri)!r}, aabb={self.aabb!r})"


def uri_text(uri: str | os.PathLike[str]) -> str:
    """A uri as plain `str`; `TypeError` for what is neither `str` nor a path."""
    path = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(path, str):
        raise TypeError(f"uri must be a str or an os.PathLike of str (got {type(uri).__name__})")
    return str.__str__(path)


def _without_secrets(uri: str) -> str:
    if "://" not in uri:
        return uri
    from damacy import _native

    return _native.without_secrets(uri)


def _box(aabb: Iterable[Axis]) -> tuple[tuple[int, int], ...]:
    try:
        axes = iter(aabb)
    except TypeError:
        one_axis = "; of one axis: [(start, stop)]" if isinstance(aabb, slice) else ""
        raise TypeError(
            f"aabb must be an iterable of slices or (start, stop) tuples (got {type(aabb).__name__}{one_axis})"
        ) from None
    return tuple(_axis(k, axis) for k, axis in enumerate(axes))


def _axis(k: int, axis: Axis) -> tuple[int, int]:
    if isinstance(axis, slice):
        if not _is_unit_step(axis.step):
            raise ValueError(f"aabb axis {k}: slice step must be 1 or omitted (got step={axis.step})")
        if axis.stop is None:
            raise ValueError(f"aabb axis {k}: slice stop is required (got {axis!r})")
        start, stop = 0 if axis.start is None else axis.start, axis.stop
    elif isinstance(axis, tuple) and len(axis) == 2:
        start, stop = axis
    else:
        raise TypeError(f"aabb axis {k}: expected slice or (start, stop) tuple; got {type(axis).__name__}")
    return as_int(start, f"aabb axis {k}: start"), as_int(stop, f"aabb axis {k}: stop")


def _is_unit_step(step: object) -> bool:
    if step is None:
        return True
    try:
        return not isinstance(step, bool) and operator.index(step) == 1  # type: ignore[arg-type]
    except TypeError:
        return False
