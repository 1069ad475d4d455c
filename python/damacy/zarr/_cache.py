"""The cache of decoded chunks that native reads into host memory share: its size, as zarr's configuration has it. Knows
no chunks."""

from __future__ import annotations

import asyncio
import os
import sys

from damacy._core.sizes import as_bytes

_made = os.getpid(), 0  # the process that made a cache last, and its size


def make(size: int) -> None:
    """Makes the cache, after it has freed one of another size. Both take long for a large cache."""
    global _made
    from damacy import _native

    _made = os.getpid(), 0  # also if there is no memory for it
    _native.make_read_cache(size)
    _made = os.getpid(), size


def drop() -> None:
    """Frees the cache. Reads under way keep it until they end. One that is just starting on another thread may make it
    once more, and the next read frees it."""
    if "damacy._native" in sys.modules:
        make(0)


async def size() -> int:
    """`damacy.cache_bytes` of zarr's configuration, 0 for None. If it has changed, another thread makes the cache."""
    import zarr

    chosen = zarr.config.get("damacy.cache_bytes", None)
    wanted = 0 if chosen is None else as_bytes(chosen, "zarr.config 'damacy.cache_bytes'")
    process, made = _made
    if wanted != (made if process == os.getpid() else 0):
        await asyncio.to_thread(make, wanted)
    return wanted
