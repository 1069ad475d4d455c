"""Descriptions of fields, and a small field class for users who have none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from damacy import _native
from damacy.halo._arrays import layout_of, library_of, whole

_PROTOCOLS = ("__cuda_array_interface__", "__array_interface__", "__array__", "__dlpack__", "__dlpack_device__")


@dataclasses.dataclass
class QuantityHaloSpec:
    """Memory layout of a field. Strides are in bytes and signed; `shape` is the allocation, halo included."""

    n_points: int
    strides: Sequence[int]
    itemsize: int
    shape: Sequence[int]
    origin: Sequence[int]
    extent: Sequence[int]
    dims: Sequence[str]
    numpy_module: Any
    dtype: Any


class _DomainView:
    """Indexes only the compute domain."""

    def __init__(self, quantity: Quantity) -> None:
        self._domain = quantity.data[_native.halo_domain_slices(quantity.origin, quantity.extent)]

    def __getitem__(self, index: Any) -> Any:
        return self._domain[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._domain[index] = value


class Quantity:
    """An array with named dimensions and a compute domain.

    >>> import numpy as np
    >>> q = Quantity(np.zeros((6, 8)), ("j", "i"), "m", origin=(1, 1), extent=(4, 6))
    >>> q.view[:] = 1
    >>> int(q.data.sum()), q.halo_spec(1).n_points
    (24, 1)
    """

    def __init__(
        self,
        data: Any,
        dims: Sequence[str],
        units: str = "",
        *,
        origin: Sequence[int] | None = None,
        extent: Sequence[int] | None = None,
    ) -> None:
        self.data = data
        self.dims = tuple(dims)
        self.units = units
        self.origin, self.extent = _native.halo_domain(self.dims, data.shape, origin, extent)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def np(self) -> Any:
        """The array's module: numpy, cupy, torch …"""
        import importlib

        return importlib.import_module(library_of(self.data))

    @property
    def view(self) -> _DomainView:
        return _DomainView(self)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = value

    def __getattr__(self, name: str) -> Any:
        if name in _PROTOCOLS:
            return getattr(self.data, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def halo_spec(self, n_points: int) -> QuantityHaloSpec:
        """The layout for an exchange. ValueError if a horizontal side has fewer than `n_points` halo cells."""
        _native.check_halo_points(self.dims, self.shape, self.origin, self.extent, n_points)
        layout = layout_of(whole(self.data))
        return QuantityHaloSpec(
            n_points,
            layout.strides,
            getattr(self.data, "itemsize", None) or self.data.element_size(),
            self.shape,
            self.origin,
            self.extent,
            self.dims,
            self.np,
            self.dtype,
        )
