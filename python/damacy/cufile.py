"""Files that read into and write from host and GPU memory, from any thread, as a whole or in parts.

>>> import os, tempfile
>>> from damacy.cufile import CuFile
>>> path = os.path.join(tempfile.mkdtemp(), "numbers")
>>> with CuFile(path, "w") as f:
...     f.write(b"0123456789")
10
>>> buffer = bytearray(4)
>>> with CuFile(path) as f:
...     future = f.pread(buffer, file_offset=3)
...     future.get(), bytes(buffer)
(4, b'3456')

The names are those of KvikIO; programs for KvikIO run after changing the import. The settings are in `damacy.defaults`.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import sys
from collections.abc import Iterable
from typing import Any

from damacy import _native
from damacy._fileio.compat_mode import CompatMode as CompatMode
from damacy._fileio.errors import ClosedFileError as ClosedFileError
from damacy._fileio.errors import CudaError as CudaError
from damacy._fileio.errors import CuFileLibraryError as CuFileLibraryError
from damacy._fileio.errors import FileIOError as FileIOError
from damacy._fileio.errors import FileOpenError as FileOpenError
from damacy._fileio.errors import OpenModeError as OpenModeError
from damacy._fileio.errors import ShortReadError as ShortReadError
from damacy._fileio.file import CuFile as CuFile
from damacy._fileio.future import IOFuture as IOFuture
from damacy._fileio.future import IOFutureStream as IOFutureStream
from damacy._fileio.future import as_completed as as_completed
from damacy._fileio.future import wait as wait
from damacy._fileio.page_cache import clear_page_cache as clear_page_cache
from damacy._fileio.page_cache import drop_file_page_cache as drop_file_page_cache
from damacy._fileio.page_cache import drop_system_page_cache as drop_system_page_cache
from damacy._fileio.page_cache import get_page_cache_info as get_page_cache_info

CancelledError = concurrent.futures.CancelledError
for _public in (CuFile, IOFuture, IOFutureStream, as_completed, wait):
    _public.__module__ = __name__
for _of_pages in (clear_page_cache, drop_file_page_cache, drop_system_page_cache, get_page_cache_info):
    _of_pages.__module__ = __name__
atexit.register(_native.io_end_with_python)
_native.cufile_look_in([path for path in sys.path if path.endswith(("site-packages", "dist-packages"))])


def preadv_many(
    requests: Iterable[tuple[CuFile, Any, int | None, int]], *, exact: bool = False, stream: Any = None
) -> IOFuture:
    """Starts to read ranges of many files by one request, each `(file, buf, size or None, file_offset)`."""
    return _native.begin_many(requests, bool(exact), stream)


def counters() -> dict[str, Any]:
    """Exact counters of file I/O in this process: bytes and calls by engine and direction, parts, short reads, retries,
    resident and cold bytes, copies, host waits, workers, pinned bytes, and a log2 histogram of the microseconds that
    parts took."""
    return _native.io_counters()


def explain() -> dict[str, Any]:
    """File I/O of this process: the CUDA libraries that were looked for, the probe of io_uring, the worker threads."""
    from damacy._fileio.explain import of_process

    return of_process()


def bounce_buffer_free() -> int:
    """Frees the pinned staging blocks that are not in use. Returns the number of bytes."""
    return _native.free_staging()


def memory_register(buf: Any) -> None:
    """Registers the whole allocation of `buf` with cuFile; without cuFile, and for host memory, it does nothing.

    Raises `CuFileLibraryError` if cuFile refuses it."""
    _native.io_register_memory(buf, True)


def memory_deregister(buf: Any) -> None:
    """Undoes `memory_register`; without cuFile, and for host memory, it does nothing."""
    _native.io_register_memory(buf, False)
