"""The exceptions of file I/O. Each holds the file and the range, and derives from Python's class for its errno too. For
example, a missing file can be caught as `FileNotFoundError`, `OSError` or `RuntimeError`."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from damacy._core.errors import DamacyError, NativeCudaError, ShutdownError, StorageError

_PLACE = ("path", "offset", "length", "transferred", "backend", "range_index")


class _Placed(DamacyError):
    """The attributes of every error of file I/O; None if unknown."""

    path: str | None = None
    offset: int | None = None  # of the range in the file
    length: int | None = None  # bytes wanted
    transferred: int | None = None
    backend: str | None = None  # pread io_uring direct staging cufile cuda
    range_index: int | None = None  # in a gather request
    _base: type[DamacyError]

    def __reduce__(self) -> tuple[Any, ...]:
        _cls, arguments, state = super().__reduce__()
        return _rebuild, (self._base, getattr(self, "errno", None), arguments[0], state)


class FileIOError(_Placed, StorageError):
    """A system call that failed."""

    _more_attributes: ClassVar[tuple[str, ...]] = (*StorageError._more_attributes, "strerror", "filename", *_PLACE)


class FileOpenError(FileIOError):
    """A file that cannot be opened."""


class OpenModeError(FileIOError, io.UnsupportedOperation):
    """Reading a file that is open for writing only, or the reverse."""


class ShortReadError(_Placed, StorageError, EOFError):
    """A read of an exact size that reached the end of the file."""

    _more_attributes: ClassVar[tuple[str, ...]] = (*StorageError._more_attributes, "strerror", "filename", *_PLACE)


class ClosedFileError(_Placed, ShutdownError, ValueError):
    """An operation on a file after `close`."""

    _more_attributes: ClassVar[tuple[str, ...]] = _PLACE


class CuFileLibraryError(FileIOError):
    """A failure reported by libcufile, with its `cufile_code` and `cuda_code`."""

    _more_attributes: ClassVar[tuple[str, ...]] = (*FileIOError._more_attributes, "cufile_code", "cuda_code")
    cufile_code: int | None = None
    cuda_code: int | None = None


class CudaError(_Placed, NativeCudaError):
    """A failure of CUDA during a transfer; `code` is the CUresult."""

    _more_attributes: ClassVar[tuple[str, ...]] = (*NativeCudaError._more_attributes, *_PLACE, "code")
    code: int | None = None


_CLASSES: dict[str, Any] = {
    "io": FileIOError,
    "open": FileOpenError,
    "mode": OpenModeError,
    "short_read": ShortReadError,
    "closed": ClosedFileError,
    "cufile": CuFileLibraryError,
    "cuda": CudaError,
}
for _cls in _CLASSES.values():
    _cls._base = _cls
    _cls.__module__ = "damacy.cufile"
del _cls


@functools.cache
def class_for(base: type[DamacyError], errno: int | None) -> type[DamacyError]:
    """A subclass of `base` and of Python's own class for that errno; `base` itself if Python has none."""
    builtin = type(OSError(errno, "")) if errno is not None and issubclass(base, FileIOError) else OSError
    if builtin is OSError or issubclass(base, builtin):
        return base
    return type(base.__name__, (base, builtin), {"__module__": base.__module__, "__doc__": base.__doc__})


def make_file_error(kind: str, message: str, attributes: Mapping[str, Any]) -> DamacyError:
    """Creates the exception for a native error of file I/O. The native module calls this and raises the result."""
    base = _CLASSES[kind]
    known = {name: value for name, value in attributes.items() if name in base._more_attributes}
    number = attributes.get("errno")
    if issubclass(base, StorageError):
        if number is not None:
            known["strerror"] = os.strerror(number)
        known["filename"] = attributes.get("path")
    if kind == "cuda":
        known["code"] = attributes.get("cuda_code")
    error: DamacyError = class_for(base, number)(message, **known)
    if kind == "closed":
        error.what = "closed"
    return error


def _rebuild(base: Any, errno: int | None, message: str, state: dict[str, Any]) -> DamacyError:
    error = class_for(base, errno)(message)
    for name, value in state.items():
        setattr(error, name, value)
    return error
