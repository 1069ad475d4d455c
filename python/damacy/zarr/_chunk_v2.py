"""The values that `GDSStore` returns to zarr-python 2 if CuPy is not installed: device arrays that zarr 2 and numcodecs
can use. Does not know stores."""

from __future__ import annotations

from typing import Any

import numpy as np

import damacy
from damacy import DeviceArray


class Chunk(DeviceArray):
    """A `DeviceArray` that converts itself to a NumPy array, by a copy to the host, where a function needs one.

    numcodecs and the results of zarr 2 use host memory. A plain `DeviceArray` refuses such a conversion."""

    __slots__ = ()

    @classmethod
    def empty(cls, size: int) -> Chunk:
        """`size` uninitialised bytes on the default device."""
        array = damacy.empty((size,), "B")
        made: Chunk = cls._of(array._array, array._block, array._device)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in (np.asanyarray, np.asarray, np.array):
            return super().__array_function__(func, types, args, kwargs)
        return func(*(x.numpy() if isinstance(x, Chunk) else x for x in args), **kwargs)
