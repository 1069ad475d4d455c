"""The description of one exchange of one quantity with one peer. The native library checks it. Knows slices and
element types of Python; not buffers or arrays."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Sequence

from damacy import _native
from damacy.halo._dtypes import ITEMSIZE, code_of
from damacy.halo._errors import InvalidArgument
from damacy.halo.quantity import QuantityHaloSpec

_ids = itertools.count()


def _ends(slices: Sequence[slice], dims: Sequence[str], name: str) -> list[tuple[int | None, int | None]]:
    """Starts and stops of slices, None where they have none. ValueError for anything else than slices of integers."""
    out = []
    for index, part in enumerate(slices):
        dim = dims[index] if index < len(dims) else f"number {index}"
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InvalidArgument(f"{name}, dimension {dim}: expected a slice with step None or 1 (got {part!r})")
        try:
            start, stop = (None if end is None else operator.index(end) for end in (part.start, part.stop))
        except TypeError:
            raise InvalidArgument(f"{name}, dimension {dim}: expected a slice of integers (got {part!r})") from None
        out.append((start, stop))
    return out


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
        self._native: _native.HaloExchangeSpec
        self._code: int
        self._shape: tuple[int, ...]
        self._strides: tuple[int, ...]
        self._dims: tuple[str, ...]
        check(self)

    @property
    def pack_buffer_size(self) -> int:
        """Number of packed elements."""
        return self._native.pack_size

    @property
    def _unpack_buffer_size(self) -> int:
        return self._native.unpack_size


def check(spec: HaloExchangeSpec) -> None:
    """Checks a spec and computes the attributes that plans need."""
    q = spec.specification
    spec._code = code_of(q.dtype)
    if q.itemsize != ITEMSIZE[spec._code]:
        raise InvalidArgument(f"itemsize: expected {ITEMSIZE[spec._code]} for {q.dtype!r} (got {q.itemsize})")
    spec._dims = tuple(q.dims)
    spec._native = _native.HaloExchangeSpec(
        (spec._code, spec._dims, q.shape, q.strides, q.origin, q.extent),
        _ends(spec.pack_slices, spec._dims, "pack box"),
        operator.index(spec.pack_clockwise_rotation) % 4,  # integers of Python have no end
        _ends(spec.unpack_slices, spec._dims, "unpack box"),
    )
    spec._shape, spec._strides = spec._native.shape, spec._native.strides
