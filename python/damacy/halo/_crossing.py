"""Messages of device arrays in host buffers: packed on the device, then copied once. Knows device memory and copy
streams; not plans."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from damacy import _native
from damacy._device.memory import geometry
from damacy.halo import _modules

MOST_STREAMS = 32  # idle streams per device

# Idle streams for copies between host and device, the most recently used one last. May be cleared at any time.
STREAM_POOL: list[CopyStream] = []
_lock = threading.Lock()


class CopyStream:
    """A non-blocking stream of a device."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.native = _native.new_device_queue(device)


@contextlib.contextmanager
def borrowed_stream(device: int) -> Iterator[Any]:
    """Lends the native queue of an idle stream, or of a new one."""
    with _lock:
        stream = next((s for s in reversed(STREAM_POOL) if s.device == device), None)
        if stream is not None:
            with contextlib.suppress(ValueError):  # the pool may be cleared from outside
                STREAM_POOL.remove(stream)
    stream = stream or CopyStream(device)
    yield stream.native  # after an error it is not reused: it may still have work
    with _lock:
        if sum(s.device == device for s in STREAM_POOL) < MOST_STREAMS:
            STREAM_POOL.append(stream)


class Crossing:
    """Memory on `device` of the size of a host buffer, and the order of work on it. Calls return after the work."""

    def __init__(self, device: int, buffer: Any) -> None:
        self._queue = _modules.device_queue()
        self._device = device
        self._host = geometry(buffer.address, np.uint8, (buffer._bytes,), None, False, buffer.array)
        self._last_use: Any = None  # as in Buffer
        with borrowed_stream(device) as stream:
            self._block = _native.device_block(stream, buffer._bytes)
            stream.upload(self._block.address, self._host)  # so that the gaps of a native wire are the same
        self.address = self._block.address

    def packing(self, arrays: _native.HaloArrays, copies: Any) -> Callable[[Any, Any], None]:
        """A function of a stream that packs the message and copies it to the host."""
        pack = self._queue.bound(arrays, copies, self)

        def run(stream: Any, after: Any) -> None:
            pack(stream, after)
            with borrowed_stream(self._device) as crossing:
                self._queue.make_wait(crossing.stream)
                crossing.download(self._host, self.address)
            self._queue.synchronize()

        return run

    def unpacking(self, arrays: _native.HaloArrays, copies: Any) -> Callable[[Any, Any], None]:
        """A function of a stream, and of streams to wait for, that copies the message to the device and unpacks it."""
        unpack = self._queue.bound(arrays, copies, self)

        def run(stream: Any, after: Any) -> None:
            with borrowed_stream(self._device) as crossing:
                crossing.upload(self.address, self._host)
            unpack(stream, after)
            self._queue.synchronize()

        return run
