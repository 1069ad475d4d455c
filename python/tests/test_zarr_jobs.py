"""Reads of damacy.zarr that outlive their event loop: the objects that a read uses stay until it ends, and no longer.
The native read is a fake that ends when the test says so."""

import asyncio
import gc
import os
import pathlib
import select
import threading
import types
import weakref

import pytest

pytest.importorskip("zarr")

from damacy import _native
from damacy.zarr import _jobs

pytestmark = pytest.mark.timeout(60)
DEADLINE_S = 30


class Memory:
    """The memory that a read writes to."""


class EventFd:
    """Replaces the native eventfd, which only native threads can signal."""

    def __init__(self):
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ended = []
        self.closed = threading.Event()
        weakref.finalize(self, self._close, self.fd, self.closed)

    @staticmethod
    def _close(fd, closed):
        os.close(fd)
        closed.set()

    def signal(self, number):
        self._ended.append(number)
        os.eventfd_write(self.fd, 1)

    def take(self):
        ended, self._ended = self._ended, []
        return ended


class Read:
    """A read under way. `gone` is set when its memory is freed, `closed` when its event descriptor is closed."""

    def __init__(self, memory):
        self.was_cancelled, self.gone = False, threading.Event()
        weakref.finalize(memory, self.gone.set)

    def start(self, threads, event_fd, number):
        self._event_fd, self._number = weakref.ref(event_fd), number
        self.closed = event_fd.closed
        return self

    def cancel(self):
        self.was_cancelled = True

    def missing(self):
        return b""

    def end(self):
        self._event_fd().signal(self._number)


def cancelled_at_the_end(memory, read):
    async def main():
        reading = asyncio.ensure_future(_jobs.run(read.start, memory))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return weakref.ref(asyncio.get_running_loop())

    return asyncio.run(main())


def left_behind(memory, read):
    """The loop stops and is closed, and its task is dropped."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(_jobs.run(read.start, memory))
    task._log_destroy_pending = False
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    return weakref.ref(loop)


@pytest.fixture(params=[cancelled_at_the_end, left_behind])
def loop_that_ended(request, monkeypatch):
    """A read that still runs after its loop was closed, and a weak reference to the loop."""
    monkeypatch.setattr(_native, "EventFd", EventFd)
    monkeypatch.setattr(_jobs, "_POLL_S", 0.01)
    memory = Memory()
    read = Read(memory)
    loop = request.param(memory, read)
    del memory
    gc.collect()
    yield read, loop


def test_memory_of_a_cancelled_read_stays_until_it_ends_and_is_freed_then(loop_that_ended):
    read, loop = loop_that_ended
    assert read.was_cancelled
    assert loop() is None, gc.get_referrers(loop())  # freed at once: the read needs only its memory and event_fd
    assert not read.gone.is_set()
    assert not read.closed.is_set()
    read.end()
    assert read.gone.wait(DEADLINE_S)
    assert read.closed.wait(DEADLINE_S)


def test_a_read_that_ended_before_its_loop_was_closed_needs_no_thread(monkeypatch):
    """The read signals after the loop has stopped and before it is closed."""
    monkeypatch.setattr(_native, "EventFd", EventFd)
    memory = Memory()
    read = Read(memory)
    start_new_thread, is_for_ours = _jobs._thread.start_new_thread, []

    def start(function, arguments):  # possibly also for a loop that another test left
        is_for_ours.append(arguments[0] is read._event_fd())
        return start_new_thread(function, arguments)

    monkeypatch.setattr(_jobs, "_thread", types.SimpleNamespace(start_new_thread=start))
    loop = asyncio.new_event_loop()
    task = loop.create_task(_jobs.run(read.start, memory))
    task._log_destroy_pending = False
    loop.call_soon(loop.stop)
    loop.run_forever()
    read.end()
    del memory, task
    loop.close()
    gc.collect()
    assert read.gone.is_set() and read.closed.is_set()
    assert not any(is_for_ours)


def test_a_forked_child_takes_no_signal_of_its_parents_reads():
    loop = asyncio.new_event_loop()
    events = _jobs._LoopEvents(loop)
    events.running[1] = "memory of a read that the parent waits for"
    os.eventfd_write(events.event_fd.fd, 1)
    if (child := os.fork()) == 0:
        loop.remove_reader(events.event_fd.fd)
        del events
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert select.select([events.event_fd.fd], [], [], 0)[0], "the child has taken the signal"
    events.running.clear()
    loop.close()


def test_an_overdue_read_of_a_closed_loop_is_timed_out_by_a_thread_with_a_name(loop_that_ended, monkeypatch):
    read, _ = loop_that_ended
    abandon_of_all_loops = _native.abandon_overdue_reads

    def abandon_overdue_reads():
        if pathlib.Path("/proc/thread-self/comm").read_text().strip() == "damacy-drain":
            read.end()
        else:  # a loop of another test that still runs, as zarr-python's does
            abandon_of_all_loops()

    monkeypatch.setattr(_native, "abandon_overdue_reads", abandon_overdue_reads)
    assert read.gone.wait(DEADLINE_S)


def test_many_loops_leak_no_descriptors(monkeypatch):
    monkeypatch.setattr(_native, "EventFd", EventFd)
    gc.collect()  # garbage of earlier tests
    before, reads = len(os.listdir("/proc/self/fd")), []
    for _ in range(20):
        memory = Memory()
        reads.append(Read(memory))
        cancelled_at_the_end(memory, reads[-1])
        del memory
    gc.collect()
    for read in reads:
        read.end()
    assert all(read.closed.wait(DEADLINE_S) for read in reads)
    assert len(os.listdir("/proc/self/fd")) < before + 20  # fewer than one a loop: others may open some
    assert not any(events.running for events in list(_jobs._loops.values()) if isinstance(events.event_fd, EventFd))


def test_a_loop_with_the_id_of_an_earlier_one_has_events_of_its_own():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        events = _jobs._events_of(first)
        _jobs._loops[id(second)] = events  # as if `second` had the address of a loop whose events are still referenced
        assert _jobs._events_of(second) is not events
        assert _jobs._events_of(first) is events
    finally:
        first.close()
        second.close()


def test_a_read_that_could_not_be_started_leaves_nothing():
    def broken(threads, event_fd, number):
        raise OSError("no more threads")

    async def main():
        memory = Memory()
        gone = weakref.ref(memory)
        with pytest.raises(OSError, match="no more threads"):
            await _jobs.run(broken, memory)
        del memory
        gc.collect()
        return gone() is None

    assert asyncio.run(main())
