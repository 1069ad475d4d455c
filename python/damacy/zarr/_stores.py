"""Gets stored bytes: native threads read files by themselves; for other stores of zarr-python, this module calls the
store. Knows stores and byte requests; not what the bytes mean."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from damacy._core.errors import DamacyError, StorageError
from damacy._stores.forks import NotAfterFork, name_of, own_store

_GAP, _CAP = 1 << 20, 16 << 20
Bytes = np.ndarray[Any, Any]


def is_of_files(store: Any) -> bool:
    """Whether native code can read the store's files: only for these exact classes a key is known to be a path."""
    from zarr.storage import LocalStore

    if getattr(store, "normalize_keys", False):
        return False
    return type(store) is LocalStore or (type(store).__module__, type(store).__name__) in (
        ("damacy.zarr", "GDSStore"),
        ("damacy.zarr._gds_store", "GDSStore"),
    )


def file_store(root: str) -> Any:
    return _file_store(root, os.getpid())  # a forked child opens files of its own


@functools.lru_cache(maxsize=64)
def _file_store(root: str, process: int) -> Any:
    from damacy import _native

    return _native.file_store(root)


def root_of(store: Any) -> str:
    return str(store.root.absolute())


def forget(store: Any, keys: Sequence[str]) -> None:
    """Drops cached shard indices of objects that were written."""
    from damacy import _native

    if is_of_files(store):
        for key in keys:
            _native.forget_index(root_of(store), key)


def store_for_reads(store: Any, process: int) -> Any:
    """The store by which this process reads an array that `process` opened. Raises `StorageError` for a store that
    cannot be read in a forked child."""
    try:
        return own_store(store, process)
    except NotAfterFork as error:
        raise StorageError(str(error), store=name_of(store), reason="io") from None


def items_for_reads(items: Sequence[Any], process: int) -> Sequence[Any]:
    """The same items of a read, with the stores that this process reads by."""
    from zarr.storage import StorePath

    def own(getter: Any) -> Any:
        if not isinstance(getter, StorePath):
            return getter
        store = store_for_reads(getter.store, process)
        return getter if store is getter.store else StorePath(store, getter.path)

    return [(own(getter), *rest) for getter, *rest in items]


def _fetch_prototype(prototype: Any) -> Any:
    """The prototype to fetch with: host memory, unless the caller uses buffer classes of its own."""
    from zarr.core.buffer import cpu

    home = prototype.buffer.__module__
    known = home.startswith(("zarr.core.buffer", "zarr.buffer", "damacy.zarr.buffer"))
    return cpu.buffer_prototype if known else prototype


def _coalescing(config: Any, name: str, default: int) -> int:
    """The setting of the array (zarr 3.3 and later), else of zarr's configuration, else damacy's default."""
    import zarr

    chosen = getattr(config, name, None)
    return int(zarr.config.get(f"array.{name}", default) if chosen is None else chosen)


class Fetched:
    """Fetches the objects of one read from a store and passes them to native code.

    At most `async.concurrency` (zarr's setting) requests are under way at a time."""

    def __init__(self, store: Any, spec: Any, objects: int) -> None:
        """`store`: the one that this process reads by, as `store_for_reads` returns it."""
        import zarr

        from damacy import _native

        self.given = _native.PrefetchedStore(str(store))
        self._store = store
        self._prototype = _fetch_prototype(spec.prototype)
        concurrency = zarr.config.get("async.concurrency")
        self._slots = asyncio.Semaphore(concurrency)
        self._each = max(1, concurrency // objects)  # requests per object if the store's get_ranges makes them
        self._gap = _coalescing(spec.config, "sharding_coalesce_max_gap_bytes", _GAP)
        self._cap = _coalescing(spec.config, "sharding_coalesce_max_bytes", _CAP)

    def __del__(self) -> None:
        self.given.release()

    async def whole(self, getter: Any) -> None:
        found = await self._get(getter, None)
        if found is not None:
            self.given.put(getter.path, 0, found, len(found))

    async def shard(self, getter: Any, plan: Any, array: Any) -> None:
        from zarr.abc.store import RangeByteRequest, SuffixByteRequest

        size, unknown = array.index_bytes, plan.unknown_size
        at_end = array.index_at_end
        index = await self._get(getter, SuffixByteRequest(size) if at_end else RangeByteRequest(0, size))
        if index is None:
            return
        try:
            ranges = plan.ranges(getter.path, index.tobytes(), self._gap, self._cap)
        except DamacyError as error:
            error.key, error.store = getter.path, str(self._store)
            raise
        self.given.put(getter.path, unknown - size if at_end else 0, index, unknown)
        requests = [RangeByteRequest(offset, offset + length) for offset, length in ranges]
        for number, piece in await self._pieces(getter, requests):
            offset, length = ranges[number]
            if len(piece) > length:  # with too few bytes, the chunks that lack them fail as short reads
                raise StorageError(
                    f"the store returned {len(piece)} bytes for a range of {length}",
                    store=str(self._store),
                    key=getter.path,
                    byte_range=(offset, offset + length),
                    reason="io",
                )
            self.given.put(getter.path, offset, piece, unknown)

    async def _pieces(self, getter: Any, requests: Sequence[Any]) -> list[tuple[int, Bytes]]:
        """The bytes of ranges, each with the range's index; none if the object has been removed."""
        if not hasattr(self._store, "get_ranges"):
            pieces = await asyncio.gather(*(self._get(getter, request) for request in requests))
            return [(index, piece) for index, piece in enumerate(pieces) if piece is not None]
        limits = {
            "max_concurrency": self._each,
            "max_gap_bytes": self._gap,
            "max_coalesced_bytes": self._cap,
        }
        found: list[tuple[int, Bytes]] = []
        async with self._slots:
            try:
                async for group in self._store.get_ranges(getter.path, requests, prototype=self._prototype, **limits):
                    found += [(index, _bytes_of(piece)) for index, piece in group if piece is not None]
            except BaseExceptionGroup as failures:
                others = failures.split(FileNotFoundError)[1]
                if others is not None:
                    raise others from None
        return found

    async def _get(self, getter: Any, byte_range: Any) -> Bytes | None:
        async with self._slots:
            found = await self._store.get(getter.path, prototype=self._prototype, byte_range=byte_range)
        return None if found is None else _bytes_of(found)


def _bytes_of(buffer: Any) -> Bytes:
    return np.ascontiguousarray(buffer.as_numpy_array())


async def fetch(items: Sequence[Any], plan: Any, array: Any, process: int) -> Fetched:
    """Fetches all objects that the items of a read need, each once. `process`: the one that opened the array."""
    first, spec = items[0][:2]
    getters = {getter.path: getter for getter, *_ in items}
    fetched = Fetched(store_for_reads(first.store, process), spec, len(getters))
    if array.index_bytes:
        await asyncio.gather(*(fetched.shard(getter, plan, array) for getter in getters.values()))
    else:
        await asyncio.gather(*(fetched.whole(getter) for getter in getters.values()))
    return fetched
