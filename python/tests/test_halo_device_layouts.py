"""Layouts of arrays in device memory, which the native library reads itself, on NumPy memory that pretends to be a
device's; and what it leaves to damacy.halo._arrays."""

import ctypes
import sys
import types

import numpy as np
import pytest

from damacy import _native, halo

SHAPE = (5, 4)


def specs(dtype="f8", strides=(32, 8)):
    q = halo.QuantityHaloSpec(
        1, strides, np.dtype(dtype).itemsize, SHAPE, (1, 1), (3, 2), ("i", "j"), np, np.dtype(dtype)
    )
    box = (slice(1, 4), slice(1, 3))
    return [halo.HaloExchangeSpec(q, box, 0, box)] * 3


def refuse(quantity):
    raise AssertionError("left to Python")


def gather(plans, arrays):
    return plans.gather(arrays, None, refuse)


def made(specs):
    """A transformer on a device in host memory, and its message."""
    out = _native.HaloTransformer([spec._native for spec in specs], None, False, True, _native.LazyStreams())
    message = Message(out.buffer_elements(False) * specs[0].specification.itemsize)
    out.hold(message, message)
    return out, message


def plans(specs):
    return made(specs)[0]


class Message:
    """A buffer of a transformer."""

    def __init__(self, size):
        self.memory, self._last_use = np.zeros(size, np.uint8), None
        self.address = self.memory.__array_interface__["data"][0]


class Cai:
    """As CuPy's arrays are."""

    def __init__(self, memory, more=None, device=None):
        self.memory, self.dtype, self.device = memory, memory.dtype, device or types.SimpleNamespace(id=3)
        self.more = more or {}

    @property
    def __cuda_array_interface__(self):
        said = dict(self.memory.__array_interface__)
        return (
            {"shape": said["shape"], "typestr": said["typestr"], "data": said["data"], "version": 3}
            | {"strides": None if self.memory.flags.c_contiguous else self.memory.strides}
            | self.more
        )


def packed(specs, arrays):
    transformer, message = made(specs)
    gather(transformer, arrays)  # without Python
    transformer.run(False, arrays, None, None, None)
    transformer.synchronize()
    return message.memory.view(arrays[0].memory.dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "c16", "?"])
def test_an_interface_is_read_without_python(order, dtype):
    memory = np.asarray(np.arange(20).reshape(SHAPE) % 7, dtype, order=order)
    array, other = Cai(memory), Cai(memory + np.ones((), dtype) if dtype != "?" else ~memory)
    found = packed(specs(dtype, memory.strides), [array, other, array])
    inner = [a.memory[1:4, 1:3].ravel() for a in (array, other, array)]
    assert np.array_equal(found, np.concatenate(inner))


def test_owners_devices_streams_and_types_are_of_the_distinct_arrays():
    memory = np.zeros(SHAPE)
    first, second, third = Cai(memory), Cai(memory, {"stream": 7}), Cai(memory, {"stream": 7}, device=4)
    with pytest.raises(ValueError, match=r"expected arrays of one device \(got devices \['3', '4'\]\)"):
        gather(plans(specs()), [first, second, third])
    third.device = 3
    found = gather(plans(specs()), [first, second, third])
    assert (found.held, found.device) == ([first, second, third], 3)
    assert (found.named, found.unnamed) == ([third], [first])
    other = Cai(memory, {"stream": 8})
    assert gather(plans(specs()), [second, other, second]).named == [second, other]
    found = gather(plans(specs()), [first] * 3)
    assert (found.held, found.named, found.unnamed) == ([first], [], [first])


def test_dims_and_read_only_arrays_are_seen():
    memory = np.zeros(SHAPE)
    array = Cai(memory, {"data": (memory.__array_interface__["data"][0], True)})
    assert not gather(plans(specs()), [array] * 3).is_writable
    array.dims = ("i", "j")
    gather(plans(specs()), [array] * 3)
    array.dims = ("j", "i")
    with pytest.raises(ValueError, match="quantity 0 has dims"):
        gather(plans(specs()), [array] * 3)


@pytest.mark.parametrize(
    "more",
    [
        {"version": 4},
        {"mask": object()},
        {"typestr": "<f4"},
        {"shape": [5, 4]},
        {"shape": (-5, 4)},
        {"shape": (1 << 62, 4)},
        {"strides": (32,)},
        {"strides": (1 << 62, 8)},
        {"data": (0, False)},
        {"data": (1 << 64, False)},
        {"data": ((1 << 64) - 8, False)},
        {"data": (4096, 0)},
        {"stream": 0},
        {"stream": -1},
        {"stream": "one"},
    ],
)
def test_what_is_unusual_is_left_to_python(more):
    with pytest.raises(AssertionError, match="left to Python"):
        gather(plans(specs()), [Cai(np.zeros(SHAPE), more)] * 3)


def test_a_device_without_a_number_is_left_to_python():
    with pytest.raises(AssertionError, match="left to Python"):
        gather(plans(specs()), [Cai(np.zeros(SHAPE), device="gpu:0")] * 3)


class Dtype(str):
    """Named as torch's types are."""


class Tensor:
    is_cuda, layout, conjugate = True, "strided", False

    def __init__(self, memory):
        self.memory, self.shape, self.dtype = memory, memory.shape, DTYPES[memory.dtype.name]

    def data_ptr(self):
        return self.memory.__array_interface__["data"][0]

    def stride(self):
        return tuple(s // self.memory.itemsize for s in self.memory.strides)

    def get_device(self):
        return 2

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return False


DTYPES = {name: Dtype(f"torch.{name}") for name in ("float64", "float32", "int16")}


@pytest.fixture
def torch(monkeypatch):
    fake = types.ModuleType("torch")
    fake.Tensor, fake.strided = Tensor, Tensor.layout
    monkeypatch.setitem(sys.modules, "torch", fake)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_a_tensor_is_read_without_python(torch, dtype):
    memory = np.arange(40, dtype=dtype).reshape(5, 8)[:, ::2]
    tensor = Tensor(memory)
    assert np.array_equal(packed(specs(dtype, memory.strides), [tensor] * 3), np.tile(memory[1:4, 1:3].ravel(), 3))
    found = gather(plans(specs(dtype, memory.strides)), [tensor] * 3)
    assert (found.held, found.device, found.named, found.unnamed) == ([tensor], 2, [], [tensor])


@pytest.mark.parametrize("more", [{"is_cuda": False}, {"layout": "sparse"}, {"conjugate": True}, {"shape": (5.0, 4)}])
def test_an_unusual_tensor_is_left_to_python(torch, more):
    tensor = Tensor(np.zeros(SHAPE))
    for name, value in more.items():
        setattr(tensor, name, value)
    with pytest.raises(AssertionError, match="left to Python"):
        gather(plans(specs()), [tensor] * 3)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("place", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("type", ctypes.c_uint8 * 2),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Described:
    """A tensor that torch's C function describes, so that attributes are not asked for, except one."""

    negative = False

    def __init__(self, memory, place=(2, 3), kind=2, **more):
        sizes = ctypes.c_int64 * memory.ndim
        self.memory, self.dims_of = (
            memory,
            (sizes(*memory.shape), sizes(*(s // memory.itemsize for s in memory.strides))),
        )
        self.said = DLTensor(memory.ctypes.data, place, memory.ndim, (kind, 8 * memory.itemsize), 1)
        self.said.shape, self.said.strides = (ctypes.cast(d, ctypes.POINTER(ctypes.c_int64)) for d in self.dims_of)
        for name, value in more.items():
            setattr(self.said, name, value)

    def is_neg(self):
        return self.negative


@pytest.fixture
def torch_with_functions(torch, monkeypatch):
    """How often torch's C function was called."""
    calls = []

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
    def borrow(tensor, out):
        calls.append(tensor)
        out[0] = tensor.said
        return 0

    unused = ctypes.PYFUNCTYPE(ctypes.c_int)(lambda: -1)
    address = ctypes.cast(unused, ctypes.c_void_p).value
    functions = [0, 0, address, 0, ctypes.cast(borrow, ctypes.c_void_p).value, address]
    api = (ctypes.c_uint64 * 7)(1 | 3 << 32, *functions)  # version 1.3, no older one
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.c_char_p(b"dlpack_exchange_api")
    kept_for_ever.append((borrow, unused, api, name))
    capsule = new(ctypes.addressof(api), name, None)
    kind = type("Described", (Described,), {"__dlpack_c_exchange_api__": capsule})
    monkeypatch.setattr(sys.modules["torch"], "Tensor", kind)
    return types.SimpleNamespace(Tensor=kind, calls=calls)


kept_for_ever: list = []  # the functions of a library


@pytest.mark.parametrize(("dtype", "kind"), [("f8", 2), ("f4", 2), ("i2", 0), ("u2", 1), ("?", 6)])
def test_a_tensor_is_described_by_a_function_of_its_library(torch_with_functions, dtype, kind):
    memory = (np.arange(40).reshape(5, 8) % 2).astype(dtype)[:, ::2]
    tensor = torch_with_functions.Tensor(memory, kind=kind)
    assert np.array_equal(packed(specs(dtype, memory.strides), [tensor] * 3), np.tile(memory[1:4, 1:3].ravel(), 3))
    torch_with_functions.calls.clear()
    found = gather(plans(specs(dtype, memory.strides)), [tensor] * 3)
    assert (found.held, found.device, found.unnamed) == ([tensor], 3, [tensor])
    assert torch_with_functions.calls == [tensor]
    moved = torch_with_functions.Tensor(memory, kind=kind, data=memory.ctypes.data - 8, byte_offset=8)
    assert gather(plans(specs(dtype, memory.strides)), [moved] * 3).addresses == found.addresses
    assert (
        gather(plans(specs(dtype, memory.strides)), [torch_with_functions.Tensor(memory, (1, 0), kind)] * 3).device
        is None
    )


@pytest.mark.parametrize(
    "more",
    [
        {"place": (8, 0)},
        {"kind": 4},
        {"kind": 5},
        {"lanes": 2},
        {"ndim": 99},
        {"ndim": -1},
        {"data": None},
        {"strides": None},
    ],
)
def test_what_the_function_says_may_be_unusual(torch_with_functions, more):
    tensor = torch_with_functions.Tensor(np.zeros(SHAPE), **more)
    with pytest.raises(AssertionError, match="left to Python"):
        gather(plans(specs()), [tensor] * 3)


def test_a_tensor_that_stands_for_negated_elements_is_left_to_python(torch_with_functions):
    tensor = torch_with_functions.Tensor(np.zeros(SHAPE))
    tensor.negative = True
    with pytest.raises(AssertionError, match="left to Python"):
        gather(plans(specs()), [tensor] * 3)


def test_a_class_derived_from_tensor_is_left_to_python(torch):
    class Derived(Tensor):
        pass

    with pytest.raises(AssertionError, match="left to Python"):
        gather(plans(specs()), [Derived(np.zeros(SHAPE))] * 3)


def test_an_exchange_is_ordered_with_every_stream_that_its_arrays_name(monkeypatch):
    monkeypatch.setattr(halo.Exchanger, "_lazy", _native.LazyStreams())
    monkeypatch.setattr("damacy.halo.exchange.current_stream_on", lambda library, device: None)
    memories = [np.zeros(6) for _ in range(3)]
    arrays = [Cai(memory, {"stream": stream}) for memory, stream in zip(memories, (7, 8, 8))]
    fields = [halo.Field.like(array, ("x",), (1,), (4,)) for array in arrays]
    plan = halo.compile(fields, halo.Cartesian((1,), True, dims=("x",)), 0, 1)
    with halo.Exchanger(plan, halo.Local(1)) as exchanger:
        bound = exchanger.bind(arrays)._arrays
    assert ([a.memory is m for a, m in zip(bound.named, (memories[0], memories[2]))], bound.unnamed) == ([True] * 2, [])
