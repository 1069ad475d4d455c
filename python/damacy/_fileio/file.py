"""The file class `CuFile`: checks arguments, and adds methods to the native class."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable
from typing import Any

from damacy import _native
from damacy._core.errors import InvalidArgument
from damacy._fileio.compat_mode import CompatMode
from damacy._fileio.future import IOFuture, IOFutureStream


class CuFile(_native.CuFile):
    """A file opened for positional reads and writes of host and device memory.

    `file` is a path, an integer descriptor or an object with `fileno()`; descriptors are duplicated. `flags` is one of
    r, w, a, x, with b and + as in `open`. A file opened with a is written at `append_base + file_offset`.

    `compat_mode`, `engine` and `direct_io` override `damacy.defaults` for this file.

    Raises `FileOpenError`, `ValueError` for invalid flags, `InvalidArgument` for `s3://` and other schemes.
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
            raise TypeError(f"flags: expected a str (got {type(flags).__name__})")
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
        """Starts to read `size` bytes (default: the buffer's size) at `file_offset`, and returns a future.

        The read stops at the end of the file; with `exact`, it then raises `ShortReadError`. Requests above `task_size`
        bytes are split into parts for the worker threads. `buf` is one buffer, or a list of buffers to fill in order.
        """
        return self.begin_read(buf, size, file_offset, task_size, stream, exact)

    def pwrite(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
    ) -> IOFuture:
        """Starts to write `size` bytes (default: the buffer's size) at `file_offset`, and returns a future."""
        return self.begin_write(buf, size, file_offset, task_size, stream)

    def read_exact(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
    ) -> int:
        """Like `read`, but raises `ShortReadError` if the file ends before `size` bytes."""
        return self.read(buf, size, file_offset, task_size, stream=stream, exact=True)

    def preadv(
        self, requests: Iterable[tuple[Any, int | None, int]], *, exact: bool = False, stream: Any = None
    ) -> IOFuture:
        """Starts to read many ranges, each `(buf, size or None, file_offset)`. The result is the total of bytes.

        Ranges at most `coalesce_gap` bytes apart may share a system call. If a range fails, the whole request fails;
        the error's `range_index` is the index of that range.
        """
        return self.begin_readv(requests, bool(exact), stream)

    def pwritev(self, requests: Iterable[tuple[Any, int | None, int]], *, stream: Any = None) -> IOFuture:
        """Starts to write many ranges. Raises `ValueError` if ranges overlap in the file."""
        return self.begin_writev(requests, stream)

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
        """Starts to read many ranges into one buffer. Sizes and offsets, in bytes, are arrays of int64.

        `buf_offsets` defaults to the running sum of `sizes`. No Python object is created per range.
        """
        return self.begin_packed(True, buf, sizes, file_offsets, buf_offsets, bool(exact), stream)

    def pwritev_packed(
        self, buf: Any, sizes: Any, file_offsets: Any, buf_offsets: Any = None, *, stream: Any = None
    ) -> IOFuture:
        """Starts to write many ranges from one buffer; arguments as for `preadv_packed`."""
        return self.begin_packed(False, buf, sizes, file_offsets, buf_offsets, False, stream)

    def raw_read(
        self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0, *, exact: bool = False
    ) -> int:
        """Reads into device memory on the caller's thread, by one request without worker threads."""
        return self.raw(True, buf, size, file_offset, dev_offset, bool(exact))

    def raw_write(self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Writes from device memory on the caller's thread, by one request without worker threads."""
        return self.raw(False, buf, size, file_offset, dev_offset, False)

    def raw_read_async(
        self, buf: Any, stream: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0
    ) -> IOFutureStream:
        """Enqueues a read into device memory on a stream. Calls on one stream take effect in order."""
        return IOFutureStream(self.begin_raw(True, buf, stream, size, file_offset, dev_offset))

    def raw_write_async(
        self, buf: Any, stream: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0
    ) -> IOFutureStream:
        """Enqueues a write from device memory on a stream. Calls on one stream take effect in order."""
        return IOFutureStream(self.begin_raw(False, buf, stream, size, file_offset, dev_offset))

    def explain(self) -> dict[str, Any]:
        """Properties of this file and its engines. Keys: path, flags, filesystem, dio_alignment, engine_host,
        engine_device, reasons, settings, counters. `reasons` maps each engine that is not used to the reason."""
        from damacy._fileio.explain import of_file

        return of_file(self)

    def __enter__(self) -> CuFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<damacy.CuFile {os.fsdecode(self.path)!r}{' closed' if self.closed else ''}>"


def _named_file(file: Any) -> bytes | int:
    """A path as bytes, or the caller's descriptor."""
    if isinstance(file, (str, bytes, os.PathLike)):
        name = os.fsencode(file)
        if b"\0" in name:
            raise ValueError(f"file: a path cannot contain NUL (got {name!r})")
        _refuse_scheme(os.fsdecode(name))
        return name
    if hasattr(file, "fileno"):
        file = file.fileno()
    try:
        return operator.index(file)
    except TypeError:
        raise TypeError(f"file: expected a path, a descriptor or a file object (got {type(file).__name__})") from None


def _refuse_scheme(name: str) -> None:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", name)
    if scheme is None:
        return
    kind = scheme[1].lower()
    if kind == "file":
        advice = "pass the path without file://"
    else:
        advice = "read it with damacy.RemoteFile.open_url(), or an array with damacy.open()"
        if kind not in ("http", "https", "s3", "gs"):
            advice += f", after damacy.mount() of a store for {kind}"
    raise InvalidArgument(
        f"CuFile opens only local files, not URIs of the scheme {kind}: {advice}", uri=name, reason="uri"
    )


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
