"""Streams of a transformer's arrays, and the order of its work on a device. Knows handles; not plans' insides."""

from __future__ import annotations

from typing import Any

from damacy import _native
from damacy._streams import stream_handle
from damacy.halo._arrays import stream_of
from damacy.halo._errors import InvalidArgument
from damacy.halo._gather import Arrays


def _handles(streams: Any) -> list[int]:
    if streams is None:
        return []
    return [_handle(s) for s in (streams if isinstance(streams, (list, tuple)) else [streams])]


def _handle(stream: Any) -> int:
    handle = stream_handle(stream)
    if handle is None or handle < 0:
        raise InvalidArgument(f"stream {stream!r}: expected a stream or its handle")
    return handle


class Queue:
    """Made with the first arrays, whose device it is for."""

    def __init__(self) -> None:
        self._device: int | None = None
        self._queue: Any = None
        self._held: list[tuple[Any, Arrays]] = []

    def _of(self, device: int) -> Any:
        if self._queue is None:
            self._queue, self._device = _native.HaloQueue(device), device
        elif device != self._device:
            raise InvalidArgument(f"arrays of device {device}, buffers of device {self._device}")
        return self._queue

    def run(self, arrays: Arrays, plan: Any, bases: Any, buffer: Any, stream: Any, after: Any) -> None:
        """Enqueues a plan on the stream of the call, of the arrays, or the legacy default one."""
        queue = self._of(arrays.device)
        named = arrays.streams
        if stream is not None:
            chosen = _handle(stream)
        elif named:
            chosen = named[0]
        else:
            chosen = stream_of(arrays.held[0]) or 0
        others = [s for s in named if s != chosen]
        if buffer._last_use is not None and buffer._last_user is not self:
            queue.comes_after(buffer._last_use)
        run = queue.run if type(bases) is list else queue.run_bound
        run(*((plan, bases) if type(bases) is list else (bases,)), chosen, others, _handles(after))
        buffer._last_use, buffer._last_user = queue.done(), self
        if len(self._held) > 8 and queue.idle():
            self._held.clear()
        if not self._held or self._held[-1][1] is not arrays:
            self._held.append((None, arrays))

    def run_copies(self, device: int, plan: Any, bases: list[int], held: list[Any], stream: Any) -> None:
        """Enqueues a plan on `stream`, or on the one that the first array is used on, which transports use too."""
        current = stream_of(held[0]) or 0
        chosen = _handle(stream) if stream is not None else current
        self._of(device).run(plan, bases, chosen, [current] if chosen != current else [], [])

    def synchronize(self) -> None:
        if self._queue is not None:
            self._queue.synchronize()
            self._held.clear()

    def make_wait(self, stream: Any) -> None:
        if self._queue is not None:
            self._queue.make_wait(_handle(stream))
