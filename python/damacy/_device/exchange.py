"""Exchanges device memory with other libraries without a copy, by the CUDA array interface and DLPack, and orders work
on memory that several libraries use. Knows the two protocols, and how torch and CuPy name their current streams."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from damacy._device import memory
from damacy._device.cuda_interface import parse_interface

_CUDA, _CUDA_MANAGED = 2, 13
_LEGACY_STREAM, _PER_THREAD_STREAM = 1, 2  # never destroyed
_CURRENT_STREAM, _UNKNOWN_STREAM = 0, -1  # of a block: the current one of the owner's library at that time; any
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}


def _current_cuda() -> int:
    from damacy import _native

    return max(_native.current_cuda_device(), 0)


def _index_of_owner(x: Any) -> int:
    """The index of the device that holds an object's memory; the CUDA array interface does not contain it."""
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[1])
    for name in ("index", "id"):
        found = getattr(getattr(x, "device", None), name, None)
        if isinstance(found, int):
            return found
    return _current_cuda()


def from_cuda_interface(x: Any, interface: Any) -> tuple[Any, Any, str]:
    """Geometry, block and device of memory described by `__cuda_array_interface__`, versions 2 and 3."""
    from damacy import _native

    if isinstance(interface, dict) and interface.get("mask") is not None:
        raise TypeError("masked arrays are not supported")
    said = parse_interface(interface)
    dtype = np.dtype(said.typestr)
    device = f"cuda:{_index_of_owner(x)}"
    if said.stream is not None:
        memory.queue_of(device).wait_for(said.stream)
    elif 0 not in said.shape and interface.get("version", 0) < 3 and hasattr(x, "__dlpack__"):
        _order_by_dlpack(x, device)
    block = _native.foreign_block(x, said.pointer, 0)
    block.is_shared, block.stream = True, _stream_of_owner(x, said.stream)
    array = memory.geometry(said.pointer, dtype, said.shape, said.strides, said.read_only, block)
    return array, block, device


def _order_by_dlpack(x: Any, device: str) -> None:
    """Orders work of damacy after that of the producer's current stream.

    Version 2 of the interface, which torch implements, cannot name a stream. Without this order, work on a stream other
    than the default one may still run while damacy reads. If DLPack cannot export the object, nothing is ordered, as
    the protocol allows.
    """
    try:
        capsule_of(x, memory.queue_of(device).stream)
    except (BufferError, TypeError):
        pass


def capsule_of(x: Any, stream: int | None) -> Any:
    """The capsule of `__dlpack__`, versioned if the producer supports it."""
    try:
        return x.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        return x.__dlpack__(stream=stream)


def _dtype_of_code(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    if lanes == 1 and code == 6 and bits == 8:
        return np.dtype(bool)
    if lanes == 1 and code == 4 and bits == 16:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("bfloat16 memory needs the package ml_dtypes") from None
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    if lanes != 1 or code not in _KINDS or bits % 8:
        raise TypeError(f"NumPy has no type for DLPack type code {code} with {bits} bits and {lanes} lanes")
    return np.dtype(f"{_KINDS[code]}{bits // 8}")


def from_dlpack(x: Any) -> tuple[Any, Any, str]:
    """Geometry, block and device of memory on a GPU that `__dlpack__` exports."""
    from damacy import _native

    device = f"cuda:{int(x.__dlpack_device__()[1])}"
    capsule = capsule_of(x, memory.queue_of(device).stream)
    block, _, _, code, bits, lanes, shape, strides, read_only = _native.from_dlpack(capsule)
    block.is_shared, block.stream = True, _stream_of_owner(x, None)
    dtype = _dtype_of_code(code, bits, lanes)
    if strides is not None:
        strides = tuple(stride * dtype.itemsize for stride in strides)
    return memory.geometry(block.address, dtype, shape, strides, read_only, block), block, device


def _current_streams(index: int) -> list[int]:
    """The current streams of torch and CuPy on a device, if these libraries are in use."""
    streams = []
    torch, cupy = (getattr(sys.modules.get(name), "cuda", None) for name in ("torch", "cupy"))
    if torch is not None and torch.is_initialized():
        streams.append(torch.current_stream(index).cuda_stream)
    if cupy is not None:
        with cupy.Device(index):
            streams.append(cupy.get_current_stream().ptr)
    return [stream or _LEGACY_STREAM for stream in streams]


def follow_others(device: str, *blocks: Any) -> set[int]:
    """Orders later work of damacy after the work so far of other libraries, if the blocks are shared with them. Returns
    their streams: the current ones of torch and CuPy, and default streams that the owners of foreign memory named.
    Streams that are being captured into a graph are left out: they have no work yet, and cannot wait."""
    shared = [block for block in blocks if block.is_shared] if device != "cpu" else []
    if not shared:
        return set()
    queue = memory.queue_of(device)
    streams = {block.stream for block in shared if block.stream != _CURRENT_STREAM}
    streams.update(_current_streams(int(device.removeprefix("cuda:"))))
    return {stream for stream in streams if stream == _UNKNOWN_STREAM or queue.wait_for(stream)}


@contextlib.contextmanager
def in_order(device: str, *blocks: Any) -> Iterator[None]:
    """Orders work of damacy that is enqueued inside after the work so far of other libraries, and before their later
    work, if the blocks are shared with them. If their streams are unknown, the host waits for the work; what they have
    enqueued since they passed the memory on is then not waited for."""
    streams = follow_others(device, *blocks)
    yield
    if _UNKNOWN_STREAM in streams:
        memory.queue_of(device).sync()
        return
    for stream in streams:
        memory.queue_of(device).make_wait(stream)


def _stream_of_owner(x: Any, named: int | None) -> int:
    """What a block may remember: any other stream that the interface named may be destroyed after this call."""
    if type(x).__module__.partition(".")[0] in ("torch", "cupy"):
        return _CURRENT_STREAM
    return named if named in (_LEGACY_STREAM, _PER_THREAD_STREAM) else _UNKNOWN_STREAM


def find_foreign(x: Any) -> tuple[Any, Any, str] | None:
    """Geometry, block and device of another library's device memory; None if the object has no device memory."""
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return from_cuda_interface(x, interface)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        if int(x.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED):
            return from_dlpack(x)
    return None


def cuda_interface(array: Any, block: Any, device: str) -> dict[str, Any]:
    """The interface, version 3, of a geometry over GPU memory."""
    follow_others(device, block)
    block.is_shared = True
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "descr": [("", array.dtype.str)],
        "data": (memory.address_of(array) if array.size else 0, not array.flags.writeable),
        "strides": None if array.flags.c_contiguous else array.strides,
        "stream": memory.queue_of(device).stream,
        "version": 3,
    }


def _code_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.name == "bfloat16":
        return 4, 16
    if not dtype.isnative:
        raise BufferError(
            f"DLPack cannot export {dtype.str} in foreign byte order: call .astype({dtype.newbyteorder('=').str!r})"
        )
    if dtype.kind not in _CODES or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise BufferError(f"DLPack has no type for {dtype}")
    return _CODES[dtype.kind], dtype.itemsize * 8


def dlpack_device(device: str) -> tuple[int, int]:
    return (1, 0) if device == "cpu" else (_CUDA, int(device.removeprefix("cuda:")))


def _is_versioned(max_version: Any) -> bool:
    return max_version is not None and tuple(max_version) >= (1, 0)


def _order_before(device: str, stream: Any) -> None:
    """Orders later work of the consumer's stream after work of damacy."""
    if device == "cpu":
        if stream is not None:
            raise BufferError(f"stream: expected None for host memory (got {stream!r})")
        return
    if stream == -1:
        return
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < 0):
        raise BufferError(f"stream {stream!r}: expected None, -1, 0, 1, 2 or a handle")
    memory.queue_of(device).make_wait(stream or 1)


def to_dlpack(array: Any, block: Any, device: str, stream: Any, max_version: Any, copied: bool) -> Any:
    """A capsule of a geometry; `copied` sets DLPack's flag. Raises `BufferError` if DLPack cannot express the array."""
    from damacy import _native

    code, bits = _code_of(array.dtype)
    if any(stride % array.itemsize for stride in array.strides):
        raise BufferError(f"DLPack needs strides of whole elements (got {array.strides} bytes for {array.dtype})")
    versioned = _is_versioned(max_version)
    read_only = not array.flags.writeable
    if read_only and not versioned:
        raise BufferError("a DLPack capsule without a version cannot mark memory as read-only: pass max_version")
    follow_others(device, block)
    _order_before(device, stream)
    block.is_shared = True
    strides = [stride // array.itemsize for stride in array.strides]
    where = [*dlpack_device(device), code, bits]
    flags = int(read_only) | (2 if copied else 0)
    return _native.to_dlpack(block, memory.address_of(array), list(array.shape), strides, where, versioned, flags)
