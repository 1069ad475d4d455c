"""The cache of decoded chunks of single reads: its size. Knows no chunks."""

from __future__ import annotations

from damacy._core.sizes import as_bytes


def set_read_cache(cache_bytes: int | str) -> None:
    """Sets the size of the cache of decoded chunks for `Array.read` and `array[...]`.

    `cache_bytes`: bytes, or text such as "4GiB". 0, the first setting, keeps nothing. A later read of a kept chunk
    copies its elements from the cache: no read, no decoding. All arrays and threads of the process share it. Another
    size starts an empty cache. A forked child has the same setting, and a cache of its own. Reads with a `spec` do not
    use it.

    Reads of zarr-python into host memory share it after `damacy.zarr.enable()`. While
    `damacy.zarr.enable(cache_bytes=)` is in force, the cache has that size instead.

    Each read checks that its objects are unchanged. Chunks of files are kept once the file is two seconds old, and
    chunks of remote objects if these have a version. The page *Keep chunks in memory* says which changes are not
    noticed.

    Raises `ValueError` for a negative number or another text, and `OutOfMemory` if the cache cannot be allocated. Then
    the chunks that were kept are gone, and the size stays as it was.
    """
    from damacy import _native

    _native.set_read_cache(as_bytes(cache_bytes, "cache_bytes"))


# Tracebacks show damacy.set_read_cache.
set_read_cache.__module__ = "damacy"
