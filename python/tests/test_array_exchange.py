"""Device memory of other libraries: the streams after which damacy's work is ordered. Native calls are faked."""

import contextlib
import sys
import types

import numpy as np
import pytest

import damacy
from damacy import _native
from damacy._device import exchange, memory


class Tensor:
    """Like a torch tensor: version 2 of the CUDA array interface, which names no stream, and DLPack, which can."""

    def __init__(self, version=2, shape=(4,), refuses=None, **more):
        self.__cuda_array_interface__ = {
            "data": (4096, False), "shape": shape, "typestr": "<f4", "version": version, **more
        }  # fmt: skip
        self.ordered_before = []
        self.refuses = refuses

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        if self.refuses:
            raise self.refuses
        self.ordered_before.append(stream)


BLOCK = types.SimpleNamespace()


@pytest.fixture
def waits(monkeypatch):
    """Streams that damacy's queue waits for; its own stream is 77."""
    waited = []
    queue = types.SimpleNamespace(stream=77, wait_for=waited.append)
    monkeypatch.setattr(exchange.memory, "queue_of", lambda device: queue)
    monkeypatch.setattr(exchange.memory, "geometry", lambda *arguments: "geometry")
    monkeypatch.setattr(_native, "foreign_block", lambda *arguments: BLOCK)
    return waited


def test_an_interface_that_cannot_name_a_stream_is_ordered_by_dlpack(waits):
    tensor = Tensor()
    assert exchange.find_foreign(tensor) == ("geometry", BLOCK, "cuda:0")
    assert (tensor.ordered_before, waits) == ([77], [])


def test_an_interface_that_names_a_stream_is_ordered_by_that_stream(waits):
    for tensor, waited in ((Tensor(version=3, stream=5), [5]), (Tensor(version=3, stream=None), [])):
        exchange.find_foreign(tensor)
        assert (tensor.ordered_before, waits) == ([], waited)
        waits.clear()


@pytest.mark.parametrize("refuses", [BufferError("no type"), TypeError("no keyword")])
def test_memory_that_dlpack_refuses_is_wrapped_by_its_interface(waits, refuses):
    assert exchange.find_foreign(Tensor(refuses=refuses)) == ("geometry", BLOCK, "cuda:0")


def test_memory_of_no_elements_has_no_work_to_wait_for(waits):
    tensor = Tensor(shape=(0,), refuses=AssertionError("asked"))
    assert exchange.find_foreign(tensor) == ("geometry", BLOCK, "cuda:0")


class Queue:
    """Writes down what would be enqueued on a device. The streams in `captured` are being captured."""

    def __init__(self):
        self.calls, self.captured, self.stream = [], set(), 77

    def wait_for(self, stream):
        self.calls.append(("wait_for", stream))
        return stream not in self.captured

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments[:1]) if name == "make_wait" else (name,))


@pytest.fixture
def queue(monkeypatch):
    made = Queue()
    monkeypatch.setattr(memory, "queue_of", lambda device: made)
    monkeypatch.setattr(_native, "device_block", lambda queue, size: _native.host_block(size))
    for library in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    return made


@pytest.fixture
def torch(monkeypatch):
    """Its current stream is 5."""
    stream = types.SimpleNamespace(cuda_stream=5)
    cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda index: stream)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    return stream


class TorchTensor(Tensor):
    __module__ = "torch"


def calls_of(queue):
    calls, queue.calls = queue.calls, []
    return calls


def new():
    return damacy.empty((4,), "f4", device="cuda:0")


def test_work_on_memory_of_torch_follows_and_precedes_that_of_its_current_stream(queue, torch):
    tensor, array = TorchTensor(), new()
    for stream in (5, 0):
        torch.cuda_stream = stream
        around = [("wait_for", stream or 1)], [("make_wait", stream or 1)]
        array[...] = tensor
        assert calls_of(queue) == [*around[0], ("copy",), *around[1]]
        damacy.asarray(tensor, copy=True)
        assert calls_of(queue) == [*around[0], ("copy",), *around[1]]
        wrapped = damacy.asarray(tensor)
        wrapped.numpy()
        assert calls_of(queue) == [*around[0], ("download",), *around[1]]
        wrapped[...] = np.zeros(4)
        assert calls_of(queue) == [*around[0], ("upload",), *around[1]]


def test_work_on_exported_memory_follows_and_precedes_that_of_its_users(queue, torch):
    array = new()
    array[...] = new()
    assert calls_of(queue) == [("copy",)]  # no other library uses it yet
    array[2:].__cuda_array_interface__  # noqa: B018
    assert calls_of(queue) == []
    array[...] = new()
    assert calls_of(queue) == [("wait_for", 5), ("copy",), ("make_wait", 5)]
    exchange.cuda_interface(array._array, array._block, "cuda:0")
    assert calls_of(queue) == [("wait_for", 5)]
    other = new()
    other.__dlpack__(stream=9)
    assert calls_of(queue) == [("make_wait", 9)]
    other.fill(1)
    assert calls_of(queue) == [("upload",), ("wait_for", 5), ("copy",), ("make_wait", 5)]


def test_cupy_is_asked_for_the_stream_of_the_array_s_device(queue, monkeypatch):
    devices = []
    cuda = types.SimpleNamespace(
        Device=lambda index: devices.append(index) or contextlib.nullcontext(),
        get_current_stream=lambda: types.SimpleNamespace(ptr=6),
    )
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    array = new()
    array.__dlpack__()
    calls_of(queue)
    array.fill(1)
    assert calls_of(queue) == [("upload",), ("wait_for", 6), ("copy",), ("make_wait", 6)]
    assert devices == [0]


def test_the_owner_of_memory_that_named_a_default_stream_waits_and_others_let_the_host_wait(queue):
    array = new()
    array[...] = Tensor(version=3, stream=1)
    assert calls_of(queue) == [("wait_for", 1), ("wait_for", 1), ("copy",), ("make_wait", 1)]
    array[...] = Tensor(version=3, stream=8)  # it may be destroyed once the call has returned
    assert calls_of(queue) == [("wait_for", 8), ("copy",), ("sync",)]
    array[...] = Tensor()
    assert calls_of(queue) == [("copy",), ("sync",)]


def test_a_stream_that_is_being_captured_neither_waits_nor_is_waited_for(queue, torch):
    queue.captured.add(5)
    array = new()
    array[...] = TorchTensor()
    assert calls_of(queue) == [("wait_for", 5), ("copy",)]
