"""The size of the cache of decoded chunks that native reads into host memory share, as zarr's configuration has it.
Knows no chunks."""

from __future__ import annotations

import asyncio
import sys

from damacy._core.sizes import as_bytes


def drop() -> None:
    """Gives the cache the size of `damacy.set_read_cache`, usually 0. Reads under way keep it until they end. One that
    is just starting on another thread may make it once more; the next read of zarr-python frees it."""
    if "damacy._native" in sys.modules:
        from damacy import _native

        _native.make_read_cache(_native.read_cache_setting())


async def size() -> int:
    """`damacy.cache_bytes` of zarr's configuration; for None the size of `damacy.set_read_cache`. If the cache has
    another size, another thread makes one of this size, which may take long."""
    import zarr

    from damacy import _native

    chosen = zarr.config.get("damacy.cache_bytes", None)
    if chosen is None:
        wanted = _native.read_cache_setting()
    else:
        wanted = as_bytes(chosen, "zarr.config 'damacy.cache_bytes'")
    if wanted != _native.read_cache_bytes():
        await asyncio.to_thread(_native.make_read_cache, wanted)
    return wanted
