"""Event loops that requests to stores run on: zarr-python's own, and one of ours for obstore."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

_JOIN_S = 1.0


class _Loop:
    """A thread that runs an event loop."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="damacy-stores", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Cancels what runs and ends the thread, unless a request blocks it."""

        def cancel() -> None:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.call_soon(self.loop.stop)

        self.loop.call_soon_threadsafe(cancel)
        self.thread.join(_JOIN_S)


_ours: _Loop | None = None
_lock = threading.Lock()


def _after_fork() -> None:
    """A child has no thread of its parent's, and starts anew."""
    global _ours, _lock
    _ours, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def run_on_ours(work: Coroutine[Any, Any, None]) -> Future[None]:
    """Starts `work` on our loop, whose thread is started by the first call."""
    global _ours
    with _lock:
        if _ours is None:
            _ours = _Loop()
        loop = _ours.loop
    return asyncio.run_coroutine_threadsafe(work, loop)


def run_on_zarrs(work: Coroutine[Any, Any, None]) -> Future[None]:
    """Starts `work` on zarr-python's loop: sessions of fsspec and aiohttp belong to the first loop that used them."""
    from zarr.core.sync import _get_loop

    return asyncio.run_coroutine_threadsafe(work, _get_loop())


def stop_ours() -> None:
    """Ends our loop, if it was started."""
    global _ours
    with _lock:
        ours, _ours = _ours, None
    if ours is not None:
        ours.stop()
