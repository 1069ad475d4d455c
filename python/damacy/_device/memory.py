"""Memory of device arrays, on the host or on a GPU: allocation, geometry, copies in and out.

A geometry is a NumPy array over an address. Over host memory it can be read as usual. Over GPU memory it is never read:
NumPy only computes the offsets and strides of views."""

from __future__ import annotations

import math
import operator
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from damacy._core.errors import InvalidArgument

Array = np.ndarray[Any, Any]

# Counters of bytes and copies between host and GPU by device arrays: h2d_bytes, h2d_copies, d2h_bytes.
transfers: Counter[str] = Counter()


class _Span:
    """Makes NumPy see the bytes at an address; arrays over it keep `keep` alive."""

    def __init__(self, address: int, size: int, read_only: bool, keep: Any) -> None:
        self.__array_interface__ = {"data": (address, read_only), "shape": (size,), "typestr": "|u1", "version": 3}
        self.keep = keep


def geometry(address: int, dtype: Any, shape: Sequence[int], strides: Any, read_only: bool, keep: Any) -> Array:
    """An array whose element (0, ..., 0) is at `address`; `strides` in bytes, None for C order."""
    dtype = np.dtype(dtype)
    shape = tuple(shape)
    if strides is None:
        strides = tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if 0 in shape:
        low, high = 0, 0
    else:
        reaches = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
        low = sum(reach for reach in reaches if reach < 0)
        high = sum(reach for reach in reaches if reach > 0) + dtype.itemsize
    raw = np.asarray(_Span(address + low, high - low, read_only, keep))
    return np.ndarray(shape, dtype, buffer=raw, offset=-low, strides=strides)


def address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def ordered_strides(like: Array, dtype: np.dtype[Any], order: Any) -> tuple[int, ...]:
    """The strides that NumPy would give a copy of `like`; does not read it."""
    return np.empty_like(like, dtype=dtype, order=order, subok=False).strides


def default_device() -> str:
    """ "cpu" or "cuda:<n>": `damacy.device` of zarr's configuration if zarr is imported, else the current device."""
    from damacy import _native

    zarr = sys.modules.get("zarr")
    chosen = zarr.config.get("damacy.device", None) if zarr is not None and hasattr(zarr, "config") else None
    if chosen == "cpu":
        return "cpu"
    current = _native.current_cuda_device()
    if current < 0:
        return "cpu"
    return f"cuda:{current}" if chosen is None else device_named(chosen)


def device_named(device: str | int | None) -> str:
    """ "cpu" or "cuda:<n>" from "cpu", "cuda:<n>", n, or None (default device). `InvalidArgument` for other values."""
    if device is None:
        return default_device()
    text = f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else str(device)
    if text != "cpu" and not re.fullmatch("cuda:[0-9]+", text):
        raise InvalidArgument(f"device {device!r}: expected 'cuda:<n>', n, 'cpu' or None", reason="arguments")
    return text


def queue_of(device: str) -> Any:
    """The native queue of "cuda:<n>"."""
    from damacy import _native

    return _native.device_queue(int(device.removeprefix("cuda:")))


def allocate(device: str, size: int) -> Any:
    """A native block of `size` bytes."""
    from damacy import _native

    return _native.host_block(size) if device == "cpu" else _native.device_block(queue_of(device), size)


def new_array(
    device: str, shape: Sequence[int], dtype: Any, order: str = "C", strides: Any = None
) -> tuple[Array, Any]:
    """Uninitialised memory and its block."""
    dtype = np.dtype(dtype)
    shape = tuple(operator.index(extent) for extent in shape)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize >= 2**63:
        raise InvalidArgument(
            f"shape {shape} of {dtype.itemsize} byte elements: extents are negative or exceed memory", reason="extents"
        )
    if strides is None and order == "F":
        strides = tuple(dtype.itemsize * math.prod(shape[:i]) for i in range(len(shape)))
    block = allocate(device, math.prod(shape) * dtype.itemsize)
    return geometry(block.address, dtype, shape, strides, False, block), block


def flat_bytes(array: Array) -> Array:
    """The bytes of a C-contiguous array in host memory."""
    return array.reshape(-1).view(np.uint8)


def _can_copy_on_device(dst: np.dtype[Any], src: np.dtype[Any]) -> bool:
    if dst == src:
        return True
    is_swapped_complex = dst.kind == "c" and dst.itemsize == 8  # its two halves are swapped one by one
    return dst.newbyteorder("=") == src.newbyteorder("=") and dst.kind in "biufcMm" and not is_swapped_complex


def copy_on_device(device: str, dst: Array, src: Array) -> bool:
    """Enqueues `dst[...] = src` on the device, both geometries over its memory. False if the types need the host."""
    if not _can_copy_on_device(dst.dtype, src.dtype):
        return False
    src = np.broadcast_to(src, dst.shape)
    swaps = dst.dtype != src.dtype
    queue_of(device).copy(
        address_of(src), address_of(dst), dst.itemsize, swaps, list(dst.shape), list(src.strides), list(dst.strides)
    )
    return True


def upload(device: str, dst: Array, src: Array) -> None:
    """`dst[...] = src` from host memory to a geometry over GPU memory, with NumPy's casting and broadcasting."""
    source = np.empty(dst.shape, dst.dtype)
    source[...] = src
    if source.size == 0:
        return
    transfers.update(h2d_bytes=source.nbytes, h2d_copies=1)
    if dst.flags.c_contiguous:
        queue_of(device).upload(address_of(dst), flat_bytes(source))
        return
    staged, _block = new_array(device, dst.shape, dst.dtype)
    queue_of(device).upload(address_of(staged), flat_bytes(source))
    copy_on_device(device, dst, staged)
    queue_of(device).sync()  # before the staged bytes are freed


def download(device: str, src: Array) -> Array:
    """A copy in host memory of a geometry over GPU memory."""
    found = np.empty(src.shape, src.dtype)
    if found.size == 0:
        return found
    transfers.update(d2h_bytes=found.nbytes)
    if not src.flags.c_contiguous:
        packed, _block = new_array(device, src.shape, src.dtype)
        copy_on_device(device, packed, src)
        queue_of(device).download(flat_bytes(found), address_of(packed))
    else:
        queue_of(device).download(flat_bytes(found), address_of(src))
    return found
