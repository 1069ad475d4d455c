"""Counts the pages of a file in the page cache, and drops them."""

from __future__ import annotations

import os
from typing import Any

from damacy import _native
from damacy._fileio.errors import make_file_error


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
