"""Copies of messages between ranks of one process: their memory, and their order on a device where each rank may use
streams of its own. Knows torch's and CuPy's streams and events; not ranks.

A mark is a point on the stream that was current when it was recorded. Only what is on a device is ordered by marks: on
the host a copy is complete when its call returns."""

from __future__ import annotations

import collections
from typing import Any

from damacy.halo._arrays import layout_of, library_of


class HostCopies:
    """Of NumPy arrays and CPU tensors."""

    def clone(self, buffer: Any) -> Any:
        """The contents of a buffer in memory of their own."""
        return buffer.clone() if hasattr(buffer, "clone") else buffer.copy()

    def place(self, message: Any, buffer: Any) -> None:
        """Copies what `clone` gave into a buffer; the caller drops the message after that."""
        buffer[...] = message

    def record(self, buffer: Any) -> Any:
        """A mark behind everything that is queued by now on the current stream of the buffer's device."""
        return None

    def wait(self, mark: Any, *arrays: Any) -> None:
        """What is queued from here on on the current streams of the arrays' devices comes after the mark."""

    def close(self) -> None:
        """Waits until the memory of messages may be freed."""


class TorchCopies(HostCopies):
    """Of CUDA tensors, on the current streams of the calling thread."""

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
        # A capture begins with a synchronized device, and CUDA refuses waits from a captured stream to others.
        if was_captured == self._cuda.is_current_stream_capturing():
            for stream in {self._cuda.current_stream(array.device) for array in arrays}:
                stream.wait_event(event)


class CupyCopies(HostCopies):
    """Of CuPy arrays, on the current streams of the calling thread."""

    def __init__(self) -> None:
        # CuPy reuses freed memory in the order of the stream that it was allocated on, which is the sender's: messages
        # are held until the receiver's copy has ended.
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
    """The copies for buffers of this kind; None: there are no buffers."""
    if buffer is None or layout_of(buffer).device is None:
        return HostCopies()
    return TorchCopies() if library_of(buffer) == "torch" else CupyCopies()
