"""Orders a transformer's work on a device with the streams of its arrays. Knows stream handles; not what plans do."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from damacy import _native
from damacy._core.streams import stream_handle
from damacy.halo._arrays import current_stream_of
from damacy.halo._errors import InvalidArgument
from damacy.halo._gather import Arrays


def _handles(streams: Any) -> list[int]:
    if streams is None:
        return []
    return [stream_number(s) for s in (streams if isinstance(streams, (list, tuple)) else [streams])]


def stream_number(stream: Any) -> int:
    """The handle of a stream, or of its number."""
    handle = stream_handle(stream)
    if handle is None or handle < 0:
        raise InvalidArgument(f"stream {stream!r}: expected a stream or its handle")
    return handle


class Queue:
    """A queue for the device of the first arrays that it runs on."""

    def __init__(self) -> None:
        self._device: int | None = None
        self._queue: Any = None
        self._held: list[Any] = []  # arrays of the latest runs
        self._past: collections.deque[Any] = collections.deque()  # arrays of earlier runs, with the marks of their ends

    def _of(self, device: Any) -> Any:
        if self._queue is None:
            self._queue, self._device = _native.HaloQueue(device), device
        elif device != self._device:
            raise InvalidArgument(f"the arrays are on device {device}, the buffers on device {self._device}")
        return self._queue

    def bound(self, arrays: Arrays, copies: Any, buffer: Any) -> Callable[[Any, Any], None]:
        """A function that enqueues these copies. What does not change between calls is computed once, here;
        each call asks for the streams that use the arrays then.

        If arrays name streams or belong to several libraries, a run is ordered with all of their streams. Without
        `buffer`, messages are in memory of the caller, which is used on the current stream: a run on another stream
        waits for work on the current stream, and later work there waits for the run."""
        queue = self._of(arrays.device)
        current_streams = [*map(current_stream_of, (*arrays.named, *arrays.unnamed))]
        current, is_one = current_streams[0], len(current_streams) == 1
        joins_all = not is_one or arrays.named or buffer is None
        others = (lambda: [stream_of() for stream_of in current_streams]) if joins_all else tuple
        run_alone, run, held = queue.run_alone, queue.run_bound, self._held

        def enqueue(stream: Any = None, after: Any = None) -> None:
            if buffer is not None and buffer._last_use is not queue:
                if buffer._last_use is not None:
                    queue.order_after(buffer._last_use)
                buffer._last_use = queue
            if stream is None and after is None and is_one:
                run_alone(copies, current())
            else:
                chosen = current() if stream is None else stream_number(stream)
                run(copies, chosen, [s for s in dict.fromkeys(others()) if s != chosen], _handles(after))
            if not held or held[-1] is not arrays:
                self._hold(arrays)

        return enqueue

    def joins(self, other: Queue, buffer: Any) -> None:
        """Orders this queue after the last run of `other`, which also used `buffer`."""
        buffer._last_use = other._queue
        self._of(other._device).order_after(other._queue)

    def precedes(self, other: Queue) -> None:
        """Orders the next run of `other` after the runs of this queue."""
        if self._queue is not None:
            other._of(self._device).order_after(self._queue)

    def _hold(self, arrays: Any) -> None:
        self._held.append(arrays)
        if len(self._held) == 8:
            self._past.append((self._held.copy(), self._queue.mark()))
            self._held.clear()
        while self._past and self._past[0][1].ready():
            self._past.popleft()

    def synchronize(self) -> None:
        if self._queue is not None:
            self._queue.synchronize()
            self._held.clear()
            self._past.clear()

    def make_wait(self, stream: Any) -> None:
        if self._queue is not None:
            self._queue.make_wait(stream_number(stream))
