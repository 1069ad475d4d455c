"""Memory that a library describes by its C functions, DLPack's exchange API. The library is made here with ctypes."""

import collections
import ctypes
import sys
import types

import numpy as np
import pytest
from support.dlpack_struct import READ_ONLY, ExchangeApi, ManagedVersioned, Tensor

from damacy.cufile import CuFile

CPU, CUDA, METAL = 1, 2, 8
CODES = {"i": 0, "u": 1, "f": 2, "c": 5}
NAME = b"dlpack_exchange_api"
CONTENT = bytes(range(1, 201))

_kept: list = []  # a library's functions live as long as the process
_Export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_Borrow = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
_WorkStream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def capsule_of(api, name=NAME):
    kept = ctypes.c_char_p(name)
    _kept.append((api, kept))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(api), kept, None)


class Library:
    """Counts the calls of its functions, which give the fields of their arrays."""

    def __init__(self, major=1, previous=None):
        self.calls = collections.Counter()
        self.devices = []
        self.result = 0  # of the functions
        functions = _Export(self._export), _Borrow(self._borrow), _WorkStream(self._work_stream)
        export, borrow, stream = (address_of(function) for function in functions)
        before = None if previous is None else ctypes.addressof(previous.api)
        self.api = ExchangeApi(major, 3, before, None, export, None, borrow, stream)
        _kept.append((self, functions))

    def _export(self, array, out):
        self.calls["export"] += 1
        out[0] = ctypes.addressof(array.managed)
        return self.result

    def _borrow(self, array, out):
        self.calls["borrow"] += 1
        ctypes.memmove(out, ctypes.addressof(array.managed.tensor), ctypes.sizeof(Tensor))
        return self.result

    def _work_stream(self, device_type, device_id, out):
        self.calls["work_stream"] += 1
        self.devices.append((device_type, device_id))
        out[0] = 7
        return self.result

    def array_type(self, capsule=None, base=None):
        return type("Array", (base or Array,), {"__dlpack_c_exchange_api__": capsule or capsule_of(self.api)})


class Array:
    """Elements of a NumPy array, said to be on a device."""

    def __init__(self, elements, device=(CPU, 0), flags=0, major=1, bits=None):
        self.elements, self.deleted, self.dlpack_calls = elements, 0, 0
        sizes = ctypes.c_int64 * max(elements.ndim, 1)
        self.shape = sizes(*elements.shape)
        self.strides = sizes(*(stride // elements.itemsize for stride in elements.strides))
        tensor = Tensor(ndim=elements.ndim, code=CODES[elements.dtype.kind], lanes=1)
        tensor.bits = 8 * elements.itemsize if bits is None else bits
        tensor.data = elements.ctypes.data if elements.size else None
        tensor.device_type, tensor.device_id = device
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        self.managed = ManagedVersioned(major=major, minor=3, flags=flags, tensor=tensor)
        self.managed.deleter = type(self.managed.deleter)(self._delete)

    def _delete(self, _address):
        self.deleted += 1

    def __dlpack_device__(self):
        return (CPU, 0)

    def __dlpack__(self, **keywords):
        self.dlpack_calls += 1
        return self.elements.__dlpack__(**keywords)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with CuFile(path, "r+") as opened:
        yield opened


def zeros(count=40, dtype="u1"):
    return np.zeros(count, dtype)


def test_memory_is_described_by_the_c_functions_and_kept_until_the_end(file):
    library = Library()
    for elements in (zeros(), zeros(10, "f4"), zeros((2, 5), "i4"), np.zeros((4, 5), "u2", order="F"), zeros(())):
        array = library.array_type()(elements)
        library.calls.clear()
        assert file.read(array, file_offset=3) == elements.nbytes
        assert array.elements.tobytes("A") == CONTENT[3 : 3 + elements.nbytes]
        assert (library.calls, array.deleted, array.dlpack_calls) == ({"export": 1}, 1, 0)
        future = file.pread(array, exact=True)
        assert future.get() == elements.nbytes
        assert (library.calls, array.deleted) == ({"export": 2}, 2)
        assert array.elements.tobytes("A") == CONTENT[: elements.nbytes]


def test_strides_do_not_matter_where_there_is_one_element_or_none(file):
    library = Library()
    for elements in (zeros((4, 1, 10))[:, ::-1], zeros((4, 0, 10)).transpose(2, 0, 1), zeros(8)[::8]):
        assert file.read(library.array_type()(elements)) == elements.nbytes


@pytest.mark.parametrize("elements", [zeros(40)[::2], zeros((4, 10))[:, :5], zeros((2, 3, 4)).transpose(1, 0, 2)])
def test_gaps_between_elements_are_refused(file, elements):
    array = Library().array_type()(elements)
    with pytest.raises(ValueError, match="Array must be contiguous"):
        file.read(array)
    assert array.deleted == 1 and not elements.any()


def test_read_only_memory_is_written_from_and_not_read_into(file):
    library = Library()
    array = library.array_type()(np.full(4, 9, "u1"), flags=READ_ONLY)
    with pytest.raises(ValueError, match="read-only"):
        file.read(array)
    assert file.write(array) == 4 and file.read(target := bytearray(5)) == 5
    assert target == b"\x09\x09\x09\x09\x05"
    assert (library.calls, array.deleted) == ({"export": 2}, 2)


def test_other_devices_and_versions_of_a_tensor_are_refused(file):
    library = Library()
    for said, text in [({"device": (METAL, 0)}, "device type 8"), ({"major": 2}, "major version 2")]:
        array = library.array_type()(zeros(), **said)
        with pytest.raises(NotImplementedError, match=text):
            file.read(array)
        assert array.deleted == 1 and not array.elements.any()


def test_impossible_tensors_are_refused(file):
    library = Library()
    array = library.array_type()(zeros())
    array.shape[0] = -1
    with pytest.raises(ValueError, match="DLPack: invalid extent -1"):
        file.read(array)
    with pytest.raises(TypeError, match="bits"):
        file.read(library.array_type()(zeros(), bits=4))


def test_the_exception_of_a_function_is_raised(file):
    library = Library()
    # A function of C with these first parameters, which fails with an exception of the object's choice.
    library.api.export = address_of(ctypes.pythonapi.PyObject_IsTrue)
    kind = library.array_type()

    def refuse(_array):
        raise BufferError("this array is not exported")

    kind.__bool__ = refuse
    array = kind(zeros())
    with pytest.raises(BufferError, match="this array is not exported"):
        file.read(array)
    assert (array.dlpack_calls, array.deleted) == (0, 0)


def test_a_failure_without_an_exception_is_an_error_that_names_the_type(file):
    library = Library()
    library.result = -1
    with pytest.raises(RuntimeError, match=r"exchange function of .*Array failed without an exception"):
        file.read(library.array_type()(zeros()))


def test_memory_of_a_device_is_ordered_after_the_stream_of_its_library(file):
    library = Library()
    array = library.array_type()(zeros(0), device=(CUDA, 3))  # without elements it needs no GPU
    assert file.pread(array).get() == 0
    assert (library.calls, library.devices, array.deleted) == ({"export": 1, "work_stream": 1}, [(CUDA, 3)], 1)


def test_a_stream_of_the_caller_is_given_to_the_library(file):
    library = Library()
    array = library.array_type()(zeros())
    assert file.read(array, stream=5) == 40
    assert (library.calls, array.dlpack_calls) == ({}, 1)


def test_another_major_version_is_not_used_but_an_older_one_behind_it(file):
    newer, old = Library(major=3), Library()
    array = newer.array_type()(zeros())
    assert file.read(array) == 40
    assert (newer.calls, array.dlpack_calls) == ({}, 1)
    newest = Library(major=3, previous=Library(major=2, previous=old))
    array = newest.array_type()(zeros())
    assert file.read(array) == 40
    assert (newest.calls, old.calls, array.dlpack_calls) == ({}, {"export": 1}, 0)


def test_capsules_of_another_kind_and_tables_with_gaps_are_not_used(file):
    library, empty = Library(), Library()
    empty.api.export = None
    wrong = (capsule_of(library.api, b"dlpack_exchange"), 5, None, capsule_of(empty.api))
    for capsule in wrong:
        kind = type("Array", (Array,), {"__dlpack_c_exchange_api__": capsule})
        array = kind(zeros())
        assert file.read(array) == 40 and array.dlpack_calls == 1
    assert not library.calls and not empty.calls


def test_a_type_is_looked_up_once(file):
    library = Library()
    capsule, lookups = capsule_of(library.api), []

    class Meta(type):
        @property
        def __dlpack_c_exchange_api__(cls):
            lookups.append(cls)
            return capsule

    first, second = Meta("First", (Array,), {}), Meta("Second", (Array,), {})
    for kind in (first, second, first, second):
        assert file.read(kind(zeros())) == 40
    assert lookups == [first, second] and library.calls == {"export": 4}


class TorchTensor(Array):
    """What file I/O asks of a torch.Tensor."""

    def __init__(self, elements, requires_grad=False, **said):
        super().__init__(elements, **said)
        self.requires_grad, self.asked, self.device = requires_grad, [], "cuda:3"
        self.is_cuda, self.nbytes = self.managed.tensor.device_type == CUDA, elements.nbytes

    def is_contiguous(self):
        return self.elements.flags.c_contiguous

    def data_ptr(self):
        self.asked.append("data_ptr")
        return 0

    def get_device(self):
        return 3

    @property
    def __cuda_array_interface__(self):
        if not self.is_cuda:
            raise AttributeError("no device")
        self.asked.append("interface")
        return {"shape": (0,), "typestr": "|u1", "data": (0, False), "version": 3}


@pytest.fixture
def torch(monkeypatch):
    """A torch module with an exchange API: the class of its tensors and its C functions."""
    library = Library()
    tensor = library.array_type(base=TorchTensor)
    tensor.__module__ = "torch"
    module = types.ModuleType("torch")
    module.Tensor = tensor
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda _index: 0)
    module.cuda = types.SimpleNamespace(current_stream=lambda _device: types.SimpleNamespace(cuda_stream=0))
    monkeypatch.setitem(sys.modules, "torch", module)
    return types.SimpleNamespace(Tensor=tensor, library=library)


def test_a_tensor_of_torch_on_a_device_is_borrowed(file, torch):
    for stream, more in ((None, 1), (5, 2)):
        tensor = torch.Tensor(zeros(0), device=(CUDA, 2))
        assert file.pread(tensor, stream=stream).get() == 0
        assert torch.library.calls == {"borrow": more, "work_stream": more}
        assert (tensor.asked, tensor.dlpack_calls) == ([], 0)
    assert torch.library.devices == [(CUDA, 2)] * 2


def test_a_tensor_of_torch_on_the_host_is_kept_by_its_own_export(file, torch):
    for stream in (None, 5):
        tensor = torch.Tensor(zeros(10, "f4"))
        torch.library.calls.clear()
        assert file.pread(tensor, stream=stream).get() == 40
        assert tensor.elements.tobytes() == CONTENT[:40]
        assert torch.library.calls == {"borrow": 1, "export": 1}
        assert (tensor.deleted, tensor.dlpack_calls) == (1, 0)


def test_a_tensor_with_a_gradient_is_asked_as_if_there_were_no_c_functions(file, torch):
    on_host = torch.Tensor(zeros(), requires_grad=True)
    assert file.read(on_host) == 40 and on_host.dlpack_calls == 1
    on_device = torch.Tensor(zeros(0), requires_grad=True, device=(CUDA, 2))
    assert file.read(on_device) == 0 and on_device.asked == ["interface"]
    assert not torch.library.calls


def test_an_instance_of_a_subclass_is_asked_as_if_there_were_no_c_functions(file, torch):
    derived = type("Derived", (torch.Tensor,), {})
    on_host = derived(zeros())
    assert file.read(on_host) == 40 and on_host.dlpack_calls == 1
    on_device = derived(zeros(0), device=(CUDA, 2))
    assert file.read(on_device) == 0 and on_device.asked == ["interface"]
    assert not torch.library.calls


@pytest.mark.parametrize("dtype, said", [("c8", {}), ("u1", {"bits": 4}), ("u1", {"device": (METAL, 0)})])
def test_an_unusual_tensor_of_torch_is_asked_by_its_attributes(file, torch, dtype, said):
    tensor = torch.Tensor(zeros(0, dtype), **({"device": (CUDA, 2)} | said))
    tensor.is_cuda = True
    assert file.read(tensor) == 0
    assert (tensor.asked, torch.library.calls) == (["data_ptr"], {"borrow": 1})


def test_a_tensor_of_torch_that_its_c_functions_refuse_is_asked_by_its_attributes(file, torch):
    torch.library.result = -1
    tensor = torch.Tensor(zeros(0), device=(CUDA, 2))
    assert file.read(tensor) == 0
    assert (tensor.asked, torch.library.calls) == (["data_ptr"], {"borrow": 1})


def test_a_tensor_of_torch_with_gaps_is_refused(file, torch):
    tensor = torch.Tensor(zeros(40)[::2])
    with pytest.raises(ValueError, match="Array must be contiguous"):
        file.read(tensor)
    assert torch.library.calls == {"borrow": 1}
