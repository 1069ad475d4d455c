"""The structures of dlpack.h 1.x in ctypes, and DLPack capsules taken apart with them. Knows no array library."""

import ctypes
import dataclasses

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

READ_ONLY, IS_COPIED = 1, 2
USED_NAMES = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class ExchangeApi(ctypes.Structure):
    """The C functions of a library; the addresses are those of functions or 0."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("borrow", ctypes.c_void_p),
        ("work_stream", ctypes.c_void_p),
    ]


@dataclasses.dataclass
class View:
    """What a capsule says. Valid as long as the capsule, or what consumed it, lives."""

    name: str
    version: tuple[int, int] | None
    flags: int
    address: int
    device: tuple[int, int]
    dtype: tuple[int, int, int]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    byte_offset: int

    def bytes(self, count: int) -> bytes:
        return ctypes.string_at(self.address + self.byte_offset, count)


def view(capsule) -> View:
    name, managed = _managed(capsule)
    tensor = managed.tensor
    versioned = name == b"dltensor_versioned"
    return View(
        name=name.decode(),
        version=(managed.major, managed.minor) if versioned else None,
        flags=managed.flags if versioned else 0,
        address=tensor.data or 0,
        device=(tensor.device_type, tensor.device_id),
        dtype=(tensor.code, tensor.bits, tensor.lanes),
        shape=tuple(tensor.shape[: tensor.ndim]),
        strides=tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None,
        byte_offset=tensor.byte_offset,
    )


def consume(capsule):
    """Takes the tensor as a consumer does; gives the function that deletes it, to be called once, on any thread."""
    name, managed = _managed(capsule)
    address = _api.PyCapsule_GetPointer(capsule, name)
    keep = ctypes.c_char_p(USED_NAMES[name])
    _names.append(keep)
    _api.PyCapsule_SetName(capsule, keep)
    return lambda: managed.deleter(address)


_names: list = []  # a capsule does not own its name


def _managed(capsule):
    name = _api.PyCapsule_GetName(capsule)
    kind = ManagedVersioned if name == b"dltensor_versioned" else Managed
    return name, kind.from_address(_api.PyCapsule_GetPointer(capsule, name))
