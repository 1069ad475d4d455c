"""The layout of an array: address, shape, byte strides, type, device. Reads the array protocols; imports no array
library except NumPy."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from damacy import _native
from damacy._core.streams import stream_handle
from damacy._device.cuda_interface import parse_interface
from damacy._device.exchange import capsule_of
from damacy.halo._dtypes import CODES, ITEMSIZE, NAMES, code_of
from damacy.halo._errors import DtypeMismatch, InvalidArgument, Unsupported

_LEGACY_STREAM = 1
_DLPACK_HOST, _DLPACK_CUDA = (1, 3), (2, 13)  # CPU and CUDA host; CUDA and CUDA managed
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class Layout(NamedTuple):
    """The position and type of an array's elements in memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: int  # a value of _dtypes.CODES
    device: int | None  # CUDA ordinal; None: host memory
    writable: bool
    stream: int | None  # the stream that the array's protocol names, if it does
    owner: Any  # keeps the memory alive

    @property
    def nbytes(self) -> int:
        return _native.array_bytes(self.shape, ITEMSIZE[self.dtype])

    @property
    def is_c_contiguous(self) -> bool:
        return _native.is_c_contiguous(self.shape, self.strides, ITEMSIZE[self.dtype])


@functools.lru_cache(maxsize=256)
def _library_of_class(cls: Any) -> str:
    roots: list[str] = [c.__module__.partition(".")[0] for c in cls.__mro__]
    return next((root for root in roots if root in ("numpy", "cupy", "torch")), roots[0])


def library_of(array: Any) -> str:
    """The package of an array's class, or of the array class that it is derived from."""
    cls: Any = type(array)
    return _library_of_class(cls)


def _is_torch(thing: Any) -> bool:
    return library_of(thing) == "torch" and hasattr(thing, "data_ptr")


def exports(thing: Any) -> bool:
    """Whether `thing` exports its memory by an array protocol."""
    if isinstance(thing, np.ndarray) or _is_torch(thing):
        return True
    if any(hasattr(thing, name) for name in ("__cuda_array_interface__", "__dlpack_device__", "__array_interface__")):
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
        raise DtypeMismatch(f"a quantity of type {type(quantity).__name__} gives no array: expected an array or .data")
    return data


def _of_numpy(array: np.ndarray, owner: Any = None) -> Layout:
    return Layout(
        array.__array_interface__["data"][0] if array.size else 0,
        array.shape,
        array.strides,
        code_of(array.dtype),
        None,
        array.flags.writeable,
        None,
        array if owner is None else owner,
    )


def _of_torch(tensor: Any) -> Layout:
    itemsize = tensor.element_size()
    device = tensor.device
    kind = device.type
    if tensor.is_conj() or tensor.is_neg():  # lazy: torch has set a flag and not changed the memory
        raise InvalidArgument("a lazy conjugate or negative of torch: call resolve_conj() or resolve_neg() first")
    address = tensor.data_ptr() if kind in ("cpu", "cuda") and str(tensor.layout) == "torch.strided" else 0
    if address == 0 and tensor.numel():
        raise DtypeMismatch(f"a {tensor.layout} tensor on {device} has no memory that a halo exchange can read")
    return Layout(
        address,
        tuple(tensor.shape),
        _native.byte_strides(tensor.stride(), itemsize),
        code_of(tensor.dtype),
        None if kind == "cpu" else device.index or 0,
        True,
        None,
        tensor,
    )


def _of_cuda_interface(array: Any) -> Layout:
    said = parse_interface(array.__cuda_array_interface__)
    # NumPy has no name for some types, so the type comes from the array, not from the interface.
    code = code_of(getattr(array, "dtype", None) or np.dtype(said.typestr))
    if ITEMSIZE[code] != said.itemsize:
        raise DtypeMismatch(f"an array of {NAMES[code]}, but its __cuda_array_interface__ has typestr {said.typestr}")
    device = getattr(array, "device", None)
    ordinal = getattr(device, "id", device)
    return Layout(
        said.pointer,
        said.shape,
        _native.c_strides(said.shape, said.itemsize) if said.strides is None else said.strides,
        code,
        ordinal if isinstance(ordinal, int) else _native.device_of_pointer(said.pointer),
        not said.read_only,
        said.stream,
        array,
    )


def _of_dlpack(array: Any) -> Layout:
    """The layout of the array's DLPack export. On a device, the export is ordered before the legacy default stream."""
    kind, ordinal = (int(n) for n in array.__dlpack_device__())
    if kind not in _DLPACK_HOST + _DLPACK_CUDA:
        raise Unsupported(f"DLPack device type {kind} is not supported, only CPU, CUDA, CUDA host and CUDA managed")
    stream = _LEGACY_STREAM if kind in _DLPACK_CUDA else None
    block, _, _, code, bits, lanes, shape, strides, read_only = _native.from_dlpack(capsule_of(array, stream))
    name = _DLPACK_KINDS.get(code, "") + (str(bits) if (code, bits) != (6, 8) else "")
    if lanes != 1 or name not in CODES:
        raise DtypeMismatch(f"halo exchange of DLPack type {code}, {bits} bits, {lanes} lanes: no such element type")
    itemsize = ITEMSIZE[CODES[name]]
    return Layout(
        block.address if 0 not in shape else 0,
        shape,
        _native.c_strides(shape, itemsize) if strides is None else _native.byte_strides(strides, itemsize),
        CODES[name],
        None if stream is None else ordinal,
        not read_only and library_of(array) not in ("jax", "jaxlib"),  # immutable, but exported without the flag
        stream,
        block,
    )


def layout_of(array: Any) -> Layout:
    """The layout of an array that exports a protocol. TypeError for element types that halo exchanges cannot use."""
    if isinstance(array, np.ndarray):
        return _of_numpy(array)
    if _is_torch(array):
        return _of_torch(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _of_cuda_interface(array)
    if hasattr(array, "__array_interface__"):
        return _of_numpy(np.asarray(array), array)
    try:
        return _of_numpy(np.asarray(memoryview(array)))
    except (TypeError, BufferError):
        if hasattr(array, "__dlpack_device__"):
            return _of_dlpack(array)
    raise DtypeMismatch(f"a {type(array).__name__} gives no array")


def look(quantity: Any) -> tuple[tuple[str, ...] | None, Layout]:
    """The dims that a quantity has, and its layout, for the native library."""
    dims = getattr(quantity, "dims", None)
    return None if dims is None else tuple(dims), layout_of(whole(quantity))


def stream_number(stream: Any) -> int:
    """The handle of a stream, or of its number."""
    handle = stream_handle(stream)
    if handle is None or handle < 0:
        raise InvalidArgument(f"stream {stream!r}: expected a stream or its handle")
    return handle


def current_stream_of(array: Any) -> Callable[[], int]:
    """A function that returns the handle of the stream on which `array` is used at the time of the call, from the
    array's library or its protocol; 0: the legacy default stream."""
    library = library_of(array)
    if library == "torch":
        return _torch_stream(array.device.index or 0)
    if library == "cupy" and "cupy" in sys.modules:  # sooner than by its protocol
        current = sys.modules["cupy"].cuda.get_current_stream
        return lambda: int(current().ptr)
    return lambda: (getattr(array, "__cuda_array_interface__", None) or {}).get("stream") or 0


@functools.lru_cache(maxsize=64)
def _torch_stream(device: int) -> Callable[[], int]:
    import torch

    # torch's own generated code gets the handle this way too. Through a stream object it takes ten times as long.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return functools.partial(raw, device)
    return lambda: torch.cuda.current_stream(device).cuda_stream
