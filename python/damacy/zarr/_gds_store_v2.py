"""`GDSStore` for zarr-python 2: a `DirectoryStore` that reads and writes by `damacy.cufile`, into GPU memory if there
is a GPU. Implements zarr's mapping interface; `_store_files` handles files."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from zarr.errors import FSPathExistNotDir  # type: ignore[attr-defined]  # of zarr 2
from zarr.storage import DirectoryStore  # type: ignore[attr-defined]  # of zarr 2

import damacy
from damacy import _native, cufile
from damacy.zarr import _chunk_v2, _store_files

_DOCUMENTS = (".zarray", ".zgroup", ".zattrs")


def _gpu_is_usable() -> bool:
    return bool(_native.backend_info()["cuda"])


def _has_cupy() -> bool:
    try:
        import cupy  # noqa: F401
    except ImportError:
        return False
    return True


class GDSStore(DirectoryStore):
    """A directory of objects. Documents are `bytes`; all other values are 1-D `uint8` arrays on the GPU.

    These are CuPy arrays if CuPy can be imported, else `damacy.DeviceArray`s. zarr copies the latter to the host, so
    that `z[:]` is a NumPy array.

    `output`: "gpu", "host" (NumPy arrays), or None: the GPU if there is a usable one.

    Raises zarr's `FSPathExistNotDir` if `path` is not a directory, `InvalidArgument` for "gpu" without a GPU.
    """

    def __init__(
        self,
        path: Any,
        normalize_keys: bool = False,
        dimension_separator: str | None = None,
        *,
        output: str | None = None,
    ) -> None:
        path = os.path.abspath(os.fspath(path))
        if os.path.exists(path) and not os.path.isdir(path):
            raise FSPathExistNotDir(path)
        if output not in (None, "gpu", "host"):
            raise damacy.InvalidArgument(f"output: expected 'gpu', 'host' or None (got {output!r})")
        if output == "gpu" and not _gpu_is_usable():
            raise damacy.InvalidArgument("output='gpu': there is no usable GPU", reason="no-device")
        super().__init__(path, normalize_keys=normalize_keys, dimension_separator=dimension_separator)
        self.output = output
        self.default_meta_array: Any = None

    def _key(self, key: str, error: type[Exception]) -> str:
        if not isinstance(key, str) or not _store_files.names_something_inside(key):
            raise error(key)
        return str(self._normalize_key(key))

    def _file(self, key: str, error: type[Exception]) -> str:
        return os.path.join(self.path, self._key(key, error))

    # -- memory --------------------------------------------------------------------------------------------------------

    def _memory(self, size: int, like: Any = None) -> Any:
        """Memory for `size` bytes: of the kind of `like`, else the kind that the store's `output` names."""
        if like is None:
            like = self.default_meta_array
        if like is not None:
            library = type(like).__module__.partition(".")[0]
            if library == "cupy":
                return _cupy_empty(size)
            if library == "damacy":
                return damacy.empty((size,), "B")
            return np.empty(size, "B")
        if self.output == "host" or (self.output is None and not _gpu_is_usable()):
            return np.empty(size, "B")
        return _cupy_empty(size) if _has_cupy() else _chunk_v2.Chunk.empty(size)

    # -- reading -------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        opened = _store_files.open_file(self.path, self._key(key, KeyError))
        if opened is None:
            raise KeyError(key)
        file, size = opened
        if os.path.basename(key) in _DOCUMENTS:
            document = bytearray(size)
            file.read(document, exact=True)
            return bytes(document)
        memory = self._memory(size)
        file.read(memory, exact=True)
        return memory

    def getitems(self, keys: Sequence[str], *, contexts: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Many objects in one request; missing ones are left out."""
        contexts = contexts or {}
        found: dict[str, Any] = {}
        requests: list[Any] = []
        for key in keys:
            opened = _store_files.open_file(self.path, self._key(key, KeyError))
            if opened is None:
                continue
            is_document = os.path.basename(key) in _DOCUMENTS
            like = contexts[key].get("meta_array") if key in contexts else None
            found[key] = bytearray(opened[1]) if is_document and like is None else self._memory(opened[1], like)
            requests.append((opened[0], found[key], None, 0))
        cufile.preadv_many(requests, exact=True).get()
        return {key: bytes(value) if isinstance(value, bytearray) else value for key, value in found.items()}

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str) or not _store_files.names_something_inside(key):
            return False
        return os.path.isfile(os.path.join(self.path, self._normalize_key(key)))

    # -- writing -------------------------------------------------------------------------------------------------------

    def __setitem__(self, key: str, value: Any) -> None:
        try:
            _store_files.write_whole(self.path, self._key(key, ValueError), _contiguous(value), replaces_folder=True)
        except (FileExistsError, NotADirectoryError) as error:  # a parent of the path is a file
            raise KeyError(key) from error

    def __delitem__(self, key: str) -> None:
        path = self._file(key, KeyError)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif not _store_files.erase(self.path, self._key(key, KeyError)):
            raise KeyError(key)

    # -- names ---------------------------------------------------------------------------------------------------------

    def keys(self) -> Iterator[str]:
        """All files except those that are being written."""
        return _store_files.keys(self.path)

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __len__(self) -> int:
        return sum(1 for _ in self.keys())

    def listdir(self, path: str | None = None) -> list[str]:
        """Names directly below a path. With the separator "/", chunks are listed as all coordinates joined by dots.

        Versions of `DirectoryStore` differ in how they join them.
        """
        slashed = self._dimension_separator == "/"
        names = super().listdir(path)
        return [name.replace("/", ".") if slashed else name for name in names if not _is_partial_below(name)]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.path == other.path

    __hash__ = None  # type: ignore[assignment]  # as zarr's own stores


def _is_partial_below(name: str) -> bool:
    """Recognises a partial file also if `DirectoryStore` has joined folders and file name by dots."""
    return _store_files.is_partial(name[max(name.find(_store_files.PARTIAL_PREFIX), 0) :])


def _cupy_empty(size: int) -> Any:
    import cupy

    return cupy.empty(size, "B")


def _contiguous(value: Any) -> Any:
    """The value itself if its memory is contiguous, else a contiguous copy."""
    if isinstance(value, str):
        return value.encode("ascii")
    if hasattr(value, "__cuda_array_interface__"):
        return value if value.flags.c_contiguous or value.flags.f_contiguous else value.copy()
    with contextlib.suppress(TypeError, BufferError, ValueError):
        view = memoryview(value)
        return value if view.contiguous else np.ascontiguousarray(value)
    if isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous):
        return np.ascontiguousarray(value)
    return value
