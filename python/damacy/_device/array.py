"""DeviceArray: a strided n-dimensional array in GPU memory, or in host memory if there is no GPU. Interface, errors and
results are the same for both, and as in NumPy.

Views, copies between equal types, byte swaps and fills run on the device. Casts, comparisons and array keys run on the
host. Implements NumPy's rules; `memory` allocates and copies."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from damacy._device import element_order, exchange, memory, refused_conversion
from damacy._device.no_arithmetic import NoArithmetic


class _Flags:
    """`c_contiguous`, `f_contiguous` and `writeable`, as in NumPy."""

    def __init__(self, flags: Any) -> None:
        self.c_contiguous: bool = flags.c_contiguous
        self.f_contiguous: bool = flags.f_contiguous
        self.writeable: bool = flags.writeable


def _is_basic(key: Any) -> bool:
    entries = key if isinstance(key, tuple) else (key,)
    for entry in entries:
        is_number = isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool_))
        if not (is_number or isinstance(entry, slice) or entry is None or entry is Ellipsis):
            return False
    return True


def _host_key(key: Any) -> Any:
    """The key with device arrays converted to NumPy arrays."""
    if isinstance(key, tuple):
        return tuple(_host_key(entry) for entry in key)
    return key.numpy() if isinstance(key, DeviceArray) else key


def _check_no_buffer(value: Any) -> None:
    buffers = sys.modules.get("zarr.abc.buffer")
    core = sys.modules.get("zarr.core.buffer.core")
    classes = tuple(c for m in (buffers, core) for c in (getattr(m, "Buffer", None), getattr(m, "NDBuffer", None)) if c)
    if isinstance(value, classes):
        raise TypeError(f"a {type(value).__name__} is not an array: assign its as_array_like() or as_ndarray_like()")


def _check_dtype(dtype: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(dtype)
    if found.hasobject:
        raise TypeError("a DeviceArray cannot hold elements of object dtype")
    return found


class DeviceArray(NoArithmetic):
    """An array in GPU or host memory. Created by `damacy.empty`, or by `damacy.asarray`, which wraps device memory of
    CuPy, torch and jax without a copy.

    >>> import damacy, numpy as np
    >>> a = damacy.asarray(np.arange(6, dtype="u2"), device="cpu").reshape(2, 3)
    >>> a[:, 1:].T.numpy().tolist()
    [[1, 4], [2, 5]]
    """

    __slots__ = ("__weakref__", "_array", "_block", "_device")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # as NumPy's arrays: == is by element

    _array: memory.Array
    _block: Any
    _device: str

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("a DeviceArray is created by damacy.empty or damacy.asarray")

    @classmethod
    def _of(cls, array: memory.Array, block: Any, device: str) -> DeviceArray:
        made = object.__new__(cls)
        made._array, made._block, made._device = array, block, device
        return made

    def _view_of(self, array: memory.Array) -> DeviceArray:
        return self._of(array, self._block, self._device)

    def _new(self, shape: Any, dtype: Any, strides: Any = None) -> DeviceArray:
        return self._of(*memory.new_array(self._device, shape, dtype, strides=strides), self._device)

    def _from_host(self, host: Any, order: str = "K") -> DeviceArray:
        host = np.asarray(host)
        made = self._new(host.shape, host.dtype, memory.ordered_strides(host, host.dtype, order))
        made._take_host(host)
        return made

    @property
    def _is_host(self) -> bool:
        return self._device == "cpu"

    def _read(self) -> memory.Array:
        """The elements in host memory: this array's own memory, or a copy."""
        return self._array if self._is_host else self._downloaded()

    def _downloaded(self) -> memory.Array:
        with exchange.in_order(self._device, self._block):
            return memory.download(self._device, self._array)

    def _upload(self, host: Any) -> None:
        with exchange.in_order(self._device, self._block):
            memory.upload(self._device, self._array, host)

    # Properties.
    dtype = property(lambda self: self._array.dtype)
    shape = property(lambda self: self._array.shape)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    itemsize = property(lambda self: self._array.itemsize)
    nbytes = property(lambda self: self._array.nbytes)
    strides = property(lambda self: self._array.strides)
    flags = property(lambda self: _Flags(self._array.flags))
    device = property(lambda self: self._device)
    T = property(lambda self: self.transpose())

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self._device!r})"

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("the truth value of an array with other than one element is ambiguous")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    if not TYPE_CHECKING:  # type checkers would then accept any attribute

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # for example __cuda_array_interface__ of an array in host memory
                raise AttributeError(f"this DeviceArray has no attribute {name!r}", name=name, obj=self)
            raise AttributeError(
                f"a DeviceArray has no attribute {name!r}: it holds values and does not compute. Pass it without a "
                "copy to torch.from_dlpack, cupy.from_dlpack or jax.dlpack.from_dlpack, or copy it to the host by "
                ".numpy()",
                name=name,
                obj=self,
            )

    # Indexing.
    def __getitem__(self, key: Any) -> DeviceArray:
        key = _host_key(key)
        if _is_basic(key):
            return self._view_of(self._basic_view(key))
        return self._from_host(np.asarray(self._read()[key]))

    def _basic_view(self, key: Any) -> memory.Array:
        entries = key if isinstance(key, tuple) else (key,)
        if not any(entry is Ellipsis for entry in entries):
            entries = (*entries, Ellipsis)  # without it NumPy would return a single element, not a view
        return self._array[entries]

    def __setitem__(self, key: Any, value: Any) -> None:
        _check_no_buffer(value)
        if not self._array.flags.writeable:
            raise ValueError("assignment destination is read-only")
        key = _host_key(key)
        found = value if isinstance(value, DeviceArray) else _wrapped(value)
        if _is_basic(key):
            target = self._view_of(self._basic_view(key))
            target._take(found) if found is not None else target._take_host(value)
            return
        host = self._read()
        host[key] = found._read() if found is not None else value
        if not self._is_host:
            self._upload(host)

    def _take_host(self, value: Any) -> None:
        if self._is_host:
            self._array[...] = value
            return
        source = np.asarray(value)
        np.broadcast_shapes(source.shape, self.shape)
        self._upload(source)

    def _take(self, source: DeviceArray) -> None:
        if self._is_host or source._device != self._device:
            self._take_host(source._read())
            return
        array = np.broadcast_to(source._array, self.shape)
        if np.may_share_memory(array, self._array):
            array = source.copy()._array
        with exchange.in_order(self._device, self._block, source._block):
            copied = memory.copy_on_device(self._device, self._array, array)
        if not copied:
            self._take_host(source._read())

    # Views of other shapes.
    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> DeviceArray:
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        order = element_order.index_order(self._array, order)
        if copy is not True:
            view = element_order.reshaped_view(self._array, wanted, order)
            if view is not None:
                return self._view_of(view)
            if copy is False:
                raise ValueError("Unable to avoid creating a copy while reshaping.")
        packed = self.copy(order=order)
        view = element_order.reshaped_view(packed._array, wanted, order)
        if view is None:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {wanted}")
        return packed._view_of(view)

    def ravel(self, order: str = "C") -> DeviceArray:
        if order == "K":  # the order of the elements in memory
            strides = memory.ordered_strides(self._array, self.dtype, "K")
            return self.transpose(sorted(range(self.ndim), key=lambda axis: -strides[axis])).reshape(-1)
        return self.reshape(-1, order=order)

    def transpose(self, *axes: Any) -> DeviceArray:
        return self._view_of(self._array.transpose(*axes))

    def view(self, dtype: Any) -> DeviceArray:
        return self._view_of(self._array.view(_check_dtype(dtype)))

    # Copies.
    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> DeviceArray:
        dtype = _check_dtype(dtype)
        strides = memory.ordered_strides(self._array, dtype, order)
        if not copy and dtype == self.dtype and element_order.lies_in(self._array, order):
            return self
        if dtype.itemsize == 0:  # a string or bytes as long as the longest element
            return self._from_host(self._read().astype(dtype), order)
        made = self._new(self.shape, dtype, strides)
        made._take(self)
        return made

    def copy(self, order: str = "C") -> DeviceArray:
        made = self._new(self.shape, self.dtype, memory.ordered_strides(self._array, self.dtype, order))
        made._take(self)
        return made

    def __copy__(self) -> DeviceArray:
        return self.copy(order="K")

    def __deepcopy__(self, _memo: Any) -> DeviceArray:
        return self.copy(order="K")

    def __reduce__(self) -> tuple[Any, ...]:  # pickled with the elements; restored on a device of the same name
        order = "F" if element_order.lies_in(self._array, "F") else "C"
        return _restored, (self.numpy(), self.dtype, order, self._device)

    def fill(self, value: Any) -> None:
        if isinstance(value, DeviceArray):
            value = value.numpy()
        if self._is_host:
            self._array.fill(value)
            return
        element = np.empty((), self.dtype)
        element.fill(value)
        self[...] = self._from_host(element)

    # Values.
    def __eq__(self, other: object) -> Any:
        found = other if isinstance(other, DeviceArray) else _wrapped(other)
        return self._from_host(np.asarray(self._read() == (other if found is None else found._read())))

    def __ne__(self, other: object) -> Any:
        found = other if isinstance(other, DeviceArray) else _wrapped(other)
        return self._from_host(np.asarray(self._read() != (other if found is None else found._read())))

    def all(self) -> np.bool_:
        return np.bool_(self._read().all())

    def numpy(self) -> memory.Array:
        """A new, writable NumPy array."""
        return self._array.copy() if self._is_host else self._downloaded()

    def tobytes(self, order: Any = "C") -> bytes:
        return self._read().tobytes(order)

    def item(self) -> Any:
        return self._read().item()

    # Exchange with other libraries.
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise refused_conversion.error()

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in (np.asanyarray, np.asarray, np.array) or not args:
            if refused_conversion.is_called_by_xarray():
                raise refused_conversion.error()
            return NotImplemented
        found = wrap(args[0])
        if found is None:
            return asarray(func(*args, **kwargs), device=self._device)
        dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
        return asarray(found, dtype, device=self._device, copy=kwargs.get("copy", func is np.array))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._is_host:
            raise AttributeError("the array is in host memory")
        return exchange.cuda_interface(self._array, self._block, self._device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return exchange.dlpack_device(self._device)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) != (1, 0):
                raise BufferError(f"dl_device {dl_device}: expected the array's own device, or the host (1, 0)")
            if copy is False:
                raise BufferError("copy=False: GPU memory can be exported to the host only by a copy")
            host = asarray(self.numpy(), device="cpu")
            return exchange.to_dlpack(host._array, host._block, "cpu", None, max_version, copied=True)
        source = self.copy() if copy else self
        return exchange.to_dlpack(source._array, source._block, self._device, stream, max_version, copied=bool(copy))


def _restored(host: memory.Array, dtype: Any, order: str, device: str) -> DeviceArray:
    made = empty(host.shape, dtype, order, device)  # NumPy's pickles may lose the byte order
    made._take_host(host)
    return made


def _wrapped(x: Any) -> DeviceArray | None:
    found = exchange.find_foreign(x)
    return None if found is None else DeviceArray._of(*found)


def wrap(x: Any) -> DeviceArray | None:
    """`x` itself, or device memory of another library without a copy; None if `x` is not in device memory."""
    return x if isinstance(x, DeviceArray) else _wrapped(x)


def empty(shape: SupportsIndex | tuple[int, ...], dtype: Any, order: str = "C", device: Any = None) -> DeviceArray:
    """A new array, not initialised. Its memory is aligned to 256 bytes.

    >>> import damacy
    >>> damacy.empty((2, 3), "f4", device="cpu")
    DeviceArray(shape=(2, 3), dtype=float32, device='cpu')
    """
    where = memory.device_named(device)
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F' (got {order!r})")
    extents = shape if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    return DeviceArray._of(*memory.new_array(where, extents, _check_dtype(dtype), order), where)


def asarray(x: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> DeviceArray:
    """A device array of `x`. Wraps device memory of CuPy, torch, jax or Numba; copies NumPy and Python data.

    `copy=False` raises `ValueError` if a copy is needed. If the device is the host, it wraps NumPy arrays."""
    found = wrap(x)
    wanted = None if dtype is None else _check_dtype(dtype)
    if found is not None:
        where = found.device if device is None else memory.device_named(device)
        if where == found.device and (wanted is None or wanted == found.dtype):
            return found.copy(order="K") if copy else found
        if copy is False:
            raise ValueError("copy=False, but another dtype or device needs a copy")
        if where == found.device:
            return found.astype(wanted)
        host = found.numpy()
    else:
        host = np.asarray(x) if dtype is None or copy is False else np.asarray(x, wanted)
        where = memory.device_named(device)
    _check_dtype(host.dtype)
    if copy is False:
        if where != "cpu" or not isinstance(x, np.ndarray) or (wanted is not None and wanted != host.dtype):
            raise ValueError("copy=False, but the data are not an array of that dtype in host memory")
        from damacy import _native

        block = _native.foreign_block(host, memory.address_of(host), host.nbytes)
        return DeviceArray._of(host.view(np.ndarray), block, "cpu")
    host = host if wanted is None else host.astype(wanted)
    strides = memory.ordered_strides(host, host.dtype, "K")
    made = DeviceArray._of(*memory.new_array(where, host.shape, host.dtype, strides=strides), where)
    made._take_host(host)
    return made


for _public in (DeviceArray, asarray, empty):
    _public.__module__ = "damacy"
