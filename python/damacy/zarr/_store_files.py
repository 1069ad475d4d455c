"""Objects of a store as files: keeps opened files, and replaces files atomically. Knows paths and descriptors; not
zarr."""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import secrets
import threading
from collections.abc import Callable
from typing import Any

from damacy.cufile import CuFile

_KEPT = 32
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ESPIPE, errno.ENXIO)
PARTIAL_PREFIX, PARTIAL_SUFFIX = ".damacy-", ".partial"


def is_partial(name: str) -> bool:
    """Whether a file of that name is a partly written object of a `GDSStore`."""
    name = name.rpartition("/")[2]
    return name.startswith(PARTIAL_PREFIX) and name.endswith(PARTIAL_SUFFIX)


def names_something_inside(key: str) -> bool:
    """Whether a key stays below the root: not absolute, no `.` or `..`, no NUL."""
    return not key.startswith("/") and "\0" not in key and not {".", ".."}.intersection(key.split("/"))


class _OpenFiles:
    """Cache of open files. A file that was replaced or has changed is opened again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: collections.OrderedDict[str, tuple[tuple[int, ...], CuFile]] = collections.OrderedDict()

    def open(self, path: str) -> tuple[CuFile, int] | None:
        """The file and its size; None if there is no regular file."""
        try:
            stamp = _stamp(os.stat(path))
        except OSError as error:
            if error.errno in _ABSENT:
                self._forget(path)
                return None
            raise
        with self._lock:
            kept = self._files.get(path)
            if kept is not None and kept[0] == stamp:
                self._files.move_to_end(path)
                return kept[1], stamp[2]
        return self._open_anew(path)

    def _open_anew(self, path: str) -> tuple[CuFile, int] | None:
        try:
            file = self._opened(path)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        stamp = _stamp(os.fstat(file.fileno()))
        with self._lock:
            self._files[path] = (stamp, file)
            self._files.move_to_end(path)
            while len(self._files) > _KEPT:
                self._files.popitem(last=False)  # is closed when its last read ends
        return file, stamp[2]

    def _opened(self, path: str) -> CuFile:
        try:
            return CuFile(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        with self._lock:
            self._files.clear()
        return CuFile(path)

    def _forget(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


_of_process: tuple[int, _OpenFiles] | None = None


def open_file(path: str) -> tuple[CuFile, int] | None:
    """An open file, from this process's cache if it is there, and its size; None if `path` is not a regular file."""
    global _of_process
    if _of_process is None or _of_process[0] != os.getpid():
        _of_process = (os.getpid(), _OpenFiles())
    return _of_process[1].open(path)


def write_whole(
    path: str, value: Any, *, exclusive: bool = False, in_the_way: Callable[[], None] | None = None
) -> None:
    """Writes a buffer to a new file in the folder of `path` and renames it: readers see the old object or the new one.

    `exclusive`: raises `FileExistsError` if the object exists. `in_the_way` is called before the rename.
    """
    partial = os.path.join(os.path.dirname(path), f"{PARTIAL_PREFIX}{secrets.token_hex(16)}{PARTIAL_SUFFIX}")
    try:
        with CuFile(partial, "x", mode=0o666) as file:
            file.write(value)
        if in_the_way is not None:
            in_the_way()
        if exclusive:
            os.link(partial, path)
            os.unlink(partial)
        else:
            os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise
