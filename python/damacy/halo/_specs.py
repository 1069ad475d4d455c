"""The description of one exchange of one quantity with one peer, and its checks. Knows boxes and rotations; not buffers
or arrays."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from damacy.halo._dtypes import ITEMSIZE, code_of
from damacy.halo._errors import InvalidArgument, OutsideAllocation
from damacy.halo.constants import I_DIMS, J_DIMS
from damacy.halo.quantity import QuantityHaloSpec
from damacy.halo.rotate import horizontal_axes

_ids = itertools.count()
_Ends = tuple[tuple[int, ...], tuple[int, ...]]  # starts and stops of a box


def resolve_box(slices: Sequence[slice], shape: Sequence[int], dims: Sequence[str], name: str) -> _Ends:
    """Starts and stops of a box. ValueError or IndexError, which name the dimension."""
    if len(slices) != len(shape):
        raise InvalidArgument(f"{name}: expected a slice for each of the dimensions {tuple(dims)} (got {len(slices)})")
    starts, stops = [], []
    for part, length, dim in zip(slices, shape, dims):
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InvalidArgument(f"{name}, dimension {dim}: expected a slice with step None or 1 (got {part!r})")
        try:
            start = 0 if part.start is None else operator.index(part.start)
            stop = length if part.stop is None else operator.index(part.stop)
        except TypeError:
            raise InvalidArgument(f"{name}, dimension {dim}: expected a slice of integers (got {part!r})") from None
        start, stop = (end + length if end < 0 else end for end in (start, stop))
        if min(start, stop) < 0 or max(start, stop) > length:
            raise OutsideAllocation(f"{name}, dimension {dim}: {part!r} extends beyond the {length} allocated cells")
        if start > stop:
            raise InvalidArgument(f"{name}, dimension {dim}: {part!r} starts after its stop")
        starts.append(start)
        stops.append(stop)
    return tuple(starts), tuple(stops)


def dims_kind(dims: Sequence[str]) -> tuple[str, ...]:
    """Dimension names with `_interface` removed."""
    return tuple(name.removesuffix("_interface") for name in dims)


@dataclasses.dataclass
class HaloExchangeSpec:
    """One exchange of one quantity with one peer. Boxes are absolute in the allocation, in cells.

    `pack_clockwise_rotation` (any integer, mod 4): quarter turns between the two ranks' axes; the packer undoes them.
    Raises ValueError or IndexError for a box with an invalid start, stop or step, or beyond the allocation.
    """

    specification: QuantityHaloSpec
    pack_slices: tuple[slice, ...]
    pack_clockwise_rotation: int
    unpack_slices: tuple[slice, ...]

    def __post_init__(self) -> None:
        self._id = next(_ids)
        # Computed by `check`.
        self._code: int
        self._turns: int
        self._pack_box: _Ends
        self._unpack_box: _Ends
        self._shape: tuple[int, ...]
        self._strides: tuple[int, ...]
        self._dims: tuple[str, ...]
        self._axes: tuple[int, int]
        check(self)

    @property
    def pack_buffer_size(self) -> int:
        """Number of packed elements."""
        return _count(self._pack_box)

    @property
    def _unpack_buffer_size(self) -> int:
        return _count(self._unpack_box)


def _count(box: _Ends) -> int:
    return math.prod(stop - start for start, stop in zip(*box))


def check(spec: HaloExchangeSpec) -> None:
    """Checks a spec and computes the attributes that plans need."""
    q = spec.specification
    rank = len(q.shape)
    for name in ("strides", "origin", "extent", "dims"):
        if len(getattr(q, name)) != rank:
            raise InvalidArgument(
                f"{name} has {len(getattr(q, name))} entries for shape {tuple(q.shape)}, dimensions {tuple(q.dims)}"
            )
    dims = tuple(q.dims)
    shape = tuple(operator.index(n) for n in q.shape)
    for dim, length in zip(dims, shape):
        if length < 0:
            raise InvalidArgument(f"dimension {dim}: expected a number of cells (got {length})")
    spec._code = code_of(q.dtype)
    if q.itemsize != ITEMSIZE[spec._code]:
        raise InvalidArgument(f"itemsize: expected {ITEMSIZE[spec._code]} for {q.dtype!r} (got {q.itemsize})")
    spec._turns = operator.index(spec.pack_clockwise_rotation) % 4
    spec._pack_box = resolve_box(spec.pack_slices, shape, dims, "pack box")
    spec._unpack_box = resolve_box(spec.unpack_slices, shape, dims, "unpack box")
    spec._strides = tuple(operator.index(s) for s in q.strides)
    for dim, stride, start, stop in zip(dims, spec._strides, *spec._unpack_box):
        if stride == 0 and stop - start > 1 and spec._unpack_buffer_size:  # an empty array of NumPy has strides of 0
            raise InvalidArgument(f"unpack box, dimension {dim}: {stop - start} cells overlap (the stride is 0)")
    if spec._turns:
        for kind in (I_DIMS, J_DIMS):
            if sum(d in kind for d in dims) > 1:
                raise InvalidArgument(f"cannot rotate dimensions {dims}: more than one is along {kind}")
    spec._shape, spec._dims, spec._axes = shape, dims, horizontal_axes(dims)


def native_field(spec: HaloExchangeSpec, strides: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """The spec's array, or one with other strides, for the native library. The spec's strides order a native wire."""
    return (spec._code, spec._shape, strides or spec._strides, *spec._axes, spec._strides)


def native_box(spec: HaloExchangeSpec, field: int, unpack: bool) -> tuple[Any, ...]:
    """The spec's box in array number `field`."""
    return (field, *(spec._unpack_box if unpack else spec._pack_box))
