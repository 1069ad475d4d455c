"""Answers requests of the native library from a store. One class for each kind of store.

The native library calls `begin`, which must not block, with the GIL held. `begin` fills the answer, or starts a
coroutine that fills it and returns its future, which the native library may cancel. Requests are:

* open: size and version of an object, and perhaps its first bytes
* stamp: size and version
* read: the bytes of a range of the version that was opened
* list: the names directly below a prefix, and whether each has keys below it
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from damacy._stores.failures import Changed, answer_failure, text_of
from damacy._stores.forks import NotAfterFork, own_store
from damacy._stores.loops import run_on_ours, run_on_zarrs

if TYPE_CHECKING:
    from damacy._native import StoreAnswer

HEAD_BYTES = 64 << 10  # read with an object's size: most documents and small chunks need no second request
REVALIDATE_S = 60.0  # a version that is no older is not looked up again
_LOOKUPS = 16  # of one listing, at a time
_DOCUMENTS_OF_VERSION_2 = (".zarray", ".zgroup", ".zattrs", ".zmetadata")
_DOCUMENTS = ("zarr.json", *_DOCUMENTS_OF_VERSION_2)

Run = Callable[[Coroutine[Any, Any, None]], "Future[None]"]


class Adapter:
    """Requests to a store, each a coroutine on one event loop."""

    revalidate_s = REVALIDATE_S

    def __init__(self, target: Any, store: Any, name: str, run: Run) -> None:
        self.target = target  # what the user mounted
        self.store = store
        self.name = name
        self._run = run

    def begin(
        self, answer: StoreAnswer, what: str, key: str, start: int, stop: int, tag: str, size: int
    ) -> Future[None] | None:
        """Starts one request. `tag` and `size` are of the version that a range is read from."""
        work = self._answer(answer, what, key, start, stop, tag, size)
        try:
            return self._run(work)
        except Exception as error:  # the loop has ended
            work.close()
            answer_failure(answer, what, error)
            return None

    async def _answer(
        self, answer: StoreAnswer, what: str, key: str, start: int, stop: int, tag: str, size: int
    ) -> None:
        try:
            if what == "open":
                await self.open(answer, key)
            elif what == "stamp":
                await self.stamp(answer, key)
            elif what == "read":
                answer.bytes(await self.read(key, start, stop, tag, size))
            else:
                answer.entries(sorted((await self.entries(key)).items()))
        except BaseException as error:
            answer_failure(answer, what, error)
            if not isinstance(error, Exception):
                raise

    async def open(self, answer: StoreAnswer, key: str) -> None:
        raise NotImplementedError

    async def stamp(self, answer: StoreAnswer, key: str) -> None:
        raise NotImplementedError

    async def read(self, key: str, start: int, stop: int, tag: str, size: int) -> Any:
        raise NotImplementedError

    async def entries(self, prefix: str) -> dict[str, bool]:
        """For each name directly below, whether there are keys below it."""
        raise NotImplementedError


class MemoryAdapter(Adapter):
    """A `zarr.storage.MemoryStore`, by its dict: answers at once."""

    revalidate_s = 0.0
    _versions = itertools.count(1)

    def __init__(self, target: Any, name: str) -> None:
        super().__init__(target, target, name, run_on_ours)

    def begin(
        self, answer: StoreAnswer, what: str, key: str, start: int, stop: int, tag: str, size: int
    ) -> Future[None] | None:
        try:
            if what == "list":
                answer.entries(sorted(self._entries_now(key).items()))
                return None
            buffer = self.store._store_dict.get(key)
            if buffer is None:
                raise FileNotFoundError(key)
            if what != "read":
                answer.found(len(buffer), self._version_of(buffer), 0)
            elif self._version_of(buffer) != tag:
                raise Changed("the object was replaced after it was opened")
            else:
                answer.bytes(_host_bytes(buffer)[start:stop])
        except Exception as error:
            answer_failure(answer, what, error)
        return None

    def _version_of(self, buffer: Any) -> str:
        """A number that the buffer keeps. Writing a part of an object does not change it."""
        try:
            return str(buffer.__dict__.setdefault("_damacy_version", next(self._versions)))
        except AttributeError:  # the buffer has no dict
            return str(id(buffer))

    def _entries_now(self, prefix: str) -> dict[str, bool]:
        start = prefix + "/" if prefix else ""
        return _names_below([key for key in self.store._store_dict if key.startswith(start)], start)


@contextlib.contextmanager
def _absent_if_version_2(key: str) -> Iterator[None]:
    """Icechunk has arrays of version 3 only, and raises KeyError for the documents of version 2."""
    try:
        yield
    except KeyError:
        if key.rpartition("/")[2] in _DOCUMENTS_OF_VERSION_2:
            raise FileNotFoundError(key) from None
        raise


class ZarrAdapter(Adapter):
    """Any store of zarr-python, on zarr's event loop. It has no versions: objects are taken as immutable."""

    def __init__(self, target: Any, name: str) -> None:
        super().__init__(target, target, name, run_on_zarrs)
        from zarr.abc.store import Store

        self._process = os.getpid()
        # The default reads the whole object to find its size.
        self._knows_sizes = type(target).getsize is not Store.getsize
        self._is_zip = name == "zarr.storage.ZipStore"
        self._is_fsspec = name == "zarr.storage.FsspecStore"

    async def _answer(
        self, answer: StoreAnswer, what: str, key: str, start: int, stop: int, tag: str, size: int
    ) -> None:
        try:
            self.store = own_store(self.target, self._process)
            await self.store._ensure_open()
        except NotAfterFork as error:
            answer.fail(str(error), "io", None, None)
            return
        except Exception as error:
            answer.fail(f"the store cannot be opened: {text_of(error)}", "io", None, error)
            return
        await super()._answer(answer, what, key, start, stop, tag, size)

    async def open(self, answer: StoreAnswer, key: str) -> None:
        size = None if key.rpartition("/")[2] in _DOCUMENTS else await self._size(key)
        if size is not None:
            answer.found(size, "", 0)
            return
        content = await self._get(key, None)
        answer.found(len(content), "", 0, content)

    async def stamp(self, answer: StoreAnswer, key: str) -> None:
        size = await self._size(key)
        answer.found(len(await self._get(key, None)) if size is None else size, "", 0)

    async def _size(self, key: str) -> int | None:
        """None if only reading the object shows it."""
        if self._is_zip:
            with self.store._lock:
                try:
                    return int(self.store._zf.getinfo(key).file_size)
                except KeyError:
                    raise FileNotFoundError(key) from None
        if not self._knows_sizes or self._is_inlined(key):
            return None
        try:
            return int(await self.store.getsize(key)) or None
        except KeyError:  # Icechunk raises it for absent nodes, and returns 0 for absent chunks
            return None

    def _is_inlined(self, key: str) -> bool:
        """Whether a document of references (kerchunk) holds the object itself. Its size is then that of its text."""
        references = getattr(self.store.fs, "references", None) if self._is_fsspec else None
        if not isinstance(references, Mapping):
            return False
        reference = references.get(f"{self.store.path}/{key}".strip("/"))
        return reference is not None and not isinstance(reference, (list, tuple))

    async def read(self, key: str, start: int, stop: int, tag: str, size: int) -> Any:
        from zarr.abc.store import RangeByteRequest

        return await self._get(key, RangeByteRequest(start, stop))

    async def _get(self, key: str, byte_range: Any) -> Any:
        from zarr.core.buffer import cpu

        with _absent_if_version_2(key):
            found = await self.store.get(key, cpu.buffer_prototype, byte_range)
        if found is None:
            raise FileNotFoundError(key)
        return _host_bytes(found)

    async def entries(self, prefix: str) -> dict[str, bool]:
        if not self.store.supports_listing:
            raise NotImplementedError("the store cannot list its keys")
        if self._is_fsspec:
            return await self._entries_of_fsspec(f"{self.store.path}/{prefix}".rstrip("/"))
        names = [name.strip("/") async for name in self.store.list_dir(prefix)]
        slots = asyncio.Semaphore(_LOOKUPS)

        async def has_keys_below(name: str) -> bool:
            if name in _DOCUMENTS:
                return False
            path = f"{prefix}/{name}" if prefix else name
            async with slots:
                async for _ in self.store.list_dir(path):
                    return True
                return False

        found = await asyncio.gather(*map(has_keys_below, names))
        return {name: below for name, below in zip(names, found) if name}

    async def _entries_of_fsspec(self, path: str) -> dict[str, bool]:
        found = await self.store.fs._ls(path, detail=True)
        entries = {each["name"].strip("/"): each["type"] == "directory" for each in found}
        entries.pop(path.strip("/"), None)  # some list an object below itself
        return {name.rpartition("/")[2]: is_directory for name, is_directory in entries.items()}


class ObstoreAdapter(Adapter):
    """A store of obstore, on our event loop. Its entity tags are versions."""

    _process: int | None = None  # the first one that made a request; obstore's threads do not survive a fork

    def __init__(self, target: Any, store: Any, name: str) -> None:
        super().__init__(target, store, name, run_on_ours)
        if type(store).__name__ in ("MemoryStore", "LocalStore"):  # looking up costs little
            self.revalidate_s = 0.0

    def begin(
        self, answer: StoreAnswer, what: str, key: str, start: int, stop: int, tag: str, size: int
    ) -> Future[None] | None:
        if ObstoreAdapter._process is None:
            ObstoreAdapter._process = os.getpid()
        if ObstoreAdapter._process != os.getpid():
            answer.fail(_FORKED, "io", None, None)
            return None
        return super().begin(answer, what, key, start, stop, tag, size)

    async def open(self, answer: StoreAnswer, key: str) -> None:
        try:
            found = await self.store.get_async(key, options={"range": (0, HEAD_BYTES)})
            meta, head = found.meta, await found.bytes_async()
        except FileNotFoundError:
            raise
        except Exception:  # an empty object has no such range
            meta = await self.store.head_async(key)
            if meta["size"] != 0:
                raise
            head = b""
        if len(head) != min(meta["size"], HEAD_BYTES):
            raise ValueError(f"the store returned {len(head)} bytes for the first {HEAD_BYTES} of {meta['size']}")
        answer.found(meta["size"], _tag(meta), _modified_ns(meta), head)

    async def stamp(self, answer: StoreAnswer, key: str) -> None:
        meta = await self.store.head_async(key)
        answer.found(meta["size"], _tag(meta), _modified_ns(meta))

    async def read(self, key: str, start: int, stop: int, tag: str, size: int) -> Any:
        from obstore.exceptions import PreconditionError

        options: dict[str, Any] = {"range": (start, stop)}
        if tag.startswith('"'):  # a server never matches a weak tag
            options["if_match"] = tag
        try:
            found = await self.store.get_async(key, options=options)
        except PreconditionError:
            raise Changed(_CHANGED) from None
        if _tag(found.meta) != tag or found.meta["size"] != size:
            raise Changed(_CHANGED)
        return await found.bytes_async()

    async def entries(self, prefix: str) -> dict[str, bool]:
        found = await self.store.list_with_delimiter_async(prefix or None)
        names = {path.rstrip("/").rpartition("/")[2]: True for path in found["common_prefixes"]}
        return {meta["path"].rpartition("/")[2]: False for meta in found["objects"]} | names


_FORKED = (
    "obstore does not answer in a forked child of a process that used it: start the process by spawning, "
    'for example with multiprocessing_context="spawn"'
)
_CHANGED = "the object was replaced after it was opened"


def _tag(meta: Any) -> str:
    """The entity tag; without one the time of the last change stands for it."""
    return meta.get("e_tag") or f"modified {meta.get('last_modified')}"


def _modified_ns(meta: Any) -> int:
    when = meta.get("last_modified")
    return 0 if when is None else int(when.timestamp() * 1e6) * 1000


def _host_bytes(buffer: Any) -> memoryview:
    """The bytes of a zarr `Buffer`, without a copy where they are in host memory."""
    import numpy as np

    array: Any = np.ascontiguousarray(buffer.as_numpy_array()).view(np.uint8)
    return memoryview(array)


def _names_below(keys: list[str], start: str) -> dict[str, bool]:
    names: dict[str, bool] = {}
    for key in keys:
        name, slash, _ = key[len(start) :].partition("/")
        names[name] = names.get(name, False) or bool(slash)
    return names
