"""What an array is to a copy: an address, a shape, byte strides, a type, a device. Reads the array protocols; imports
no array library but NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from damacy._cuda_interface import parse_interface
from damacy.halo._dtypes import ITEMSIZE, NAMES, code_of
from damacy.halo._errors import DtypeMismatch


class Layout(NamedTuple):
    """Where the elements of an array are."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: int  # a number of _dtypes.CODES
    device: int | None  # CUDA ordinal; None: host memory
    writable: bool
    stream: int | None  # named by __cuda_array_interface__


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= max(extent, 1)
    return tuple(reversed(strides))


def _is_torch(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "torch" and hasattr(thing, "data_ptr")


def exports(thing: Any) -> bool:
    """Whether `thing` gives its memory by a protocol."""
    if isinstance(thing, np.ndarray) or _is_torch(thing):
        return True
    if any(hasattr(thing, name) for name in ("__cuda_array_interface__", "__dlpack__", "__array_interface__")):
        return True
    try:
        memoryview(thing).release()
    except TypeError:
        return False
    return True


def whole(quantity: Any) -> Any:
    """The array that holds a quantity's whole allocation: itself, its `.data`, or `quantity[:]`."""
    if exports(quantity):
        return quantity
    data = getattr(quantity, "data", None)
    if data is not None and exports(data):
        return data
    try:
        data = quantity[:]
    except Exception:
        data = None
    if data is None or not exports(data):
        raise DtypeMismatch(f"a quantity of type {type(quantity).__name__} gives no array")
    return data


def _of_numpy(array: np.ndarray) -> Layout:
    return Layout(
        array.__array_interface__["data"][0] if array.size else 0,
        array.shape,
        array.strides,
        code_of(array.dtype),
        None,
        array.flags.writeable,
        None,
    )


def _of_torch(tensor: Any) -> Layout:
    itemsize = tensor.element_size()
    device = tensor.device
    return Layout(
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(s * itemsize for s in tensor.stride()),
        code_of(tensor.dtype),
        None if device.type == "cpu" else device.index or 0,
        True,
        None,
    )


def _of_cuda_interface(array: Any) -> Layout:
    said = parse_interface(array.__cuda_array_interface__)
    # What NumPy cannot spell is told by the array itself.
    code = code_of(getattr(array, "dtype", None) or np.dtype(said.typestr))
    if ITEMSIZE[code] != said.itemsize:
        raise DtypeMismatch(f"an array of {NAMES[code]} whose interface says {said.typestr}")
    device = getattr(array, "device", None)
    ordinal = getattr(device, "id", device)
    return Layout(
        said.pointer,
        said.shape,
        _c_strides(said.shape, said.itemsize) if said.strides is None else said.strides,
        code,
        ordinal if isinstance(ordinal, int) else _ordinal_of(said.pointer),
        not said.read_only,
        said.stream,
    )


def _ordinal_of(address: int) -> int:
    return 0


def layout_of(array: Any) -> Layout:
    """The layout of an array that exports a protocol. TypeError for element types that halos do not carry."""
    if isinstance(array, np.ndarray):
        return _of_numpy(array)
    if _is_torch(array):
        return _of_torch(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _of_cuda_interface(array)
    if hasattr(array, "__array_interface__"):
        return _of_numpy(np.asarray(array))
    try:
        view = memoryview(array)
    except TypeError:
        return _of_numpy(np.from_dlpack(array))
    return _of_numpy(np.asarray(view))


def current_stream_of(array: Any) -> Callable[[], int]:
    """What tells, at each call anew, the stream on which `array` is worked on, as far as it or its library says; 0: the
    legacy one."""
    named = getattr(array, "__cuda_array_interface__", None) if not _is_torch(array) else None
    if named is not None and named.get("stream") is not None:
        handle = named["stream"]
        return lambda: handle
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        return _torch_stream(array.device.index or 0)
    if library == "cupy":
        import cupy

        current = cupy.cuda.get_current_stream
        return lambda: current().ptr
    return lambda: 0


@functools.lru_cache(maxsize=64)
def _torch_stream(device: int) -> Callable[[], int]:
    import torch

    # The handle alone, as torch's own generated code asks for it; by way of a stream object it takes ten times as long.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return functools.partial(raw, device)
    return lambda: torch.cuda.current_stream(device).cuda_stream


def stream_of(array: Any) -> int:
    """The stream on which `array` is worked on now."""
    return current_stream_of(array)()
