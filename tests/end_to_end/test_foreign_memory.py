"""Memory that other libraries describe wrongly: it is refused with the wrong field, and never accessed."""

import ctypes

import numpy as np
import pytest
from support.dlpack_struct import Managed, Tensor

import damacy
from damacy import _native
from damacy._device.cuda_interface import parse_interface
from damacy.cufile import CuFile


class Exporter:
    """64 bytes of host memory, and a capsule with fields that a test chooses."""

    def __init__(self, shape=(16,), strides=None, dtype=(1, 8, 1), ndim=None, byte_offset=0, null=(), device=1):
        self.memory = np.zeros(64, "B")
        self.kept = [(ctypes.c_int64 * max(len(n), 1))(*n) for n in (shape, strides or ())]
        tensor = Tensor(ndim=len(shape) if ndim is None else ndim, byte_offset=byte_offset)
        tensor.code, tensor.bits, tensor.lanes = dtype
        tensor.device_type = device
        if "data" not in null:
            tensor.data = self.memory.ctypes.data
        if "shape" not in null:
            tensor.shape = ctypes.cast(self.kept[0], ctypes.POINTER(ctypes.c_int64))
        if strides is not None:
            tensor.strides = ctypes.cast(self.kept[1], ctypes.POINTER(ctypes.c_int64))
        self.managed = Managed(tensor=tensor)
        self.name = ctypes.c_char_p(b"dltensor")

    def __dlpack_device__(self):
        return self.managed.tensor.device_type, 0

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), self.name, None)


IMPOSSIBLE = {
    "a negative extent": {"shape": (-1,)},
    "two of them, whose product is positive": {"shape": (-4, -4)},
    "a product of 2^66": {"shape": (2**33, 2**33)},
    "a product of 2^64": {"shape": (2**32, 2**32)},
    "bytes of 2^63": {"shape": (2**62,), "dtype": (1, 16, 1)},
    "a negative rank": {"ndim": -1},
    "a rank of 2^30": {"ndim": 2**30},
    "no shape": {"null": ("shape",)},
    "no memory": {"null": ("data",)},
    "an offset around the end of memory": {"byte_offset": 2**64 - 1},
    "strides around the end of memory": {"shape": (2, 2), "strides": (2**62, 2**62)},
    "the stride that has no opposite": {"shape": (2,), "strides": (-(2**63),)},
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(1, 201)))
    return path


@pytest.mark.parametrize("said", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_dlpack_tensor_is_a_value_error(path, said):
    exporter = Exporter(**said)
    with CuFile(path) as f, pytest.raises(ValueError, match="DLPack"):
        f.read(exporter)
    with pytest.raises(ValueError, match="DLPack"):
        _native.from_dlpack(exporter.__dlpack__())
    assert not exporter.memory.any()


@pytest.mark.parametrize("dtype", [(0, 4, 1), (6, 1, 1), (1, 0, 1), (1, 8, 0), (1, 12, 2)])
def test_elements_that_are_not_whole_bytes_are_a_type_error(path, dtype):
    exporter = Exporter(dtype=dtype)
    with CuFile(path) as f, pytest.raises(TypeError, match="bits"):
        f.read(exporter)
    with pytest.raises(TypeError, match="bits"):
        _native.from_dlpack(exporter.__dlpack__())
    assert not exporter.memory.any()


def test_valid_tensors_are_read_into(path):
    with CuFile(path) as f:
        for said, count in [
            ({}, 16),
            ({"shape": (0, 2**62, 2**62)}, 0),
            ({"shape": ()}, 1),
            ({"dtype": (1, 8, 4)}, 64),
        ]:
            exporter = Exporter(**said)
            assert f.read(exporter) == count
            assert exporter.memory[:count].tobytes() == bytes(range(1, count + 1)) and not exporter.memory[count:].any()


GOOD = {"shape": (4,), "typestr": "|u1", "data": (1 << 30, False), "version": 3}
WRONG_INTERFACES = {
    "shape": [5, None, (4.0,), "44", (-1,), (-4, -4), (2**62, 4), (2**33, 2**33)],
    "typestr": ["zz", 7, None, "|t4", "<f", "<f" + "9" * 30],
    "data": [None, 5, (1,), ("x", False), (-8, False), (0, False), (2**64 - 2, False), (2**70, False)],
    "strides": [5, (), (1, 1), ("a",), (2**70,)],
    "stream": [0, -1, "a", 2**64, True, 1.5],
    "version": ["3", None],
}


@pytest.mark.parametrize(
    "name, value", [(name, value) for name, values in WRONG_INTERFACES.items() for value in values]
)
def test_an_impossible_cuda_interface_is_refused_with_the_name_of_the_entry(path, name, value):
    class Exported:
        __cuda_array_interface__ = {**GOOD, name: value}

    with (
        CuFile(path) as f,
        pytest.raises((damacy.InvalidArgument, TypeError), match=f"__cuda_array_interface__.*{name}"),
    ):
        f.read(Exported())


@pytest.mark.parametrize("interface", [5, {}, {**GOOD, "data": ()}])
def test_an_invalid_interface_is_a_type_error(interface):
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        parse_interface(interface)


def test_valid_interfaces_are_accepted():
    parsed = parse_interface({**GOOD, "typestr": "<M8[ns]", "strides": (-8,), "stream": 2})
    assert parsed == (1 << 30, (4,), (-8,), "<M8[ns]", 8, False, 2)
    assert parse_interface({**GOOD, "shape": (0, 2**62, 2**62), "data": (None, True)})[0] == 0
    assert parse_interface({**GOOD, "typestr": "<U3"}).itemsize == 12


def test_arrays_of_objects_are_never_read_into(path):
    array = np.array([[1], {}, "x"], dtype=object)
    with CuFile(path) as f:
        for target in (array, memoryview(array), np.zeros(2, [("a", "i8"), ("b", object)])):
            with pytest.raises(TypeError, match="objects"):
                f.read(target)
    assert array.tolist() == [[1], {}, "x"]


def test_a_number_beyond_an_argument_is_an_invalid_argument():
    for descriptor in (2**40, 10**30):
        with pytest.raises(damacy.InvalidArgument, match="out of range"):
            CuFile(descriptor)


@pytest.mark.parametrize("shape", [(-1,), (2**62, 4), (2**33, 2**33)])
def test_device_arrays_with_impossible_shapes_are_refused(shape):
    with pytest.raises(damacy.InvalidArgument, match="shape"):
        damacy.empty(shape, "f8", device="cpu")


@pytest.mark.parametrize("shape", [(2.5,), 2.5, ("2",)])
def test_extents_of_device_arrays_are_integers(shape):
    with pytest.raises(TypeError):
        damacy.empty(shape, "f8", device="cpu")


def test_in_a_forked_child_the_error_is_the_drivers_not_the_librarys(monkeypatch):
    from damacy._fileio import memory

    class Refusing:
        class cuda:
            @staticmethod
            def current_stream(_device):
                raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    class Tensor:
        device = "cuda:0"
        __cuda_array_interface__ = {"shape": (16,), "typestr": "|u1", "data": (1 << 20, False), "version": 2}

    Tensor.__module__ = "torch"
    monkeypatch.setitem(__import__("sys").modules, "torch", Refusing)
    described = memory.describe(Tensor(), None)
    assert (described.pointer, described.on_device, described.stream) == (1 << 20, True, memory.LEGACY_STREAM)
