"""The description of one exchange of one quantity with one peer. The native library checks it. Knows element types of
Python; not buffers or arrays."""

from __future__ import annotations

import dataclasses
import itertools
import operator

from damacy import _native
from damacy.halo._dtypes import ITEMSIZE, code_of
from damacy.halo._errors import InvalidArgument
from damacy.halo.quantity import QuantityHaloSpec

_ids = itertools.count()


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
        self._native = checked(self)

    @property
    def pack_buffer_size(self) -> int:
        """Number of packed elements."""
        return self._native.pack_size

    @property
    def _unpack_buffer_size(self) -> int:
        return self._native.unpack_size


def checked(spec: HaloExchangeSpec) -> _native.HaloExchangeSpec:
    """A C++ spec of the current attributes, which users may change between calls."""
    q = spec.specification
    code = code_of(q.dtype)
    if q.itemsize != ITEMSIZE[code]:
        raise InvalidArgument(f"itemsize: expected {ITEMSIZE[code]} for {q.dtype!r} (got {q.itemsize})")
    return _native.HaloExchangeSpec(
        (code, q.dims, q.shape, q.strides, q.origin, q.extent),
        spec.pack_slices,
        operator.index(spec.pack_clockwise_rotation) % 4,  # integers of Python have no end
        spec.unpack_slices,
    )
