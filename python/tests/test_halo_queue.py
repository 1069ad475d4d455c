"""The streams with which a transformer's work is ordered, on a device in host memory that works as late as possible: a
run that does not wait for what it needs copies old bytes."""

import sys
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from damacy import _native, halo
from damacy.halo import exchange
from tests.support import fake_mpi

CELLS, NO_GPU = 8, 77


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


def refuse(quantity):
    raise AssertionError("left to Python")


def transformer_of(count, streams, message):
    field = halo.Quantity(np.zeros(CELLS, "i8"), ("i",)).halo_spec(0)
    spec = halo.HaloExchangeSpec(field, (slice(None),), 0, (slice(None),))
    transformer = _native.HaloTransformer([spec._native] * count, None, False, True, streams)
    transformer.hold(message, message)
    return transformer


class Transfer:
    """A transformer that packs arrays into a message, or unpacks it."""

    def __init__(self, streams, arrays, message, unpack=False):
        self.transformer = transformer_of(len(arrays), streams, message)
        self.arrays, self.unpack = arrays, unpack
        self.bind(arrays)

    def bind(self, arrays):
        bound = self.transformer.bind(self.transformer.gather(arrays, None, refuse))
        self.run = bound.unpack if self.unpack else bound.pack
        for array in arrays:
            array.later = True

    def synchronize(self):
        self.transformer.synchronize()


def fill(streams, array, value, stream):
    """Enqueues on the stream that the array gets a value. Returns what must stay alive."""
    message, target = Message(), Named(stream, array.memory, named=stream > 0)
    message.memory[:] = value
    transfer = Transfer(streams, [target], message, unpack=True)
    transfer.run()
    return transfer


def expect(transfer, message, *values):
    transfer.synchronize()
    assert message.memory.reshape(-1, CELLS).T.tolist() == [list(values)] * CELLS


@pytest.mark.parametrize("stream", [0, 7])
def test_a_run_comes_after_earlier_work_of_the_stream_of_its_array(streams, stream):
    array, message = unnamed(stream), Message()
    kept = fill(streams, array, 5, stream)
    transfer = Transfer(streams, [array], message)
    transfer.run()
    assert message.memory.tolist() == [0] * CELLS, "the device is not lazy"
    expect(transfer, message, 5)
    del kept


def test_each_run_asks_for_the_stream_of_that_time(streams, monkeypatch):
    array, other, message = Named(7), unnamed(4, Other), Message(2 * CELLS)
    transfer = Transfer(streams, [array, other], message)
    array.stream, other.stream = 9, 5
    kept = fill(streams, array, 1, 9), fill(streams, other, 2, 5)
    transfer.run()
    expect(transfer, message, 1, 2)

    stream = types.SimpleNamespace(ptr=11)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array, message = CupyArray(11), Message()
    transfer = Transfer(streams, [array], message)
    stream.ptr = 22
    kept += (fill(streams, array, 3, 22),)
    transfer.run()
    expect(transfer, message, 3)


@pytest.mark.parametrize("stream", [None, 8, 9])
def test_streams_that_arrays_name_are_waited_for(streams, stream):
    first, second, message = Named(7), Named(8), Message(2 * CELLS)
    kept = fill(streams, first, 1, 7), fill(streams, second, 2, 8)
    transfer = Transfer(streams, [first, second], message)
    transfer.run(stream)
    expect(transfer, message, 1, 2)
    del kept


@pytest.mark.parametrize("after", [5, [5, 6], (6, 5)])
def test_streams_after_which_arrays_are_unpacked_are_waited_for(streams, after):
    first, second, message = Named(7), Named(7), Message(2 * CELLS)
    earlier = fill(streams, first, 1, 5), fill(streams, second, 2, 5 if after == 5 else 6)
    message.memory[:] = 9
    transfer = Transfer(streams, [first, second], message, unpack=True)
    transfer.run(8, after)
    transfer.synchronize()
    for one in earlier:
        one.synchronize()
    assert [array.memory.tolist() for array in (first, second)] == [[9] * CELLS] * 2


def test_later_work_of_streams_that_arrays_name_waits_for_the_run(streams):
    first, second, message = Named(7), Named(8), Message(2 * CELLS)
    transfer = Transfer(streams, [first, second], message)
    transfer.run()
    late = fill(streams, first, 4, 7), fill(streams, second, 4, 8)
    late[1].synchronize()
    assert second.memory.tolist() == [4] * CELLS
    assert message.memory.tolist() == [0] * 2 * CELLS
    expect(transfer, message, 0, 0)


def test_an_exchange_on_another_stream_is_ordered_with_the_current_one(streams):
    array, inner = Named(0, named=False), list(range(1, CELLS - 1))
    field = halo.Field.like(array, ("i",), (1,), (CELLS - 2,))
    plan = halo.compile([field], halo.Cartesian((1,), True, dims=("i",)), 0, 1)._native
    arrays = _native.gather_fields(plan, [array], 0, refuse)
    message, target = Message(), Named(0, array.memory, named=False)
    message.memory[1:-1] = inner
    earlier = Transfer(streams, [target], message, unpack=True)
    earlier.run()
    queue = _native.HaloQueue(streams)
    for copies in _native.ExchangeRounds(plan, 1, None, None).bind(0, arrays.addresses)[0]:
        if copies is not None:
            queue.bound(arrays, copies)(4)
    queue.synchronize()
    assert array.memory.tolist() == [inner[-1], *inner, inner[0]]


@pytest.mark.parametrize("transport", ["local", "mpi", "cuda-aware mpi"])
def test_exchanges_of_device_arrays_are_ordered_with_their_streams(streams, monkeypatch, transport):
    """Arrays are filled late, and messages are overwritten in the next round."""
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi.module())
    monkeypatch.setattr(halo.Exchanger, "_lazy", streams)
    monkeypatch.setattr(exchange, "current_stream_on", lambda library, device: None)
    field = halo.Field.like(Named(7), ("i",), (1,), (CELLS - 2,))
    plans = [halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), rank, 1) for rank in range(2)]
    if transport == "local":
        transports = [halo.Local(2)] * 2
    else:
        transports = [halo.MPI(comm, transport != "mpi") for comm in fake_mpi.Comm.world(2)]
    with ThreadPoolExecutor(2) as pool:
        exchangers = list(pool.map(lambda rank: halo.Exchanger(plans[rank], transports[rank], depth=1), range(2)))
    kept, exchanged = [], []
    for n in range(4):
        arrays = [Named(7), Named(8)]
        kept += [fill(streams, array, 10 * n + rank, 7 + rank) for rank, array in enumerate(arrays)]
        tokens = {rank: exchangers[rank].start([arrays[rank]], stream=7 + rank) for rank in (1, 0)}
        if transport == "local":
            assert arrays[0].memory.tolist() == [0] * CELLS, "the host waits"
        for rank, token in tokens.items():
            exchangers[rank].finish(token)
        exchanged.append(arrays)
    for exchanger in exchangers:
        exchanger._queue.synchronize()
    for n, arrays in enumerate(exchanged):
        for rank, array in enumerate(arrays):
            mine, theirs = 10 * n + rank, 10 * n + 1 - rank
            assert array.memory.tolist() == [theirs, *[mine] * (CELLS - 2), theirs]
    for exchanger in exchangers:
        exchanger.close()


def test_the_first_run_with_a_buffer_is_ordered_after_its_last_use(streams):
    shared, ours, theirs = Message(), Named(1), Named(2)
    ours.memory[:], theirs.memory[:] = 1, 2
    first, second = Transfer(streams, [ours], shared), Transfer(streams, [theirs], shared)
    first.run()
    before = shared._last_use
    second.run()
    assert shared._last_use is not before
    expect(second, shared, 2)
    expect(first, shared, 2)


@pytest.mark.parametrize("waits_for_first", [False, True])
def test_a_launch_of_several_is_ordered_with_the_work_of_each(streams, waits_for_first):
    array, mine, other, spare = Named(3), Message(), Message(), Message()
    second = Transfer(streams, [array], mine)
    second.transformer.hold(mine, spare)
    second.run()
    other.memory[:] = 9
    first = Transfer(streams, [Named(4, array.memory)], other, unpack=True)
    items = [(first.transformer, first.arrays, None), (second.transformer, [Named(3)], None)]
    _native.run_transformers(items, True, None, None)
    assert spare._last_use is other._last_use is not mine._last_use
    (first if waits_for_first else second).synchronize()
    assert array.memory.tolist() == [9] * CELLS
    assert mine.memory.tolist() == [0] * CELLS, "packed what was unpacked later"


def test_arrays_are_held_until_their_work_is_waited_for(streams):
    message = Message()
    transfer = Transfer(streams, [Named(1)], message)
    transfer.run(), transfer.run()
    assert message._last_use.held == 1
    transfer.synchronize()
    assert message._last_use.held == 0


def test_a_queue_that_is_never_idle_releases_arrays_of_ended_runs(streams):
    busy, message, spare = Transfer(streams, [Named(1)], Message()), Message(), Message()
    after = Transfer(streams, [Named(2)], spare)
    busy.transformer.hold(message, Message())
    for _ in range(100):
        busy.bind([Named(1)])
        busy.run()
        items = [(after.transformer, [Named(2)], None), (busy.transformer, [Named(1)], None)]
        _native.run_transformers(items, True, None, None)
        after.synchronize()
    assert message._last_use.held <= 32


def test_streams_and_devices_are_checked(streams):
    transfer = Transfer(streams, [Named(1)], Message(), unpack=True)
    with pytest.raises(TypeError, match="expected None, a stream or an event"):
        transfer.run("stream")
    with pytest.raises(ValueError, match="stream None: expected a stream or its handle"):
        transfer.run(7, [None])
    elsewhere = Named(1)
    elsewhere.device = 3
    with pytest.raises(ValueError, match="the arrays are on device 3, the buffers on device 0"):
        transfer.bind([elsewhere])


class Tensor(Named):
    """As torch's are."""

    __module__ = "torch"
    is_cuda, layout, conjugate = True, "strided", False

    def __init__(self, memory):
        super().__init__(0, memory, named=False)
        self.shape, self.at, self.dtype = memory.shape, memory.__array_interface__["data"][0], "int64"
        self.device = types.SimpleNamespace(index=NO_GPU)

    def data_ptr(self):
        return self.at

    def stride(self):
        return (1,)

    def get_device(self):
        return NO_GPU

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return False


def test_lists_of_plain_arrays_are_looked_at_again_only_where_they_changed(streams, monkeypatch):
    fake = types.ModuleType("torch")
    fake.Tensor, fake.strided = Tensor, Tensor.layout
    fake._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 0)
    monkeypatch.setitem(sys.modules, "torch", fake)
    message, memories = Message(3 * CELLS), [np.full(CELLS, n, "i8") for n in range(4)]
    first, second = Tensor(memories[0]), Tensor(memories[1])
    transformer = transformer_of(3, streams, message)

    def packed(arrays):
        transformer.run(False, arrays, None, None, None)
        transformer.synchronize()
        return message.memory[::CELLS].tolist()

    arrays = [first, second, first]
    assert packed(arrays) == packed(arrays) == [0, 1, 0]
    assert packed([second, first, first]) == [1, 0, 0]
    assert packed(arrays) == [0, 1, 0]
    second.at = memories[2].__array_interface__["data"][0]
    assert packed(arrays) == [0, 2, 0]
    arrays[2] = Tensor(memories[3])
    assert packed(arrays) == [0, 2, 3]
    second.dims = ("j",)
    with pytest.raises(ValueError, match="quantity 1 has dims"):
        packed(arrays)
    del second.dims
    first.shape = (CELLS - 1,)
    with pytest.raises(ValueError, match="quantity 0 has shape"):
        packed(arrays)
    gone = weakref.ref(arrays.pop())
    assert gone() is None
