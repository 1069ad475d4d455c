"""`GDSStore` for zarr-python 3: a `LocalStore` that reads and writes by `damacy.cufile`, directly into the memory of
the buffer prototype. Implements zarr's store interface; `_store_files` handles files."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import operator
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr.storage
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer
from zarr.core.buffer import cpu as _cpu
from zarr.core.buffer.core import default_buffer_prototype

from damacy import _native, cufile
from damacy.zarr import _store_files

_starting = threading.Lock()
_pools: dict[int, concurrent.futures.ThreadPoolExecutor] = {}


def _pool() -> concurrent.futures.ThreadPoolExecutor:
    """The threads that open, create and rename files, for all stores of this process."""
    with _starting:
        if os.getpid() not in _pools:
            _pools.clear()
            _pools[os.getpid()] = concurrent.futures.ThreadPoolExecutor(8, thread_name_prefix="damacy-store")
        return _pools[os.getpid()]


async def _off_the_loop(function: Any, *arguments: Any, **keywords: Any) -> Any:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), functools.partial(function, *arguments, **keywords))


def _count(value: Any) -> int:
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"a byte range cannot hold a negative number (got {number})")
    return number


def _clamped(byte_range: Any, size: int) -> tuple[int, int]:
    """Offset and length of a byte request in an object of `size` bytes."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, RangeByteRequest):
        start, end = _count(byte_range.start), _count(byte_range.end)
        begin = min(start, size)
        return begin, min(max(end, start), size) - begin
    if isinstance(byte_range, OffsetByteRequest):
        begin = min(_count(byte_range.offset), size)
        return begin, size - begin
    if isinstance(byte_range, SuffixByteRequest):
        length = min(_count(byte_range.suffix), size)
        return size - length, length
    raise TypeError(f"Unexpected byte_range, got {byte_range}.")


class _Landing:
    """Memory for one result, of the kind that the prototype wants, and the zarr buffer made from it."""

    def __init__(self, prototype: Any, size: int) -> None:
        self._prototype = prototype
        self._wrap = prototype.buffer.from_array_like
        self.memory: Any
        if issubclass(prototype.buffer, _cpu.Buffer):
            self.memory = np.empty(size, "B")
        elif _is_ours(prototype.buffer):
            import damacy

            self.memory = damacy.empty((size,), "B")
        else:
            self.memory = self._of_others(size)

    def _of_others(self, size: int) -> Any:
        try:
            array = self._prototype.nd_buffer.create(shape=(size,), dtype="B").as_ndarray_like()
            if getattr(array, "__cuda_array_interface__", None) is not None:
                return array
        except Exception:  # a prototype that cannot allocate memory is given bytes
            pass
        self._wrap = lambda memory: self._prototype.buffer.from_bytes(memory.tobytes())
        return np.empty(size, "B")

    def buffer(self) -> Any:
        return self._wrap(self.memory)


def _is_ours(cls: type) -> bool:
    return any(base.__module__ == "damacy.zarr.buffer.gpu" for base in cls.__mro__)


def _bytes_of(value: Any) -> Any:
    """The memory of a zarr buffer, contiguous."""
    array = value.as_array_like()
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    flags = getattr(array, "flags", None)
    if getattr(flags, "c_contiguous", True):
        return array
    return value.to_bytes()


class GDSStore(zarr.storage.LocalStore):
    """A store of local files, read and written by damacy's file I/O.

    If the buffer prototype is of GPU memory, bytes go there without an intermediate copy in zarr.

    `path` is another name of `root`. `normalize_keys` makes keys lower case. `dimension_separator` is kept and has no
    effect: in zarr 3 the array's document sets the separator (`chunk_key_encoding` of `create_array`).

    Raises `ValueError` for keys outside the root.
    """

    def __init__(
        self,
        root: Path | str | None = None,
        normalize_keys: bool = False,
        dimension_separator: str | None = None,
        *,
        read_only: bool = False,
        path: Path | str | None = None,
    ) -> None:
        if (root is None) == (path is None):
            raise TypeError("GDSStore: expected the directory as either `root` or `path`")
        if dimension_separator not in (None, ".", "/"):
            raise ValueError(f"dimension_separator: expected '.', '/' or None (got {dimension_separator!r})")
        folder: Any = path if root is None else root
        super().__init__(folder, read_only=read_only)
        self.normalize_keys = bool(normalize_keys)
        self.dimension_separator = dimension_separator

    def with_read_only(self, read_only: bool = False) -> GDSStore:
        return type(self)(self.root, self.normalize_keys, self.dimension_separator, read_only=read_only)

    def __repr__(self) -> str:
        return f"GDSStore('{self}')"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self.root, self.normalize_keys

    __hash__ = None  # type: ignore[assignment]  # as zarr's own stores

    def _path(self, key: str) -> str:
        return os.path.join(self.root, self._key(key))

    def _key(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"key: expected a str (got {type(key).__name__})")
        if not _store_files.names_something_inside(key):
            raise ValueError(f"key {key!r} is not below the root of the store")
        return key.lower() if self.normalize_keys else key

    def _opened(self, key: str) -> tuple[_native.CuFile, int] | None:
        return _store_files.open_file(os.fspath(self.root), self._key(key))

    def _prefix(self, prefix: str) -> str:
        """A prefix without trailing slashes; "" is the root itself."""
        prefix = prefix.rstrip("/")
        self._path(prefix)
        return prefix.lower() if self.normalize_keys else prefix

    def _open_now(self) -> None:
        if self._is_open:
            return
        if not self.read_only:
            self.root.mkdir(parents=True, exist_ok=True)
        if not self.root.exists():
            raise FileNotFoundError(f"{self.root} does not exist")
        self._is_open = True

    # -- reading -------------------------------------------------------------------------------------------------------

    def _begin(self, key: str, prototype: Any, byte_range: Any) -> tuple[Any, Any] | None:
        """A future and the landing of its bytes; None if there is no such object."""
        self._key(key)
        self._open_now()
        _clamped(byte_range, 0)
        opened = self._opened(key)
        if opened is None:
            return None
        file, size = opened
        offset, length = _clamped(byte_range, size)
        landing = _Landing(prototype or default_buffer_prototype(), length)
        return file.begin_read(landing.memory, length, offset, None, None, True), landing

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """The bytes of an object or of a range of it; None if it is missing or not a regular file."""
        begun = await _off_the_loop(self._begin, key, prototype, byte_range)
        if begun is None:
            return None
        future, landing = begun
        await future
        found: Buffer = landing.buffer()
        return found

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """As `get`, on the caller's thread."""
        begun = self._begin(key, prototype, byte_range)
        if begun is None:
            return None
        future, landing = begun
        future.get()
        found: Buffer = landing.buffer()
        return found

    def _begin_many(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> tuple[Any, list[Any]]:
        """One request for all ranges, and for each range its landing, or None if its object is missing."""
        self._open_now()
        prototype = prototype or default_buffer_prototype()
        requests: list[Any] = []
        landings: list[Any] = []
        for key, byte_range in key_ranges:
            _clamped(byte_range, 0)
            opened = self._opened(key)
            landings.append(None)
            if opened is None:
                continue
            offset, length = _clamped(byte_range, opened[1])
            landings[-1] = _Landing(prototype, length)
            requests.append((opened[0], landings[-1].memory, length, offset))
        return cufile.preadv_many(requests, exact=True), landings

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Buffer | None]:
        """One buffer for each (key, range), in order; None for a missing key."""
        future, landings = await _off_the_loop(self._begin_many, prototype, list(key_ranges))
        await future
        return [landing and landing.buffer() for landing in landings]

    def _begin_ranges(self, key: str, byte_ranges: Sequence[Any], prototype: Any) -> tuple[Any, list[Any]]:
        opened = self._opened(key)
        if opened is None:
            raise FileNotFoundError(key)
        file, size = opened
        places = [_clamped(byte_range, size) for byte_range in byte_ranges]
        landings = [_Landing(prototype, length) for _, length in places]
        requests = [(landing.memory, length, offset) for landing, (offset, length) in zip(landings, places)]
        return file.begin_readv(requests, True, None), landings

    async def get_ranges(
        self,
        key: str,
        byte_ranges: Iterable[Any],
        *,
        prototype: Any,
        max_concurrency: int = 10,
        max_gap_bytes: int = 1 << 20,
        max_coalesced_bytes: int = 16 << 20,
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Reads many ranges of one object by one request. Yields sequences of (index, buffer), each index once.

        Raises an `ExceptionGroup` with the error for a missing object or a failed read, and `ValueError` for a key
        outside the root.
        """
        self._path(key)
        wanted = list(byte_ranges)
        if not wanted:
            return
        try:
            future, landings = await _off_the_loop(self._begin_ranges, key, wanted, prototype)
            await future
        except Exception as error:
            raise ExceptionGroup(f"ranges of {key}", [error]) from None
        yield [(index, landing.buffer()) for index, landing in enumerate(landings)]

    def get_ranges_sync(
        self,
        key: str,
        byte_ranges: Iterable[Any],
        *,
        prototype: Any,
        max_concurrency: int = 10,
        max_gap_bytes: int = 1 << 20,
        max_coalesced_bytes: int = 16 << 20,
    ) -> list[tuple[int, Buffer | None]]:
        """As `get_ranges`, on the caller's thread; returns the whole list."""
        self._path(key)
        wanted = list(byte_ranges)
        if not wanted:
            return []
        try:
            future, landings = self._begin_ranges(key, wanted, prototype)
            future.get()
        except Exception as error:
            raise ExceptionGroup(f"ranges of {key}", [error]) from None
        return [(index, landing.buffer()) for index, landing in enumerate(landings)]

    # -- writing -------------------------------------------------------------------------------------------------------

    def _put(self, key: str, value: Any, exclusive: bool) -> None:
        path = self._path(key)
        self._open_now()
        self._check_writable()
        if not isinstance(value, Buffer):
            raise TypeError(
                f"GDSStore.set(): `value` must be a Buffer instance. Got an instance of {type(value)} instead."
            )
        if exclusive and os.path.exists(path):
            return
        try:
            _store_files.write_whole(os.fspath(self.root), self._key(key), _bytes_of(value), exclusive=exclusive)
        except FileExistsError:
            if not exclusive:
                raise

    async def set(self, key: str, value: Buffer) -> None:
        """Writes an object atomically: readers see the old one or the new one."""
        await _off_the_loop(self._put, key, value, False)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Writes an object unless it exists. Of several writers at once, exactly one writes."""
        await _off_the_loop(self._put, key, value, True)

    def set_sync(self, key: str, value: Buffer) -> None:
        """As `set`, on the caller's thread."""
        self._put(key, value, False)

    def _put_part(self, key: str, start: int, value: Any) -> None:
        path = self._path(key)
        self._check_writable()
        with cufile.CuFile(path, "r+") as file:
            file.write(value, file_offset=start)

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Any]]) -> None:
        """Overwrites bytes of existing objects, each (key, offset, bytes)."""
        for key, start, value in key_start_values:
            await _off_the_loop(self._put_part, key, start, value)

    def _remove(self, key: str) -> None:
        path = self._path(key)
        self._check_writable()
        if not key:
            raise ValueError("delete: key '' is the root of the store; use clear() to empty it")
        if os.path.isdir(path):
            shutil.rmtree(path)
            return
        _store_files.erase(os.fspath(self.root), self._key(key))

    async def delete(self, key: str) -> None:
        """Removes an object, or everything below a key. A missing key is not an error."""
        await _off_the_loop(self._remove, key)

    def delete_sync(self, key: str) -> None:
        """As `delete`, on the caller's thread."""
        self._open_now()
        self._remove(key)

    async def delete_dir(self, prefix: str) -> None:
        """Removes everything below a prefix; "" empties the store."""
        await super().delete_dir(self._prefix(prefix))

    # -- names ---------------------------------------------------------------------------------------------------------

    async def exists(self, key: str) -> bool:
        """Whether the key names a file."""
        return bool(await _off_the_loop(os.path.isfile, self._path(key)))

    async def getsize(self, key: str) -> int:
        """The size of an object in bytes. Raises `FileNotFoundError` if it is missing."""
        try:
            return int((await _off_the_loop(os.stat, self._path(key))).st_size)
        except NotADirectoryError as error:  # a parent of the path is a file
            raise FileNotFoundError(key) from error

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in super().list():
            if not _store_files.is_partial(key):
                yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys below a prefix."""
        async for key in super().list_prefix(self._prefix(prefix)):
            if not _store_files.is_partial(key):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly below a prefix."""
        async for name in super().list_dir(self._prefix(prefix)):
            if not _store_files.is_partial(name):
                yield name
