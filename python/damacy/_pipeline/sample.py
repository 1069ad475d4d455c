"""`Sample`: a box in an array. Knows the forms of a box; `push` checks that the array exists and contains it."""

from __future__ import annotations

import copy
import dataclasses
import operator
import os
from collections.abc import Iterable
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from damacy._core.integers import as_int
from damacy._pipeline.opened_arrays import opened

if TYPE_CHECKING:
    from damacy.typing import Box, Source


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """A box of an array: `aabb` is half-open, in level-0 voxels, one axis per axis of the array in stored order.

    An axis is a `slice`, or a tuple or list `(start, stop)`. An integer array of shape (n, 2) is also a box. All
    spellings of a box compare equal. The shape of a uri is not looked up, so a slice needs its stop, and negative
    numbers do not count from the end: `push` refuses them.

    Instead of a uri, an opened array can be passed: a `damacy.ArrayInfo`, a `zarr.Array` on a local disk, or an
    `xarray.DataArray` that is a whole such array (`TypeError` for any other). Its shape is known: slices may omit their
    stop, and axes in `...` or omitted at the end are whole.

    `row_key` is `(epoch, index)` if a sampler made the sample, else None; equality and hash ignore it.

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
    row_key: tuple[int, int] | None = dataclasses.field(default=None, compare=False)

    # The fields have the stored types; the parameters accept more.
    def __init__(self, uri: Source, aabb: Box, *, row_key: tuple[int, int] | None = None) -> None:
        array = None if isinstance(uri, str) else opened(uri)  # a sampler makes many samples of one uri
        object.__setattr__(self, "uri", uri_text(uri) if array is None else array.uri)
        object.__setattr__(self, "aabb", _box(aabb) if array is None else _box(_closed(aabb, array.shape)))
        object.__setattr__(self, "row_key", None if row_key is None else _pair_of_ints(row_key))

    def __repr__(self) -> str:
        key = "" if self.row_key is None else f", row_key={self.row_key!r}"
        return f"{type(self).__qualname__}(uri={_without_secrets(self.uri)!r}, aabb={self.aabb!r}{key})"


def made_sample(uri: str, aabb: tuple[tuple[int, int], ...], row_key: tuple[int, int]) -> Sample:
    """A `Sample` of values that already have the types of its fields; does not check them."""
    sample = object.__new__(Sample)
    object.__setattr__(sample, "uri", uri)
    object.__setattr__(sample, "aabb", aabb)
    object.__setattr__(sample, "row_key", row_key)
    return sample


def with_row_key(sample: Any, row_key: tuple[int, int]) -> Any:
    """The sample if it has that key, else a copy with it. Other objects are returned unchanged; push refuses them."""
    if not isinstance(sample, Sample) or sample.row_key == row_key:
        return sample
    copied = copy.copy(sample)
    object.__setattr__(copied, "row_key", row_key)
    return copied


def _pair_of_ints(row_key: Any) -> tuple[int, int]:
    if not isinstance(row_key, (tuple, list)) or len(row_key) != 2:
        raise TypeError(f"row_key must be (epoch, index) or None (got {row_key!r})")
    return as_int(row_key[0], "row_key[0]"), as_int(row_key[1], "row_key[1]")


def uri_text(uri: Any) -> str:
    """A uri as plain `str`, also of an opened array; `TypeError` for other objects."""
    if not isinstance(uri, str) and (array := opened(uri)) is not None:
        return array.uri
    path = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(path, str):
        raise TypeError(f"uri must be a str or an os.PathLike of str (got {type(uri).__name__})")
    return str.__str__(path)


def _without_secrets(uri: str) -> str:
    if "://" not in uri:
        return uri
    from damacy import _native

    return str(_native.without_secrets(uri))


def _box(aabb: Iterable[Any]) -> tuple[tuple[int, int], ...]:
    return tuple(_axis(k, axis) for k, axis in enumerate(_axes(aabb)))


def _axes(aabb: Iterable[Any]) -> Iterable[Any]:
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


def _closed(aabb: Any, shape: tuple[int, ...]) -> list[Any]:
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


def _axis(k: int, axis: Any) -> tuple[int, int]:
    if isinstance(axis, slice):
        if not _is_unit_step(axis.step):
            raise ValueError(f"aabb axis {k}: slice step must be 1 or omitted (got step={axis.step})")
        if axis.stop is None:
            raise ValueError(f"aabb axis {k}: slice stop is required (got {axis!r})")
        start, stop = 0 if axis.start is None else axis.start, axis.stop
    elif _is_pair(axis):
        start, stop = axis
    else:
        raise TypeError(f"aabb axis {k}: expected slice or (start, stop) tuple; got {type(axis).__name__}")
    return as_int(start, f"aabb axis {k}: start"), as_int(stop, f"aabb axis {k}: stop")


def _is_pair(axis: Any) -> bool:
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
