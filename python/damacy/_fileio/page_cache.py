"""Counts the pages of a file in the page cache, and drops them, or those of the whole machine."""

from __future__ import annotations

import os
from typing import Any

from damacy import _native
from damacy._fileio.errors import make_file_error

_DROP_CACHES = "/proc/sys/vm/drop_caches"


def _borrowed_descriptor(file: Any, flags: int) -> tuple[int, bool]:
    """A descriptor, and whether the caller must close it."""
    if isinstance(file, bool):
        raise ValueError("file: expected a path, a descriptor or a file object (got bool)")
    if isinstance(file, int):
        return file, False
    if isinstance(file, (str, bytes, os.PathLike)):
        try:
            return os.open(file, flags | os.O_CLOEXEC | os.O_NONBLOCK), True
        except OSError as error:
            attributes = {"errno": error.errno, "path": os.fsdecode(file)}
            text = f"Unable to open file: {error.strerror}: {os.fsdecode(file)}"
            raise make_file_error("open", text, attributes) from None
    if hasattr(file, "fileno"):
        return file.fileno(), False
    raise ValueError(f"file: expected a path, a descriptor or a file object (got {type(file).__name__})")


def get_page_cache_info(file: Any, offset: int = 0, length: int = 0) -> tuple[int, int]:
    """For `length` bytes from `offset` (0: to the end), the number of pages in the page cache and of all pages."""
    descriptor, is_ours = _borrowed_descriptor(file, os.O_RDONLY)
    try:
        return _native.cached_pages(descriptor, offset, length)
    finally:
        if is_ours:
            os.close(descriptor)


def drop_file_page_cache(file: Any, offset: int = 0, length: int = 0, sync_first: bool = True) -> None:
    """Drops pages of a file from the page cache; with `sync_first`, writes dirty pages to storage before."""
    descriptor, is_ours = _borrowed_descriptor(file, os.O_RDONLY)
    try:
        _native.drop_cached_pages(descriptor, offset, length, bool(sync_first))
    finally:
        if is_ours:
            os.close(descriptor)


def drop_system_page_cache(reclaim_dentries_and_inodes: bool = True, sync_first: bool = True) -> bool:
    """Drops the page cache of the whole machine; with `reclaim_dentries_and_inodes` also names and attributes of files.

    With `sync_first`, dirty pages are written to storage before. Returns False if this process is not allowed to: only
    root is. No other program, such as sudo, is started for it. For one file, `drop_file_page_cache` needs no rights.
    """
    if sync_first:
        os.sync()
    try:
        with open(_DROP_CACHES, "w", encoding="ascii") as file:
            file.write("3" if reclaim_dentries_and_inodes else "1")
    except OSError:
        return False
    return True


def clear_page_cache(reclaim_dentries_and_inodes: bool = True, clear_dirty_pages: bool = True) -> bool:
    """`drop_system_page_cache` by its former name in KvikIO; `clear_dirty_pages` is `sync_first`."""
    return drop_system_page_cache(reclaim_dentries_and_inodes, clear_dirty_pages)
