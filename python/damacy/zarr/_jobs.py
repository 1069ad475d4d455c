"""Runs native reads under an asyncio event loop: starts them and wakes the tasks that await them. Knows loops and
futures; not arrays.

Native threads do not take the GIL. They signal an eventfd that the loop watches. After a loop is closed, a thread
watches the eventfd instead, until the last read has ended."""

from __future__ import annotations

import _thread
import asyncio
import atexit
import contextlib
import itertools
import operator
import os
import select
import weakref
from collections.abc import Callable
from typing import Any

from damacy._core.errors import InvalidArgument

_POLL_S = 1.0  # overdue reads time out at most this long after their deadline

_numbers = itertools.count(1)
_exit_is_registered = False


def thread_count() -> int:
    """`damacy.threads` of zarr's configuration, else its `threading.max_workers`, else one per CPU of this process.

    Raises `InvalidArgument` for a setting that is not a positive integer, 0 or None."""
    import zarr

    for name in ("damacy.threads", "threading.max_workers"):
        chosen = zarr.config.get(name, None)
        if chosen is None or chosen == 0:
            continue
        try:
            threads = operator.index(chosen)
        except TypeError:
            threads = -1
        if threads < 1:
            raise InvalidArgument(f"zarr.config {name!r}: expected a number of threads, or None (got {chosen!r})")
        return threads
    return len(os.sched_getaffinity(0))


class _LoopEvents:
    """The eventfd of one loop, and the reads that will signal it. Only the loop keeps it alive: it is destroyed when
    the loop is closed or dropped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from damacy import _native

        self.running: dict[int, Any] = {}  # objects that a read uses, by its number, until it ends (cancelled or not)
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._is_polling = False
        self._loop = weakref.ref(loop)
        self._process = os.getpid()
        self.event_fd = _native.EventFd()
        loop.add_reader(self.event_fd.fd, self._on_signal)

    def __del__(self) -> None:
        if self.running and self._process == os.getpid():  # a forked child would take the parent's signals
            _keep_until_ended(self.event_fd, self.running)

    def is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop() is loop

    def add(self, number: int, future: asyncio.Future[None], keep: Any) -> None:
        self.running[number] = keep
        self._futures[number] = future
        if not self._is_polling:
            self._is_polling = True
            future.get_loop().call_later(_POLL_S, self._poll)

    def drop(self, number: int) -> None:
        del self.running[number], self._futures[number]

    def _poll(self) -> None:
        """Times out overdue reads, and schedules itself again while reads run."""
        from damacy import _native

        _native.abandon_overdue_reads()
        self._is_polling = bool(self.running)
        if self._is_polling:
            asyncio.get_running_loop().call_later(_POLL_S, self._poll)

    def _on_signal(self) -> None:
        for number in self.event_fd.take():
            self.running.pop(number, None)
            future = self._futures.pop(number, None)
            if future is not None and not future.done():
                future.set_result(None)


# By the id of the loop: a dictionary with loops as keys would keep them alive.
_loops: weakref.WeakValueDictionary[int, _LoopEvents] = weakref.WeakValueDictionary()
_orphans: list[Any] = []  # of reads for which no thread could be started: kept until the process ends


def _events_of(loop: asyncio.AbstractEventLoop) -> _LoopEvents:
    events = _loops.get(id(loop))
    if events is None or not events.is_of(loop):  # an id may be used again
        events = _loops[id(loop)] = _LoopEvents(loop)
    return events


def _keep_until_ended(event_fd: Any, running: dict[int, Any]) -> None:
    """Keeps the eventfd of a closed loop, and the objects that its reads use, until the reads have ended.

    A finalizer calls this, possibly in the middle of any Python code on any thread, so it takes no lock."""
    for number in event_fd.take():
        running.pop(number, None)
    if not running:
        return
    try:
        _thread.start_new_thread(_wait_for_reads, (event_fd, running))
    except RuntimeError:  # the interpreter is shutting down, or no thread can be started
        _orphans.append((event_fd, running))


def _wait_for_reads(event_fd: Any, running: dict[int, Any]) -> None:
    from damacy import _native

    _name_this_thread(name="damacy-drain")
    poll = select.poll()
    poll.register(event_fd.fd, select.POLLIN)
    while running:
        if not poll.poll(_POLL_S * 1000):
            _native.abandon_overdue_reads()
        for number in event_fd.take():
            running.pop(number, None)


def _name_this_thread(name: str) -> None:
    """As debuggers and /proc show it. `threading` did not start this thread, and would keep an entry for it."""
    with contextlib.suppress(OSError), open("/proc/thread-self/comm", "w") as comm:
        comm.write(name)


def _stop_at_exit() -> None:
    global _exit_is_registered
    if not _exit_is_registered:
        from damacy import _native

        atexit.register(_native.stop_reads)
        _exit_is_registered = True


async def run(start: Callable[[int, Any, int], Any], keep: Any) -> bytes:
    """Awaits `start(threads, event_fd, number)`, a native read. Returns one byte per item: 1 if its object is missing.

    `keep` stays alive until the read has ended, even if the caller is cancelled; the read then stops early."""
    _stop_at_exit()
    loop = asyncio.get_running_loop()
    events = _events_of(loop)
    number = next(_numbers)
    future: asyncio.Future[None] = loop.create_future()
    events.add(number, future, keep)
    try:
        read = start(thread_count(), events.event_fd, number)
    except Exception:
        events.drop(number)
        raise  # after a signal (KeyboardInterrupt) the read may be running: its entry stays until it ends
    del events  # only the loop may keep it: a task that awaits a future of a closed loop must not
    try:
        await future
    except BaseException:  # the task was cancelled, or its loop has ended
        read.cancel()
        raise
    missing: bytes = read.missing()
    return missing
