"""Describes memory of other libraries by their protocols. Knows the protocols and how to get each library's current
stream. Imports none of the libraries and does not call CUDA."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

from damacy._device.cuda_interface import parse_interface
from damacy._fileio.arguments import natural

_SKIPPED = (AttributeError, TypeError, KeyError, RuntimeError)
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13


class Described(NamedTuple):
    pointer: int
    nbytes: int
    read_only: bool
    on_device: bool  # according to the protocol; native code checks it with the driver
    stream: int  # the stream of the memory's last use
    owner: Any  # keeps the memory alive


def stream_number(stream: Any) -> int | None:
    """The handle of a user's stream: an integer, or an object with `__cuda_stream__`, `cuda_stream` or `ptr`."""
    if stream is None:
        return None
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        _version, handle = protocol() if callable(protocol) else protocol
        return int(handle)
    for name in ("cuda_stream", "ptr"):
        value = getattr(stream, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    try:
        return natural("stream", stream)
    except TypeError:
        raise TypeError(f"stream: expected a handle or a stream object (got {type(stream).__name__})") from None


def interface_of(array: Any) -> Any:
    """`__cuda_array_interface__`, or None if the object has none or reading it fails."""
    try:
        return array.__cuda_array_interface__
    except _SKIPPED:
        return None


def describe(array: Any, stream: Any, interface: Any = None) -> Described | None:
    """The memory according to `__cuda_array_interface__` or DLPack; None if the object has neither.

    `interface` is the object's, if the caller has read it.
    """
    named = stream_number(stream)
    if interface is None:
        interface = interface_of(array)
    if interface is not None:
        return _of_interface(array, interface, named)
    return _of_dlpack(array, named)


def _of_interface(array: Any, interface: Any, named: int | None) -> Described:
    said = parse_interface(interface)
    _check_dense(said.shape, said.strides, said.itemsize)
    order = next(s for s in (named, said.stream, _current_stream(array), LEGACY_STREAM) if s is not None)
    return Described(said.pointer, math.prod(said.shape) * said.itemsize, said.read_only, True, order, array)


def _check_dense(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> None:
    if strides is None or 0 in shape:
        return

    def follows(axes: Any) -> bool:
        expected = itemsize
        for axis in axes:
            if shape[axis] > 1 and strides[axis] != expected:
                return False
            expected *= shape[axis]
        return True

    if not follows(reversed(range(len(shape)))) and not follows(range(len(shape))):
        raise ValueError("Array must be contiguous")


def _of_dlpack(array: Any, named: int | None) -> Described | None:
    try:
        device, _index = array.__dlpack_device__()
        export = array.__dlpack__
    except _SKIPPED:
        return None
    if device not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise NotImplementedError(
            f"DLPack device type {int(device)} is not supported, only CPU, CUDA, CUDA host and CUDA managed"
        )
    on_device = device in (_CUDA, _CUDA_MANAGED)
    order = LEGACY_STREAM if named is None else named
    keywords = {"stream": order} if on_device else {}
    try:
        capsule = export(max_version=(1, 0), **keywords)
    except TypeError:
        capsule = export(**keywords)
    from damacy import _native

    pointer, nbytes, read_only, shape, strides, itemsize, owner = _native.dlpack_memory(capsule)
    _check_dense(shape, None if strides is None else tuple(s * itemsize for s in strides), itemsize)
    return Described(pointer, nbytes, read_only, on_device, order, owner)


def _current_stream(array: Any) -> int | None:
    """The current stream of the array's library; None if unknown.

    In a forked child the library raises. None is returned then, because the driver's error, which follows, says more.
    """
    library = type(array).__module__.partition(".")[0]
    module = sys.modules.get(library)
    try:
        if library == "torch" and module is not None:
            return module.cuda.current_stream(array.device).cuda_stream or LEGACY_STREAM
        if library == "cupy" and module is not None:
            return module.cuda.get_current_stream().ptr or LEGACY_STREAM
    except RuntimeError:
        return None
    return None
