"""What `CuFile` asks of device arrays before it calls the driver. Arrays without elements need no GPU."""

import sys
import types

import numpy as np
import pytest

from damacy.cufile import CuFile


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"0123456789")
    with CuFile(path) as opened:
        yield opened


class Counted:
    """An array that counts how often its interface is read."""

    def __init__(self, **changes):
        self.reads = 0
        self.interface = {"shape": (0,), "typestr": "|u1", "data": (4096, False), "version": 3} | changes

    @property
    def __cuda_array_interface__(self):
        self.reads += 1
        return self.interface


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"strides": None, "stream": 7, "version": 2},
        {"data": (None, False)},
        {"data": (0, False)},
        {"typestr": "<f4", "shape": (3, 0, 2)},
        {"typestr": "|V12", "descr": [("a", "<f4"), ("b", "<f8")]},
        {"shape": (np.int64(0),)},
        {"shape": [0]},
        {"strides": (1,)},
    ],
)
def test_an_interface_is_read_once_whatever_its_form(file, changes):
    for call in (file.read, lambda array: file.pread(array).get()):
        array = Counted(**changes)
        assert call(array) == 0
        assert array.reads == 1


def test_an_array_with_elements_is_looked_for_on_a_device(file):
    array = Counted(shape=(4,))
    with pytest.raises((TypeError, RuntimeError)):
        file.read(array)
    assert array.reads == 1


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"version": 4}, NotImplementedError),
        ({"mask": object()}, NotImplementedError),
        ({"stream": 0}, ValueError),
        ({"stream": True}, ValueError),
        ({"typestr": "<f"}, TypeError),
        ({"typestr": "<t4"}, TypeError),
        ({"shape": (-1,)}, ValueError),
        ({"shape": (2**40, 2**40)}, ValueError),
        ({"data": (4096,)}, TypeError),
    ],
)
def test_an_interface_with_an_error_raises_it(file, changes, error):
    with pytest.raises(error):
        file.read(Counted(**changes))


class Tensor:
    """What a torch.Tensor on a GPU answers."""

    def __init__(self, requires_grad=False, contiguous=True):
        self.is_cuda, self.requires_grad, self.nbytes = True, requires_grad, 0
        self.contiguous, self.asked, self.device = contiguous, [], 3

    def is_contiguous(self):
        return self.contiguous

    def data_ptr(self):
        self.asked.append("data_ptr")
        return 0

    def get_device(self):
        return self.device

    @property
    def __cuda_array_interface__(self):
        self.asked.append("interface")
        return {"shape": (0,), "typestr": "|u1", "data": (0, False), "version": 3}


Tensor.__module__ = "torch"


class Derived(Tensor):
    pass


Derived.__module__ = "torch"


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.Tensor, module.streams = Tensor, []
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: module.streams.append(index) or 0)
    stream = types.SimpleNamespace(cuda_stream=0)
    module.cuda = types.SimpleNamespace(current_stream=lambda device: module.streams.append(device) or stream)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_a_plain_tensor_is_asked_without_its_interface(file, torch):
    tensor = Tensor()
    assert file.pread(tensor).get() == 0
    assert tensor.asked == ["data_ptr"]
    assert torch.streams == [3]


def test_other_tensors_are_asked_for_their_interface(file, torch):
    for tensor in (Tensor(requires_grad=True), Tensor(contiguous=False), Derived()):
        assert file.pread(tensor).get() == 0
        assert tensor.asked == ["interface"]
    assert torch.streams == [3, 3, 3]


def test_a_stream_of_the_caller_comes_before_the_current_one(file, torch):
    assert file.pread(Tensor(), stream=5).get() == 0


def test_buffers_are_released_by_who_sees_the_end(file):
    buffer = bytearray(10)
    future = file.pread(buffer)
    while not future.done():
        pass
    buffer.append(0)  # not while it is in use
    assert future.get() == 10

    buffer = bytearray(10)
    future = file.pread(buffer, exact=True)
    assert future.get() == 10
    buffer.append(0)
    del future

    buffers = [bytearray(10) for _ in range(50)]
    for one in buffers:
        file.pread(one, exact=True)  # the future is dropped
    file.close()
    for one in buffers:
        assert bytes(one) == b"0123456789"
