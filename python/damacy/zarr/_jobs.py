"""Native reads under an event loop: starts them, and wakes who awaits them. Knows loops and futures; not arrays.

No native thread takes the GIL: it rings a bell, a file descriptor that the loop watches. Once a loop is closed, a
thread watches the bell instead, until the last read has ended."""

from __future__ import annotations

import _thread
import asyncio
import atexit
import itertools
import operator
import os
import select
import weakref
from collections.abc import Callable
from typing import Any

from damacy._core.errors import InvalidArgument

_LOOK_S = 1.0  # how late a read that storage does not answer may be seen

_numbers = itertools.count(1)
_exit_is_registered = False


def thread_count() -> int:
    """`damacy.threads` of zarr's configuration, else its `threading.max_workers`, else the CPUs of this process.

    Raises `InvalidArgument` for what is no count of threads."""
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


class _LoopBell:
    """The bell of one loop, and the reads that will ring it. Only the loop refers to it for long: it ends when the loop
    is closed, or dropped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from damacy import _native

        self.running: dict[int, Any] = {}  # what reads use, by number, until they have ended, cancelled or not
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._looks = False
        self._loop = weakref.ref(loop)
        self.bell = _native.Bell()
        loop.add_reader(self.bell.fd, self._rung)

    def __del__(self) -> None:
        if self.running:
            _keep_until_ended(self.bell, self.running)

    def is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop() is loop

    def add(self, number: int, future: asyncio.Future[None], keep: Any) -> None:
        self.running[number] = keep
        self._futures[number] = future
        if not self._looks:
            self._looks = True
            future.get_loop().call_later(_LOOK_S, self._look)

    def drop(self, number: int) -> None:
        del self.running[number], self._futures[number]

    def _look(self) -> None:
        """While reads run: those that storage does not answer end at their deadline."""
        from damacy import _native

        _native.abandon_overdue_reads()
        self._looks = bool(self.running)
        if self._looks:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _rung(self) -> None:
        for number in self.bell.take():
            self.running.pop(number, None)
            future = self._futures.pop(number, None)
            if future is not None and not future.done():
                future.set_result(None)


# By the loop's id, because a loop as a key would have to be held by its bell's reads.
_bells: weakref.WeakValueDictionary[int, _LoopBell] = weakref.WeakValueDictionary()
_orphans: list[Any] = []  # of reads that no thread could be started for: they stay until the process ends


def _bell_of(loop: asyncio.AbstractEventLoop) -> _LoopBell:
    bell = _bells.get(id(loop))
    if bell is None or not bell.is_of(loop):  # an id may be used again
        bell = _bells[id(loop)] = _LoopBell(loop)
    return bell


def _keep_until_ended(bell: Any, running: dict[int, Any]) -> None:
    """Holds what the reads of a closed loop use, and their bell, until they have ended.

    Called by a finalizer, so perhaps within any Python code of any thread: it takes no lock."""
    for number in bell.take():
        running.pop(number, None)
    if not running:
        return
    try:
        _thread.start_new_thread(_wait_for_reads, (bell, running))
    except RuntimeError:  # the interpreter ends, or there are no more threads
        _orphans.append((bell, running))


def _wait_for_reads(bell: Any, running: dict[int, Any]) -> None:
    from damacy import _native

    poll = select.poll()
    poll.register(bell.fd, select.POLLIN)
    while running:
        if not poll.poll(_LOOK_S * 1000):
            _native.abandon_overdue_reads()
        for number in bell.take():
            running.pop(number, None)


def _stop_at_exit() -> None:
    global _exit_is_registered
    if not _exit_is_registered:
        from damacy import _native

        atexit.register(_native.stop_reads)
        _exit_is_registered = True


async def run(start: Callable[[int, Any, int], Any], keep: Any) -> bytes:
    """Awaits `start(threads, bell, number)`, a native read. Gives a byte for each item: 1 where its object is missing.

    `keep` stays alive until the read has ended, also if the caller is cancelled: then the read stops early."""
    _stop_at_exit()
    loop = asyncio.get_running_loop()
    bell = _bell_of(loop)
    number = next(_numbers)
    future: asyncio.Future[None] = loop.create_future()
    bell.add(number, future, keep)
    try:
        read = start(thread_count(), bell.bell, number)
    except Exception:
        bell.drop(number)
        raise  # after a signal instead, the read may run and write: its entry stays until it ends
    del bell  # the loop's alone: what awaits a future of a closed loop must not keep it
    try:
        await future
    except BaseException:  # cancelled, or left behind by a loop that has ended
        read.cancel()
        raise
    missing: bytes = read.missing()
    return missing
