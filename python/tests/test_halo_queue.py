"""The streams with which a transformer's work is ordered, on a device in host memory that works as late as possible: a
run that does not wait for what it needs copies old bytes."""

import sys
import types

import numpy as np
import pytest

from damacy import _native, halo

CELLS = 8


class Named:
    """Memory whose library names the stream that uses it."""

    def __init__(self, stream, memory=None, named=True, dtype="i8"):
        self.memory = np.zeros(CELLS, dtype) if memory is None else memory
        self.stream, self.named, self.dtype, self.device = stream, named, self.memory.dtype, 0

    @property
    def __cuda_array_interface__(self):
        said = self.memory.__array_interface__
        more = {"stream": self.stream} if self.named or self.later else {}
        return {key: said[key] for key in ("shape", "typestr", "data")} | {"version": 3} | more

    later = False


class Other(Named):
    """Another type, so that its stream is asked for too."""


class CupyArray(Named):
    __module__ = "cupy"


def unnamed(stream, cls=Named):
    """An array that names no stream when it is gathered, and this one from then on."""
    return cls(stream, named=False)


class Message:
    """A buffer of a transformer."""

    def __init__(self, cells=CELLS):
        self.memory, self._last_use = np.zeros(cells, "i8"), None
        self.address = self.memory.__array_interface__["data"][0]


@pytest.fixture
def streams():
    return _native.LazyStreams()


def plans(count):
    spec = halo.HaloExchangeSpec(
        halo.Quantity(np.zeros(CELLS, "i8"), ("i",)).halo_spec(0), (slice(None),), 0, (slice(None),)
    )
    return _native.TransformerPlans([spec._native] * count, None, False)


def refuse(quantity):
    raise AssertionError("left to Python")


class Transfer:
    """Packs arrays into a message, or unpacks it."""

    def __init__(self, queue, arrays, message, unpack=False, buffer=True):
        made = plans(len(arrays))
        self.arrays = _native.gather_quantities(made, arrays, None, refuse)
        for array in arrays:
            array.later = True
        copies = made.bind(unpack, self.arrays, message.address)
        self.run = queue.bound(self.arrays, copies, message if buffer else None)


def fill(streams, array, value, stream):
    """Enqueues on the stream that the array gets a value. Returns what must stay alive."""
    queue, message, target = _native.HaloQueue(streams), Message(), Named(stream, array.memory, named=stream > 0)
    message.memory[:] = value
    Transfer(queue, [target], message, unpack=True).run()
    return queue, message


def expect(queue, message, *values):
    queue.synchronize()
    assert message.memory.reshape(-1, CELLS).T.tolist() == [list(values)] * CELLS


@pytest.mark.parametrize("stream", [0, 7])
def test_a_run_comes_after_earlier_work_of_the_stream_of_its_array(streams, stream):
    array, message, queue = unnamed(stream), Message(), _native.HaloQueue(streams)
    kept = fill(streams, array, 5, stream)
    Transfer(queue, [array], message).run()
    assert message.memory.tolist() == [0] * CELLS, "the device is not lazy"
    expect(queue, message, 5)
    del kept


def test_each_run_asks_for_the_stream_of_that_time(streams, monkeypatch):
    array, other, message, queue = Named(7), unnamed(4, Other), Message(2 * CELLS), _native.HaloQueue(streams)
    transfer = Transfer(queue, [array, other], message)
    array.stream, other.stream = 9, 5
    kept = fill(streams, array, 1, 9), fill(streams, other, 2, 5)
    transfer.run()
    expect(queue, message, 1, 2)

    stream = types.SimpleNamespace(ptr=11)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array, message = CupyArray(11), Message()
    transfer = Transfer(queue, [array], message)
    stream.ptr = 22
    kept += (fill(streams, array, 3, 22),)
    transfer.run()
    expect(queue, message, 3)


@pytest.mark.parametrize("stream", [None, 8, 9])
def test_streams_that_arrays_name_are_waited_for(streams, stream):
    first, second, message, queue = Named(7), Named(8), Message(2 * CELLS), _native.HaloQueue(streams)
    kept = fill(streams, first, 1, 7), fill(streams, second, 2, 8)
    Transfer(queue, [first, second], message).run(stream)
    expect(queue, message, 1, 2)
    del kept


@pytest.mark.parametrize("after", [5, [5, 6], (6, 5)])
def test_streams_after_which_a_run_is_asked_for_are_waited_for(streams, after):
    first, second, message, queue = Named(7), Named(7), Message(2 * CELLS), _native.HaloQueue(streams)
    kept = fill(streams, first, 1, 5), fill(streams, second, 2, 5 if after == 5 else 6)
    Transfer(queue, [first, second], message).run(8, after)
    expect(queue, message, 1, 2)
    del kept


def test_later_work_of_streams_that_arrays_name_waits_for_the_run(streams):
    first, second, message, queue = Named(7), Named(8), Message(2 * CELLS), _native.HaloQueue(streams)
    transfer = Transfer(queue, [first, second], message)
    transfer.run()
    late = fill(streams, first, 4, 7), fill(streams, second, 4, 8)
    late[1][0].synchronize()
    assert second.memory.tolist() == [4] * CELLS
    assert message.memory.tolist() == [0] * 2 * CELLS
    expect(queue, message, 0, 0)


def test_an_exchange_on_another_stream_is_ordered_with_the_current_one(streams):
    array, message, queue = unnamed(0), Message(), _native.HaloQueue(streams)
    kept = fill(streams, array, 5, 0)
    Transfer(queue, [array], message, buffer=False).run(4)
    expect(queue, message, 5)
    del kept


def test_the_first_run_with_a_buffer_is_ordered_after_its_last_use(streams):
    shared, first, second = Message(), _native.HaloQueue(streams), _native.HaloQueue(streams)
    ours, theirs = Named(1), Named(2)
    ours.memory[:], theirs.memory[:] = 1, 2
    Transfer(first, [ours], shared).run()
    assert shared._last_use is first
    Transfer(second, [theirs], shared).run()
    assert shared._last_use is second
    expect(second, shared, 2)
    expect(first, shared, 2)


@pytest.mark.parametrize("waits_for_first", [False, True])
def test_a_launch_of_several_is_ordered_with_the_work_of_each(streams, waits_for_first):
    first, second, mine, other = _native.HaloQueue(streams), _native.HaloQueue(streams), Message(), Message()
    array = Named(3)
    Transfer(second, [array], mine).run()
    second.precedes(first)
    other.memory[:] = 9
    Transfer(first, [Named(4, array.memory)], other, unpack=True).run()
    second.joins(first, other)
    assert other._last_use is first
    (first if waits_for_first else second).synchronize()
    assert array.memory.tolist() == [9] * CELLS
    assert mine.memory.tolist() == [0] * CELLS, "packed what was unpacked later"


def test_arrays_are_held_until_their_work_is_waited_for(streams):
    queue, message = _native.HaloQueue(streams), Message()
    transfer = Transfer(queue, [Named(1)], message)
    transfer.run(), transfer.run()
    assert queue.held == 1
    queue.synchronize()
    assert queue.held == 0


def test_a_queue_that_is_never_idle_releases_arrays_of_ended_runs(streams):
    queue, after, messages = _native.HaloQueue(streams), _native.HaloQueue(streams), [Message(), Message()]
    for _ in range(100):
        Transfer(queue, [Named(1)], messages[0]).run()
        queue.precedes(after)
        Transfer(after, [Named(2)], messages[1]).run()
        after.synchronize()
    assert queue.held <= 32


def test_streams_and_devices_are_checked(streams):
    queue = _native.HaloQueue(streams)
    transfer = Transfer(queue, [Named(1)], Message())
    with pytest.raises(TypeError, match="expected None, a stream or an event"):
        transfer.run("stream")
    with pytest.raises(ValueError, match="stream None: expected a stream or its handle"):
        transfer.run(7, [None])
    elsewhere = Named(1)
    elsewhere.device = 3
    with pytest.raises(ValueError, match="the arrays are on device 3, the buffers on device 0"):
        Transfer(queue, [elsewhere], Message())
