"""Copies messages between ranks of one process, and orders the copies if ranks use different streams of a device. Knows
streams and events of torch and CuPy; not ranks.

A mark is a point on the stream that was current when it was recorded. Marks order only device work: on the host a copy
is complete when its call returns."""

from __future__ import annotations

import collections
from typing import Any

from damacy.halo._arrays import layout_of, library_of


class HostCopies:
    """Copies of NumPy arrays and CPU tensors."""

    def clone(self, buffer: Any) -> Any:
        """A copy of a buffer in new memory."""
        return buffer.clone() if hasattr(buffer, "clone") else buffer.copy()

    def place(self, message: Any, buffer: Any) -> None:
        """Copies a message made by `clone` into a buffer; the caller then drops the message."""
        buffer[...] = message

    def record(self, buffer: Any) -> Any:
        """A mark after all work enqueued so far on the current stream of the buffer's device."""
        return None

    def wait(self, mark: Any, *arrays: Any) -> None:
        """Makes later work on the current streams of the arrays' devices wait for the mark."""

    def close(self) -> None:
        """Waits until the memory of all messages may be freed."""


class TorchCopies(HostCopies):
    """Copies of CUDA tensors, on the current streams of the caller's thread."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda

    def clone(self, buffer: Any) -> Any:
        return buffer.clone()

    def place(self, message: Any, buffer: Any) -> None:
        buffer.copy_(message)
        message.record_stream(self._cuda.current_stream(message.device))  # it was allocated on the sender's stream

    def record(self, buffer: Any) -> Any:
        return self._cuda.current_stream(buffer.device).record_event(), self._cuda.is_current_stream_capturing()

    def wait(self, mark: Any, *arrays: Any) -> None:
        event, was_captured = mark
        # During a graph capture there is nothing to wait for: a capture begins with a synchronized device, and CUDA
        # refuses to make a captured stream wait for other streams.
        if was_captured == self._cuda.is_current_stream_capturing():
            for stream in {self._cuda.current_stream(array.device) for array in arrays}:
                stream.wait_event(event)


class CupyCopies(HostCopies):
    """Copies of CuPy arrays, on the current streams of the caller's thread."""

    def __init__(self) -> None:
        # CuPy reuses freed memory in the order of the stream that allocated it, here the sender's. So messages are kept
        # until the receiver's copy has ended.
        self._held: collections.deque[tuple[Any, Any]] = collections.deque()
        import cupy

        self._cuda = cupy.cuda

    def clone(self, buffer: Any) -> Any:
        with buffer.device:
            return buffer.copy()

    def place(self, message: Any, buffer: Any) -> None:
        while self._held and self._held[0][1].done:
            self._held.popleft()
        with buffer.device:
            buffer[...] = message
        self._held.append((message, self.record(buffer)))

    def record(self, buffer: Any) -> Any:
        with buffer.device:
            event = self._cuda.Event(disable_timing=True)
            event.record(self._cuda.get_current_stream())
            return event

    def wait(self, mark: Any, *arrays: Any) -> None:
        for array in arrays:
            with array.device:
                self._cuda.get_current_stream().wait_event(mark)

    def close(self) -> None:
        while self._held:
            self._held.popleft()[1].synchronize()

    __del__ = close


def copies_for(buffer: Any) -> HostCopies:
    """The copies for buffers of this kind; for None, which means that there are no buffers, the host's."""
    if buffer is None or layout_of(buffer).device is None:
        return HostCopies()
    return TorchCopies() if library_of(buffer) == "torch" else CupyCopies()
