"""Futures of file requests, and functions that wait for many of them. Knows nothing of files."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from damacy import _native
from damacy._core.log import logger
from damacy._fileio import memory


class IOFuture(_native.IoHandle):
    """The future of one request; returned by methods of `CuFile`.

    The request keeps the file and the buffers alive until its last part has ended, even if the future is dropped.
    """

    __slots__ = ()

    def __init__(self, handle: Any) -> None:
        raise TypeError("IOFuture: futures are returned by requests, not constructed")

    def wait_stream(self, stream: Any) -> int:
        """Waits only for the file I/O and makes `stream` wait for the copies. Returns the number of bytes."""
        number = memory.stream_number(stream)
        return self.make_stream_wait(memory.LEGACY_STREAM if number is None else number)

    def add_done_callback(self, fn: Callable[[IOFuture], Any]) -> None:
        """Calls `fn(self)` once: on the library's callback thread, or in this call if the operation has ended."""
        self.when_done(lambda: _call_logged(fn, self))

    def __await__(self) -> Generator[Any, None, int]:
        import asyncio

        if not self.done():
            try:
                yield from self._wake_up().__await__()
            except asyncio.CancelledError:
                self.cancel()
                yield from self._wait_uncancelled()
                raise
        return self.get()

    def _wake_up(self) -> Any:
        """An asyncio future that completes when this one does."""
        import asyncio

        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def notify(_: IOFuture) -> None:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:  # the loop has been closed, so no task waits
                pass

        self.add_done_callback(notify)
        return waiter

    def _wait_uncancelled(self) -> Generator[Any, None, None]:
        import asyncio

        while not self.done():
            try:
                yield from self._wake_up().__await__()
            except asyncio.CancelledError:
                continue


def _call_logged(fn: Callable[[IOFuture], Any], future: IOFuture) -> None:
    try:
        fn(future)
    except Exception:
        logger().exception("exception in a callback of %r", future)


class IOFutureStream:
    """A request enqueued on a stream. The request keeps file and buffer alive, even if this object is dropped."""

    __slots__ = ("__weakref__", "_handle")

    def __init__(self, handle: Any) -> None:
        self._handle: _native.IoHandle = handle

    def check_bytes_done(self) -> int:
        """Waits for the request. Returns the number of bytes read or written, or raises its error."""
        return self._handle.get()


class _Ended:
    """Collects futures as they end."""

    def __init__(self, futures: Iterable[IOFuture]) -> None:
        self.all = set(futures)
        self.ended: list[IOFuture] = []
        self._changed = threading.Condition()
        for future in self.all:
            future.add_done_callback(self._add)

    def _add(self, future: IOFuture) -> None:
        with self._changed:
            self.ended.append(future)
            self._changed.notify_all()

    def has_more_than(self, count: int) -> bool:
        return len(self.ended) > count

    def wait_until(self, enough: Callable[[], bool], deadline: float | None) -> bool:
        with self._changed:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            return self._changed.wait_for(enough, left)


def _failed(future: IOFuture) -> bool:
    return not future.cancelled() and future.exception() is not None


def wait(futures: Iterable[IOFuture], timeout: float | None = None, return_when: str = "ALL_COMPLETED") -> Any:
    """Like `concurrent.futures.wait`: returns the sets of futures that have ended and that have not."""
    conditions: dict[str, Callable[[_Ended], bool]] = {
        "ALL_COMPLETED": lambda e: len(e.ended) == len(e.all),
        "FIRST_COMPLETED": lambda e: bool(e.ended) or not e.all,
        "FIRST_EXCEPTION": lambda e: len(e.ended) == len(e.all) or any(map(_failed, e.ended)),
    }
    if return_when not in conditions:
        raise ValueError(f"return_when: expected one of {', '.join(conditions)} (got {return_when!r})")
    ends = _Ended(futures)
    deadline = None if timeout is None else time.monotonic() + timeout
    ends.wait_until(lambda: conditions[return_when](ends), deadline)
    done: set[Any] = {future for future in ends.all if future.done()}
    left: set[Any] = ends.all - done
    return concurrent.futures._base.DoneAndNotDoneFutures(done, left)


def as_completed(futures: Iterable[IOFuture], timeout: float | None = None) -> Iterator[IOFuture]:
    """Like `concurrent.futures.as_completed`: yields futures in the order in which they end."""
    ends = _Ended(futures)
    deadline = None if timeout is None else time.monotonic() + timeout
    for given in range(len(ends.all)):
        if not ends.wait_until(functools.partial(ends.has_more_than, given), deadline):
            raise TimeoutError(f"{len(ends.all) - given} of {len(ends.all)} futures did not end within {timeout} s")
        yield ends.ended[given]
