"""The streams with which a transformer's work is ordered, recorded by a fake queue."""

import sys
import types

import numpy as np
import pytest

from damacy.halo import _queue
from damacy.halo._gather import Arrays


class Recorder:
    """Replaces the native queue."""

    def __init__(self, device):
        self.device, self.calls, self.marks = device, [], []

    def mark(self):
        self.marks.append(Mark())
        return self.marks[-1]

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


@pytest.fixture(autouse=True)
def recorders(monkeypatch):
    monkeypatch.setattr(_queue._native, "HaloQueue", Recorder)


def arrays(*named, unnamed=None):
    array = np.zeros(1)
    return Arrays([array], [0], ((8,),), 0, [], [Named(n) for n in named], unnamed or ([] if named else [array]))


class Mark:
    passed = False

    def ready(self):
        return self.passed


class Named:
    """An array whose library names the stream that uses it."""

    def __init__(self, stream):
        self.__cuda_array_interface__ = {"stream": stream}


class CupyArray(Named):
    __module__ = "cupy"


def test_each_run_asks_for_the_stream_of_that_time(monkeypatch):
    queue, named, other = _queue.Queue(), Named(7), Named(4)
    call = queue.bound(Arrays([named], [0], ((8,),), 0, [], [named], [other]), "copies", buffer())
    named.__cuda_array_interface__ = {"stream": 9}
    other.__cuda_array_interface__ = {"stream": 5}
    call()
    assert calls_of(queue) == [("run_bound", "copies", 9, [5], [])]

    stream = types.SimpleNamespace(ptr=11)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array = CupyArray(11)
    call = queue.bound(Arrays([array], [0], ((8,),), 0, [], [array], []), "copies", buffer())
    stream.ptr = 22
    call()
    assert calls_of(queue) == [("run_alone", "copies", 22)]


def buffer():
    return types.SimpleNamespace(_last_use=None)


def calls_of(queue):
    out = list(queue._queue.calls)
    queue._queue.calls.clear()
    return out


def test_a_call_without_streams_runs_on_the_stream_of_its_arrays():
    queue = _queue.Queue()
    queue.bound(arrays(), "copies", buffer())()
    assert calls_of(queue) == [("run_alone", "copies", 0)]


def test_streams_that_arrays_name_wait_and_are_waited_for():
    queue = _queue.Queue()
    call = queue.bound(arrays(7, 8), "copies", buffer())
    call()
    call(9)
    call(8, [5, 6])
    runs = [("run_bound", "copies", 7, [8], []), ("run_bound", "copies", 9, [7, 8], [])]
    assert calls_of(queue) == [*runs, ("run_bound", "copies", 8, [7], [5, 6])]


def test_arrays_of_two_libraries_are_ordered_with_the_streams_of_both():
    queue = _queue.Queue()
    queue.bound(arrays(7, unnamed=[Named(3)]), "copies", buffer())()
    queue.bound(arrays(unnamed=[Named(3), Named(4)]), "copies", buffer())()
    assert calls_of(queue) == [("run_bound", "copies", 7, [3], []), ("run_bound", "copies", 3, [4], [])]


def test_an_exchange_on_another_stream_is_ordered_with_the_current_one():
    queue = _queue.Queue()
    queue.bound(arrays(), "copies", None)(4)
    queue.bound(arrays(), "copies", buffer())(4)
    assert calls_of(queue) == [("run_bound", "copies", 4, [0], []), ("run_bound", "copies", 4, [], [])]


def test_the_first_run_with_a_buffer_is_ordered_after_its_last_use():
    first, second, shared = _queue.Queue(), _queue.Queue(), buffer()
    for queue in (first, first, second, second):
        queue.bound(arrays(), "copies", shared)()
    run = ("run_alone", "copies", 0)
    assert calls_of(first) == [run, run]
    assert calls_of(second) == [("order_after", first._queue), run, run]


def test_a_launch_of_several_is_ordered_with_the_work_of_each():
    first, second, other = _queue.Queue(), _queue.Queue(), buffer()
    second.bound(arrays(), "copies", buffer())()
    second.precedes(first)
    first.bound(arrays(), "both", buffer())()
    second.joins(first, other)
    assert calls_of(first) == [("order_after", second._queue), ("run_alone", "both", 0)]
    assert calls_of(second)[1:] == [("order_after", first._queue)]
    assert other._last_use is first._queue


def test_arrays_are_held_until_their_work_is_waited_for():
    queue, mine = _queue.Queue(), arrays()
    call = queue.bound(mine, "copies", buffer())
    call(), call()
    assert queue._held == [mine]
    queue.synchronize()
    assert queue._held == []


def test_a_queue_that_is_never_idle_releases_arrays_of_ended_runs():
    queue = _queue.Queue()
    for _ in range(100):
        queue.bound(arrays(), "copies", buffer())()
        for mark in queue._queue.marks[:-2]:
            mark.passed = True
    assert len(queue._queue.marks) == 12
    assert sum(len(held) for held, _ in queue._past) + len(queue._held) <= 32
