"""Stores of zarr-python that fail: a `MemoryStore` behind zarr's generic interface, with a fault in its answers."""

import asyncio

from zarr.storage import MemoryStore, WrapperStore


class OddStore(WrapperStore):
    """Serves a `MemoryStore`. `fault(key, answer)` is awaited for each read of bytes and gives what is answered."""

    def __init__(self, store=None, fault=None):
        super().__init__(store or MemoryStore())
        self.fault = fault
        self.gets = []

    def _with_store(self, store):
        return type(self)(store, self.fault)

    async def get(self, key, prototype, byte_range=None):
        self.gets.append((key, byte_range))
        found = await self._store.get(key, prototype, byte_range)
        if self.fault is None:
            return found
        return await self.fault(key, found)


class SizedStore(OddStore):
    """The same, and knows sizes without reading."""

    async def getsize(self, key):
        try:
            return len(self._store._store_dict[key])
        except KeyError:
            raise FileNotFoundError(key) from None


def is_chunk(key):
    return "/c/" in f"/{key}"


def on_chunks(change):
    """A fault that changes the bytes of chunks and leaves documents alone."""

    async def fault(key, found):
        if not is_chunk(key) or found is None:
            return found
        return type(found).from_bytes(change(found.to_bytes()))

    return fault


def raising(error):
    async def fault(key, found):
        if is_chunk(key):
            raise error
        return found

    return fault


async def never(key, found):
    """Never answers for chunks."""
    if is_chunk(key):
        await asyncio.Event().wait()
    return found
