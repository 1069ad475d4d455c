"""The array of a quantity, its library and its current stream. The native library reads layouts. Imports no array
library except NumPy."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from damacy import _native
from damacy._core.streams import stream_handle
from damacy.halo._errors import DtypeMismatch, InvalidArgument

layout_of = _native.layout_of


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


def look(quantity: Any) -> tuple[tuple[str, ...] | None, _native.ArrayLayout]:
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
        return _cupy_stream
    return lambda: (getattr(array, "__cuda_array_interface__", None) or {}).get("stream") or 0


def current_stream_on(library: str, device: int | None) -> Callable[[], int] | None:
    """The same for new arrays of a library on a device, by default of damacy; None for host memory."""
    if device is None:
        return None
    if library == "torch":
        return _torch_stream(device)
    if library == "cupy":
        return _cupy_stream
    from damacy._device.array import asarray

    return current_stream_of(asarray(np.zeros(1, np.uint8), device=device))


def _cupy_stream() -> int:
    return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


@functools.lru_cache(maxsize=64)
def _torch_stream(device: int) -> Callable[[], int]:
    import torch

    # torch's own generated code gets the handle this way too. Through a stream object it takes ten times as long.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return functools.partial(raw, device)
    return lambda: torch.cuda.current_stream(device).cuda_stream
