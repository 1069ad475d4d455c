"""Objects of a store as files, by the native `GDSStore`: opened once, and replaced atomically. Knows keys and folders;
not zarr."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

from damacy import _native

PARTIAL_PREFIX = ".damacy-"


def is_partial(name: str) -> bool:
    """Whether a file of that name is a partly written object of a `GDSStore`."""
    return _native.GDSStore.is_partial(os.fsencode(name))


def names_something_inside(key: str) -> bool:
    """Whether a key stays below the root: not absolute, no `.` or `..`, no NUL."""
    return not key.startswith("/") and "\0" not in key and not {".", ".."}.intersection(key.split("/"))


@functools.lru_cache(maxsize=128)
def _store(root: str) -> _native.GDSStore:
    return _native.GDSStore(os.fsencode(root))


def _native_key(key: str) -> bytes:
    """The key without empty parts, which the file system ignores."""
    return os.fsencode("/".join(filter(None, key.split("/"))))


def open_file(root: str, key: str) -> tuple[_native.CuFile, int] | None:
    """An open file and its size; None if the key does not name a regular file."""
    if not key or key.endswith("/"):
        return None
    return _store(root).open(_native_key(key))


def write_whole(root: str, key: str, value: Any, *, exclusive: bool = False, replaces_folder: bool = False) -> None:
    """Writes a buffer to a new file in the folder of the object and renames it: readers see the old object or the new
    one.

    `exclusive`: raises `FileExistsError` if the object exists.
    """
    new = _store(root).create(_native_key(key))
    try:
        new.file.write(value)
        new.commit(exclusive, replaces_folder)
    finally:
        new.discard()


def erase(root: str, key: str) -> bool:
    """Removes an object. False: there was none."""
    return _store(root).erase(_native_key(key))


def keys(root: str) -> Iterator[str]:
    """Of all objects, without those that are being written."""
    return map(os.fsdecode, _store(root).keys(b""))
