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

The names are KvikIO's, and programs written for it run with the import changed. The settings are in
`damacy.defaults`.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import logging
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from damacy import _io_memory, _native
from damacy._compat_mode import CompatMode as CompatMode
from damacy._io_errors import (
    ClosedFileError as ClosedFileError,
)
from damacy._io_errors import (
    CudaError as CudaError,
)
from damacy._io_errors import (
    CuFileLibraryError as CuFileLibraryError,
)
from damacy._io_errors import (
    FileIOError as FileIOError,
)
from damacy._io_errors import (
    FileOpenError as FileOpenError,
)
from damacy._io_errors import (
    OpenModeError as OpenModeError,
)
from damacy._io_errors import (
    ShortReadError as ShortReadError,
)
from damacy._io_errors import (
    make_file_error,
)

CancelledError = concurrent.futures.CancelledError
atexit.register(_native.io_end_with_python)
_native.cufile_look_in([path for path in sys.path if path.endswith(("site-packages", "dist-packages"))])


class IOFuture:
    """One request under way. Made by `CuFile`, never by hand.

    It holds the file and the buffers until the last part has ended, whether or not anybody keeps the future.
    """

    __slots__ = ("__weakref__", "_handle")

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def done(self) -> bool:
        """True once all parts have ended, whatever the outcome."""
        return self._handle.done()

    def get(self, timeout: float | None = None) -> int:
        """The number of bytes moved, or the error. Without a timeout the caller first runs parts that are queued.

        Raises `TimeoutError` after `timeout` seconds; the operation goes on.
        """
        return self._handle.result(_seconds(timeout))

    result = get

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error, or None."""
        return self._handle.exception(_seconds(timeout))

    def cancel(self) -> bool:
        """Drops the parts that have not started. False if there were none, or an error came first."""
        return self._handle.cancel()

    def cancelled(self) -> bool:
        """Whether `cancel` dropped parts and the others have ended."""
        return self._handle.cancelled()

    def counts(self) -> list[int]:
        """Bytes moved of each range of a gather request; else one entry."""
        return self._handle.counts()

    def wait_stream(self, stream: Any) -> int:
        """Waits for the file part only, and makes `stream` wait for the copies; the number of bytes."""
        number = _io_memory.stream_number(stream)
        return self._handle.wait_stream(_io_memory.LEGACY_STREAM if number is None else number)

    def add_done_callback(self, fn: Callable[[IOFuture], Any]) -> None:
        """Calls `fn(self)` once: on the library's callback thread, or here and now if the operation has ended."""
        self._handle.when_done(lambda: _call_logged(fn, self))

    def __await__(self) -> Generator[Any, None, int]:
        import asyncio

        if not self.done():
            try:
                yield from self._wake_up().__await__()
            except asyncio.CancelledError:
                self.cancel()
                yield from self._end_whatever_happens()
                raise
        return self.get()

    def _wake_up(self) -> Any:
        """An asyncio future that is done when this is."""
        import asyncio

        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def tell(_: IOFuture) -> None:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits
                pass

        self.add_done_callback(tell)
        return waiter

    def _end_whatever_happens(self) -> Generator[Any, None, None]:
        import asyncio

        while not self.done():
            try:
                yield from self._wake_up().__await__()
            except asyncio.CancelledError:
                continue


def _call_logged(fn: Callable[[IOFuture], Any], future: IOFuture) -> None:
    try:
        fn(future)
    except Exception:
        logging.getLogger("damacy").exception("exception in a callback of %r", future)


def _seconds(timeout: Any) -> float | None:
    return None if timeout is None else float(timeout)


class IOFutureStream:
    """A request in the order of a stream. It owns file and buffer, and may be dropped."""

    __slots__ = ("__weakref__", "_handle")

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def check_bytes_done(self) -> int:
        """Waits for the request; the number of bytes moved, or its error."""
        return self._handle.result(None)


class CuFile(_native.CuFile):
    """A file opened for positional reads and writes of host and device memory.

    `file` is a path, an integer descriptor or an object with `fileno()`; descriptors are duplicated. `flags` is one of
    r w a x, with b and + as in `open`. Writes of an append file land at `append_base + file_offset`.

    `compat_mode`, `engine` and `direct_io` settle for this file what `damacy.defaults` settles for all.

    Raises `FileOpenError`, and `ValueError` for flags.
    """

    def __init__(
        self,
        file: Any,
        flags: str = "r",
        *,
        mode: int = 0o644,
        dir_fd: int | None = None,
        compat_mode: Any = None,
        engine: str | None = None,
        direct_io: bool | str | None = None,
    ) -> None:
        if not isinstance(flags, str):
            raise TypeError(f"flags: expected text (got {type(flags).__name__})")
        super().__init__(
            _named_file(file),
            flags,
            operator.index(mode),
            None if dir_fd is None else operator.index(dir_fd),
            None if compat_mode is None else int(CompatMode.coerce(compat_mode)),
            _engine(engine),
            _direct_io(direct_io),
        )

    def pread(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
        exact: bool = False,
    ) -> IOFuture:
        """Begins to read `size` bytes (the buffer's, if None) at `file_offset` and returns at once.

        The read stops at the end of the file; with `exact` that is `ShortReadError`. Requests above `task_size` bytes
        are cut into parts that workers share. `buf` is one buffer, or a list that the bytes fill in turn.
        """
        return IOFuture(self.begin_read(buf, size, file_offset, task_size, stream, exact))

    def pwrite(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
    ) -> IOFuture:
        """Begins to write `size` bytes (the buffer's, if None) at `file_offset` and returns at once."""
        return IOFuture(self.begin_write(buf, size, file_offset, task_size, stream))

    def read_exact(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
    ) -> int:
        """As `read`, and a file that ends before is `ShortReadError`."""
        return self.read(buf, size, file_offset, task_size, stream=stream, exact=True)

    def preadv(
        self, requests: Iterable[tuple[Any, int | None, int]], *, exact: bool = False, stream: Any = None
    ) -> IOFuture:
        """Begins to read many ranges, each `(buf, size or None, file_offset)`; the result is the total of bytes.

        Ranges at most `coalesce_gap` bytes apart may share a system call. A range that fails fails the whole; the
        error's `range_index` says which.
        """
        return IOFuture(self.begin_readv(requests, bool(exact), stream))

    def pwritev(self, requests: Iterable[tuple[Any, int | None, int]], *, stream: Any = None) -> IOFuture:
        """Begins to write many ranges. Ranges that overlap in the file are a `ValueError`."""
        return IOFuture(self.begin_writev(requests, stream))

    def preadv_packed(
        self,
        buf: Any,
        sizes: Any,
        file_offsets: Any,
        buf_offsets: Any = None,
        *,
        exact: bool = False,
        stream: Any = None,
    ) -> IOFuture:
        """Begins to read many ranges into one buffer; sizes and offsets are arrays of int64.

        `buf_offsets` defaults to the running sum of `sizes`. No Python object is touched for a range.
        """
        return IOFuture(self.begin_packed(True, buf, sizes, file_offsets, buf_offsets, bool(exact), stream))

    def pwritev_packed(
        self, buf: Any, sizes: Any, file_offsets: Any, buf_offsets: Any = None, *, stream: Any = None
    ) -> IOFuture:
        """Begins to write many ranges from one buffer; as `preadv_packed`."""
        return IOFuture(self.begin_packed(False, buf, sizes, file_offsets, buf_offsets, False, stream))

    def raw_read(
        self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0, *, exact: bool = False
    ) -> int:
        """Reads into device memory on the calling thread: no parts, no workers."""
        return self.raw(True, buf, size, file_offset, dev_offset, bool(exact))

    def raw_write(self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Writes from device memory on the calling thread: no parts, no workers."""
        return self.raw(False, buf, size, file_offset, dev_offset, False)

    def raw_read_async(
        self, buf: Any, raw_stream: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0
    ) -> IOFutureStream:
        """Enqueues a read into device memory on a stream. Calls on one stream take effect in order."""
        return IOFutureStream(self.begin_raw(True, buf, raw_stream, size, file_offset, dev_offset))

    def raw_write_async(
        self, buf: Any, raw_stream: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0
    ) -> IOFutureStream:
        """Enqueues a write from device memory on a stream. Calls on one stream take effect in order."""
        return IOFutureStream(self.begin_raw(False, buf, raw_stream, size, file_offset, dev_offset))

    def explain(self) -> dict[str, Any]:
        """What this file is and which engines serve it: path flags filesystem dio_alignment engine_host engine_device
        reasons settings counters. `reasons` maps each engine that was not chosen to why."""
        from damacy import _io_explain

        return _io_explain.of_file(self)

    def __enter__(self) -> CuFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<damacy.CuFile {os.fsdecode(self.path)!r}{' closed' if self.closed else ''}>"


def _named_file(file: Any) -> bytes | int:
    """A path as bytes, or a descriptor of the caller's."""
    if isinstance(file, (str, bytes, os.PathLike)):
        name = os.fsencode(file)
        if b"\0" in name:
            raise ValueError(f"a path holds no NUL (got {name!r})")
        return name
    if hasattr(file, "fileno"):
        file = file.fileno()
    try:
        return operator.index(file)
    except TypeError:
        raise TypeError(f"file: expected a path, a descriptor or a file object (got {type(file).__name__})") from None


def _engine(engine: str | None) -> str | None:
    if engine is None or engine in ("auto", "pread", "io_uring"):
        return engine
    raise ValueError(f"engine: expected auto, pread or io_uring (got {engine!r})")


def _direct_io(direct_io: bool | str | None) -> int | None:
    if direct_io is None:
        return None
    if direct_io == "auto":
        return 0
    if isinstance(direct_io, bool):
        return 2 if direct_io else 1
    raise ValueError(f"direct_io: expected True, False or 'auto' (got {direct_io!r})")


# -- many futures ------------------------------------------------------------------------------------------------------


class _Ended:
    """Collects futures as they end."""

    def __init__(self, futures: Iterable[IOFuture]) -> None:
        self.all = set(futures)
        self.ended: list[IOFuture] = []
        self._changed = threading.Condition()
        for future in self.all:
            future.add_done_callback(self._add)

    def _add(self, future: IOFuture) -> None:
        with self._changed:
            self.ended.append(future)
            self._changed.notify_all()

    def wait_until(self, enough: Callable[[], bool], deadline: float | None) -> bool:
        with self._changed:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            return self._changed.wait_for(enough, left)


def _failed(future: IOFuture) -> bool:
    return not future.cancelled() and future.exception() is not None


def wait(futures: Iterable[IOFuture], timeout: float | None = None, return_when: str = "ALL_COMPLETED") -> Any:
    """As `concurrent.futures.wait`: sets of futures that have ended and that have not."""
    conditions: dict[str, Callable[[_Ended], bool]] = {
        "ALL_COMPLETED": lambda e: len(e.ended) == len(e.all),
        "FIRST_COMPLETED": lambda e: bool(e.ended) or not e.all,
        "FIRST_EXCEPTION": lambda e: len(e.ended) == len(e.all) or any(map(_failed, e.ended)),
    }
    if return_when not in conditions:
        raise ValueError(f"return_when: expected one of {', '.join(conditions)} (got {return_when!r})")
    ends = _Ended(futures)
    deadline = None if timeout is None else time.monotonic() + timeout
    ends.wait_until(lambda: conditions[return_when](ends), deadline)
    done = {future for future in ends.all if future.done()}
    return concurrent.futures._base.DoneAndNotDoneFutures(done, ends.all - done)


def as_completed(futures: Iterable[IOFuture], timeout: float | None = None) -> Iterator[IOFuture]:
    """As `concurrent.futures.as_completed`: futures in the order in which they end."""
    ends = _Ended(futures)
    deadline = None if timeout is None else time.monotonic() + timeout
    for given in range(len(ends.all)):
        if not ends.wait_until(lambda so_far=given: len(ends.ended) > so_far, deadline):
            raise TimeoutError(f"{len(ends.all) - given} of {len(ends.all)} futures have not ended")
        yield ends.ended[given]


def preadv_many(
    requests: Iterable[tuple[CuFile, Any, int | None, int]], *, exact: bool = False, stream: Any = None
) -> IOFuture:
    """Begins to read ranges of many files in one submission, each `(file, buf, size or None, file_offset)`."""
    return IOFuture(_native.begin_many(requests, bool(exact), stream))


# -- the process -------------------------------------------------------------------------------------------------------


def counters() -> dict[str, Any]:
    """What file I/O did in this process, counted exactly: bytes and calls by way and direction, parts, short reads,
    retries, resident and cold bytes, copies, host waits, workers, pinned bytes, and a log2 histogram of how many
    microseconds parts took."""
    return _native.io_counters()


def explain() -> dict[str, Any]:
    """What this process has for file I/O: libraries tried, the probe of io_uring, the pool of workers."""
    from damacy import _io_explain

    return _io_explain.of_process()


def bounce_buffer_free() -> int:
    """Frees the pinned staging blocks that nobody uses; gives their bytes."""
    return _native.free_staging()


def memory_register(buf: Any) -> None:
    """Registers the whole allocation of `buf` with cuFile; without cuFile, and for host memory, it does nothing.

    `CuFileLibraryError` if cuFile refuses it."""
    _native.io_register_memory(buf, True)


def memory_deregister(buf: Any) -> None:
    """Takes back `memory_register`; without cuFile, and for host memory, it does nothing."""
    _native.io_register_memory(buf, False)


def _borrowed_descriptor(file: Any, flags: int) -> tuple[int, bool]:
    """A descriptor, and whether it is ours to close."""
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
    """Pages of `length` bytes from `offset` (0: to the end) that the page cache holds, and how many there are."""
    descriptor, is_ours = _borrowed_descriptor(file, os.O_RDONLY)
    try:
        return _native.cached_pages(descriptor, offset, length)
    finally:
        if is_ours:
            os.close(descriptor)


def drop_file_page_cache(file: Any, offset: int = 0, length: int = 0, sync_first: bool = True) -> None:
    """Makes the page cache forget a file, after writing it out with `sync_first`."""
    descriptor, is_ours = _borrowed_descriptor(file, os.O_RDONLY)
    try:
        _native.drop_cached_pages(descriptor, offset, length, bool(sync_first))
    finally:
        if is_ours:
            os.close(descriptor)
