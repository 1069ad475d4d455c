"""Regions of files that are opened for reading, with the names of KvikIO's `kvikio.mmap`.

>>> import os, tempfile
>>> from damacy.mmap import Mmap
>>> path = os.path.join(tempfile.mkdtemp(), "numbers")
>>> with open(path, "wb") as f:
...     _ = f.write(b"0123456789")
>>> buffer = bytearray(4)
>>> with Mmap(path, initial_map_offset=2) as region:
...     region.read(buffer, 3, 5), bytes(buffer)
(3, b'567\\x00')
"""

from __future__ import annotations

import os
import stat
from typing import Any

from damacy._core.errors import InvalidArgument
from damacy._fileio.arguments import natural
from damacy.cufile import CuFile, IOFuture


class Mmap:
    """A region of a file for reads into host and GPU memory.

    The region has `initial_map_size` bytes from `initial_map_offset`; without a size it reaches to the end of the file.

    Nothing is mapped: the bytes are read as by `CuFile`, from the page cache if they are there. So a file that becomes
    shorter is a `ShortReadError`, not a signal that ends the process. `map_flags`, which KvikIO passes to mmap(2), and
    `mode`, the permissions of a new file, have no effect.

    Raises `FileOpenError`; `InvalidArgument` for flags that write, which KvikIO does not implement either;
    `IndexError` for a region that is not within the file; `ValueError` for one of 0 bytes.
    """

    def __init__(
        self,
        file_path: str | bytes | os.PathLike[Any],
        flags: str = "r",
        initial_map_size: int | None = None,
        initial_map_offset: int = 0,
        mode: int = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH,
        map_flags: int | None = None,
    ) -> None:
        if isinstance(flags, str) and set(flags) & set("wax+"):
            raise InvalidArgument(f"flags: a file is mapped for reading only, expected 'r' (got {flags!r})")
        offset = natural("initial_map_offset", initial_map_offset)
        size = None if initial_map_size is None else natural("initial_map_size", initial_map_size)
        if size == 0:
            raise ValueError("initial_map_size: expected a positive integer (got 0)")
        self._file = CuFile(file_path, flags)
        held = self.file_size()
        if offset >= held or (size is not None and offset + size > held):
            self._file.close()
            wanted = "the rest" if size is None else f"{size} bytes"
            raise IndexError(f"cannot map {wanted} from offset {offset} of a file of {held} bytes: {self._path()}")
        self._begin = offset
        self._end = held if size is None else offset + size

    def initial_map_size(self) -> int:
        """The size of the region in bytes."""
        return self._end - self._begin

    def initial_map_offset(self) -> int:
        """The offset of the region in the file."""
        return self._begin

    def file_size(self) -> int:
        """The present size of the file in bytes; 0 after `close`."""
        return 0 if self.closed() else os.lseek(self._file.fileno(), 0, os.SEEK_END)  # also of a block device

    def read(self, buf: Any, size: int | None = None, offset: int = 0) -> int:
        """Read `size` bytes (default: to the end of the region) at `offset` of the file, and return their number.

        Raises `IndexError` if they are not all within the region, `ValueError` if they are more than the buffer has,
        `ShortReadError` if the file has become shorter, `ClosedFileError` after `close`.
        """
        return self._file.read(buf, self._checked_size(size, offset), offset, exact=True)

    def pread(self, buf: Any, size: int | None = None, offset: int = 0, task_size: int | None = None) -> IOFuture:
        """As `read`, but by the worker threads in parts of `task_size` bytes; returns a future.

        The future keeps the file and the buffer alive, also after `close`.
        """
        return self._file.pread(buf, self._checked_size(size, offset), offset, task_size, exact=True)

    def close(self) -> None:
        """Wait for reads that are under way, then close the file."""
        self._file.close()

    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._file.closed

    def _checked_size(self, size: int | None, offset: int) -> int:
        start = natural("offset", offset)
        wanted = max(self._end - start, 0) if size is None else natural("size", size)
        if start < self._begin or start + wanted > self._end:
            raise IndexError(
                f"cannot read {wanted} bytes at offset {start}: "
                f"the region is {self._begin} to {self._end} of {self._path()}"
            )
        return wanted

    def _path(self) -> str:
        return os.fsdecode(self._file.path)

    def __enter__(self) -> Mmap:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = " closed" if self.closed() else ""
        return f"<damacy.Mmap {self._path()!r}, bytes {self._begin} to {self._end}{closed}>"
