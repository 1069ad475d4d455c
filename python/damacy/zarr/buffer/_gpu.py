"""The buffer classes: zarr's buffer interface on top of `DeviceArray`, with zarr's errors and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np
import zarr.errors
from zarr.abc.buffer import Buffer as _ZarrBuffer
from zarr.abc.buffer import NDBuffer as _ZarrNDBuffer
from zarr.core.buffer import BufferPrototype, cpu

from damacy._device import array as arrays

_HOME = "damacy.zarr.buffer.gpu"
_BYTE = np.dtype("B")
_SLOW_COPY = (
    "Creating a zarr.buffer.gpu.{} with an array that does not support the __cuda_array_interface__ for zero-copy "
    "transfers, falling back to slow copy based path"
)
_BUFFER_WARNING = getattr(zarr.errors, "ZarrUserWarning", UserWarning)


# True while damacy runs zarr's own pipeline on the host. Its v2 codec creates buffers of the configured class; these
# then hold NumPy arrays.
host_stands_in: ContextVar[bool] = ContextVar("host_stands_in", default=False)


class _NotBytes(ValueError, AssertionError):
    """zarr up to 3.3 raises `AssertionError`, later versions `ValueError`."""


class _ObjectDtype(TypeError, AssertionError):
    """zarr up to 3.3 raises `AssertionError`, later versions `TypeError`."""


def _callers_level() -> int:
    """The `stacklevel` of the first frame outside this file."""
    level, frame = 2, sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == __file__ and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def _on_device(x: Any, class_name: str, category: type[Warning]) -> arrays.DeviceArray:
    """`x` without a copy if it is device memory; else a copy and a warning."""
    found = arrays.wrap(x)
    if found is None:
        warnings.warn(_SLOW_COPY.format(class_name), category, stacklevel=_callers_level())
        found = arrays.asarray(x)
    return found


class Buffer(_ZarrBuffer):
    """Flat bytes in device memory; `as_array_like()` is the `DeviceArray`."""

    _data: Any

    def __init__(self, array_like: Any) -> None:
        found = arrays.wrap(array_like)
        seen = array_like if found is None else found
        if seen.ndim != 1:
            raise ValueError("array_like: only 1-dim allowed")
        if seen.dtype != _BYTE:
            raise ValueError("array_like: only byte dtype allowed")
        self._data = _on_device(array_like, "Buffer", _BUFFER_WARNING) if found is None else found

    @classmethod
    def from_array_like(cls, array_like: Any) -> Any:  # as inherited, but a warning names the caller's line, not zarr's
        return cls(array_like)

    @classmethod
    def create_zero_length(cls) -> Any:
        return cls(arrays.empty((0,), _BYTE))

    @classmethod
    def from_buffer(cls, buffer: Any) -> Any:
        return cls(buffer.as_array_like())

    @classmethod
    def from_bytes(cls, bytes_like: Any) -> Any:
        return cls(arrays.asarray(np.frombuffer(memoryview(bytes_like).cast("B"), _BYTE)))

    def as_numpy_array(self) -> Any:
        return self._data.numpy()

    def combine(self, others: Iterable[Any]) -> Any:
        parts = [self._data]
        for other in others:
            array = other.as_array_like()
            found = arrays.wrap(array)
            parts.append(_on_device(array, "Buffer", _BUFFER_WARNING) if found is None else found)
        if any(part.dtype != _BYTE for part in parts):
            raise _NotBytes("only buffers of bytes can be combined")
        joined = arrays.empty((sum(part.size for part in parts),), _BYTE, device=self._data.device)
        start = 0
        for part in parts:
            joined[start : start + part.size] = part
            start += part.size
        return type(self)(joined)

    def __add__(self, other: Any) -> Any:
        return self.combine([other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ZarrBuffer):
            return False
        if len(self) != len(other):
            return False
        return bool(np.array_equal(self.as_numpy_array(), other.as_numpy_array()))

    __hash__ = None  # type: ignore[assignment]  # == compares contents, which change


class NDBuffer(_ZarrNDBuffer):
    """An n-dimensional array in device memory; `as_ndarray_like()` is the `DeviceArray`."""

    _data: Any

    def __init__(self, array: Any) -> None:
        found = arrays.wrap(array)
        if found is None and getattr(getattr(array, "dtype", None), "kind", "") == "O":
            raise _ObjectDtype("zarr.buffer.gpu.NDBuffer does not support arrays with object dtype.")
        self._data = _on_device(array, "NDBuffer", UserWarning) if found is None else found

    @classmethod
    def create(cls, *, shape: Iterable[int], dtype: Any, order: Any = "C", fill_value: Any = None) -> Any:
        made = cls.empty(tuple(shape), dtype, order)
        if fill_value is not None:
            made.fill(fill_value)
        return made

    @classmethod
    def empty(cls, shape: Any, dtype: Any, order: Any = "C") -> Any:
        if np.dtype(dtype).hasobject:
            raise _ObjectDtype("zarr.buffer.gpu.NDBuffer does not support arrays with object dtype.")
        return cls(arrays.empty(tuple(shape), dtype, order))

    @classmethod
    def from_ndarray_like(cls, ndarray_like: Any) -> Any:
        return cpu.NDBuffer(ndarray_like) if host_stands_in.get() else cls(ndarray_like)

    @classmethod
    def from_numpy_array(cls, array_like: Any) -> Any:
        host = np.asarray(array_like)
        if host.dtype == object:
            raise _ObjectDtype("zarr.buffer.gpu.NDBuffer does not support arrays with object dtype.")
        return cls(arrays.asarray(host))

    def as_numpy_array(self) -> Any:
        return self._data.numpy()

    def __getitem__(self, key: Any) -> Any:
        return type(self)(self._data[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, NDBuffer):
            value = value._data
        elif isinstance(value, _ZarrNDBuffer):
            value = NDBuffer(value.as_ndarray_like())._data
        self._data[key] = value

    def all_equal(self, other: Any, equal_nan: bool = True) -> bool:
        """Whether all elements equal `other`. If `other` is a float zero, -0.0 and 0.0 differ."""
        if other is None:
            return False
        if self._data.size == 0:
            return True
        data = self._data._read()
        is_plain = data.dtype.kind not in "USTOV"
        wanted = other.numpy() if isinstance(other, arrays.DeviceArray) else np.asarray(other)
        if is_plain and wanted.dtype.kind == "f" and bool(np.all(wanted == 0.0)):
            bits = np.dtype(f"V{data.dtype.itemsize}")
            cast = np.broadcast_to(wanted.astype(data.dtype), data.shape)
            return bool(np.array_equal(np.ascontiguousarray(data).view(bits), np.ascontiguousarray(cast).view(bits)))
        data, wanted = np.broadcast_arrays(data, wanted)
        return bool(np.array_equal(data, wanted, equal_nan=equal_nan and is_plain))


for _class in (Buffer, NDBuffer):
    _class.__module__ = _HOME

buffer_prototype = BufferPrototype(buffer=Buffer, nd_buffer=NDBuffer)
