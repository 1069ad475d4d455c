"""Native reads under an event loop: starts them, and wakes who awaits them. Knows loops and futures; not arrays.

No native thread takes the GIL: it rings a bell, a file descriptor that the loop watches."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import weakref
from collections.abc import Callable
from typing import Any

_LOOK_S = 1.0  # how late a read that storage does not answer may be seen

_numbers = itertools.count(1)
_exit_is_registered = False


def thread_count() -> int:
    """`damacy.threads` of zarr's configuration, else its `threading.max_workers`, else the CPUs of this process."""
    import zarr

    chosen = zarr.config.get("damacy.threads", None) or zarr.config.get("threading.max_workers", None)
    return int(chosen) if chosen else len(os.sched_getaffinity(0))


class _LoopBell:
    """The bell of one loop, and the reads that will ring it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from damacy import _native

        self.bell = _native.Bell()
        # Until a read has ended, cancelled or not, everything that it uses stays here.
        self.running: dict[int, tuple[asyncio.Future[None], Any]] = {}
        self._looks = False
        loop.add_reader(self.bell.fd, self._rung)

    def add(self, number: int, future: asyncio.Future[None], keep: Any) -> None:
        self.running[number] = (future, keep)
        if not self._looks:
            self._looks = True
            future.get_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """While reads run: those that storage does not answer end at their deadline."""
        from damacy import _native

        _native.abandon_overdue_reads()
        self._looks = bool(self.running)
        if self._looks:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _rung(self) -> None:
        for number in self.bell.take():
            future, _ = self.running.pop(number, (None, None))
            if future is not None and not future.done():
                future.set_result(None)


_bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBell] = weakref.WeakKeyDictionary()


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
    bell = _bells.get(loop)
    if bell is None:
        bell = _bells[loop] = _LoopBell(loop)
    number = next(_numbers)
    future: asyncio.Future[None] = loop.create_future()
    bell.add(number, future, keep)
    try:
        read = start(thread_count(), bell.bell, number)
    except Exception:
        del bell.running[number]
        raise  # after a signal instead, the read may run and write: its entry stays until it ends
    try:
        await future
    except asyncio.CancelledError:
        read.cancel()
        raise
    return read.missing()
