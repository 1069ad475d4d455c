"""Reads of damacy.zarr whose event loop ends before they do: what they use stays until then, and not longer. The native
read is a stand-in that ends when the test says so."""

import asyncio
import gc
import os
import threading
import weakref

import pytest

pytest.importorskip("zarr")

from damacy import _native
from damacy.zarr import _jobs

pytestmark = pytest.mark.timeout(60)
DEADLINE_S = 30


class Memory:
    """What a read writes to."""


class Bell:
    """In the place of the native bell, whose ring only native threads can call."""

    def __init__(self):
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ended = []
        self.closed = threading.Event()
        weakref.finalize(self, self._close, self.fd, self.closed)

    @staticmethod
    def _close(fd, closed):
        os.close(fd)
        closed.set()

    def ring(self, number):
        self._ended.append(number)
        os.eventfd_write(self.fd, 1)

    def take(self):
        ended, self._ended = self._ended, []
        return ended


class Read:
    """A read under way. `gone` is set when nothing keeps its memory, `closed` when its bell's descriptor is closed."""

    def __init__(self, memory):
        self.was_cancelled, self.gone = False, threading.Event()
        weakref.finalize(memory, self.gone.set)

    def start(self, threads, bell, number):
        self._bell, self._number = weakref.ref(bell), number
        self.closed = bell.closed
        return self

    def cancel(self):
        self.was_cancelled = True

    def missing(self):
        return b""

    def end(self):
        self._bell().ring(self._number)


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
    """A read that runs on after its loop was closed, and the loop's reference."""
    monkeypatch.setattr(_native, "Bell", Bell)
    monkeypatch.setattr(_jobs, "_LOOK_S", 0.01)
    memory = Memory()
    read = Read(memory)
    loop = request.param(memory, read)
    del memory
    gc.collect()
    yield read, loop


def test_memory_of_a_cancelled_read_stays_until_it_ends_and_is_freed_then(loop_that_ended):
    read, loop = loop_that_ended
    assert read.was_cancelled
    assert loop() is None, gc.get_referrers(loop())  # freed at once: only memory and bell are needed
    assert not read.gone.is_set()
    assert not read.closed.is_set()
    read.end()
    assert read.gone.wait(DEADLINE_S)
    assert read.closed.wait(DEADLINE_S)


def test_a_read_that_ended_unheard_needs_no_thread(monkeypatch):
    """It rings between the loop's last turn and its end."""
    monkeypatch.setattr(_native, "Bell", Bell)
    monkeypatch.setattr(_jobs._thread, "start_new_thread", lambda *_: pytest.fail("a thread was started"))
    memory = Memory()
    read = Read(memory)
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


def test_storage_that_does_not_answer_is_timed_out_for_a_closed_loop_too(loop_that_ended, monkeypatch):
    read, _ = loop_that_ended
    looked = threading.Event()

    def abandon_overdue_reads():
        looked.set()
        read.end()

    monkeypatch.setattr(_native, "abandon_overdue_reads", abandon_overdue_reads)
    assert looked.wait(DEADLINE_S)
    assert read.gone.wait(DEADLINE_S)


def test_loops_leave_nothing_behind_over_many_rounds(monkeypatch):
    monkeypatch.setattr(_native, "Bell", Bell)
    gc.collect()  # what tests before this one left
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
    assert len(os.listdir("/proc/self/fd")) <= before
    assert not any(bell.running for bell in _jobs._bells.values())


def test_a_loop_with_the_id_of_an_earlier_one_has_a_bell_of_its_own():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        bell = _jobs._bell_of(first)
        _jobs._bells[id(second)] = bell  # as when `second` lies where a loop was whose bell is still referred to
        assert _jobs._bell_of(second) is not bell
        assert _jobs._bell_of(first) is bell
    finally:
        first.close()
        second.close()


def test_a_read_that_could_not_be_started_leaves_nothing():
    def broken(threads, bell, number):
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
