"""The exceptions of damacy: one class per kind of failure, each also an instance of the builtin that fits.

Knows the status codes, which are those of the native library, and their classes. Errors hold the place of the failure.
The native library makes the text for `str()`, so that C++ and Python users read the same."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

# Attributes of an error in addition to `status`; None where unknown, `()` for `lost`.
ATTRIBUTES = (
    "what",
    "array",
    "uri",
    "store",
    "key",
    "pointer",
    "chunk",
    "byte_range",
    "reason",
    "sample_index",
    "stream_index",
    "batch_id",
    "lost",
    "http_status",
    "request_id",
    "attempts",
)


class Status(enum.IntEnum):
    """The kind of failure of an error.

    >>> Status.DECODE, Status(9).name
    (<Status.DECODE: 7>, 'OOM')
    """

    OK = 0
    AGAIN = 1
    INVAL = 2
    NOTFOUND = 3
    DTYPE = 4
    RANK = 5
    IO = 6
    DECODE = 7
    CUDA = 8
    OOM = 9
    SHUTDOWN = 10


class DamacyError(RuntimeError):
    """Base of all errors that damacy raises by itself.

    >>> error = DecodeError("checksum", uri="a.zarr", chunk=[0, 5], reason="checksum")
    >>> error.status.name, error.chunk, error.batch_id, error.lost
    ('DECODE', (0, 5), None, ())
    """

    _own_status: ClassVar[Status | None] = None
    _more_attributes: ClassVar[tuple[str, ...]] = ()
    _key_is_shard: bool = False  # else `key` is a document, or a chunk by itself
    _is_from_worker: bool = False  # the message is the text of an error of another process, with its place

    status: Status | None  # None only for instances of this base class
    what: str | None  # stage: create push pop flush release closed forked
    array: str | None  # its name in the sample
    uri: str | None
    store: str | None
    key: str | None  # object below the store
    pointer: str | None  # JSON pointer into a metadata document
    chunk: tuple[int, ...] | None  # coordinates of the inner chunk
    byte_range: tuple[int, int] | None  # start and stop in the object
    reason: str | None  # short code
    sample_index: int | None  # position in the iterable given to push
    stream_index: int | None  # number among all accepted samples
    batch_id: int | None
    lost: tuple[int, ...]  # stream indices of the samples of a failed batch
    http_status: int | None  # of the last answer of a server
    request_id: str | None  # by which the server knows that request
    attempts: int | None  # of the request

    def __init__(self, message: str, **attributes: Any) -> None:
        super().__init__(message)
        self.status = self._own_status
        for name in ATTRIBUTES:
            setattr(self, name, () if name == "lost" else None)
        if (sent := _attributes_from_worker(message)) is not None:
            self._is_from_worker = True
            attributes = sent | attributes
        for name, value in attributes.items():
            if name not in ATTRIBUTES and name not in self._more_attributes and name not in ("status", "_key_is_shard"):
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
            setattr(self, name, _as_stored(name, value))
        if _is_in_worker():
            import json  # loads slowly

            known = {name: value for name in self._names() if (value := getattr(self, name, None)) not in (None, ())}
            self.add_note(f"{_NOTE}{json.dumps(known, default=str)}")

    @property
    def message(self) -> str:
        """What was found and what was expected, without the place."""
        return str(self.args[0])

    def _names(self) -> tuple[str, ...]:
        return (*ATTRIBUTES, *self._more_attributes)

    def __str__(self) -> str:
        if self._is_from_worker:
            return self.message
        from damacy import _native

        where = {name: value for name in ATTRIBUTES if (value := getattr(self, name)) not in (None, ())}
        where["_key_is_shard"] = self._key_is_shard
        return _native.describe_error(-1 if self.status is None else int(self.status), self.message, where)

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        for name in self._more_attributes:
            state[name] = getattr(self, name)
        return type(self), (self.args[0],), state


# A DataLoader of torch passes on the class and the text of what a worker raised. So in workers the text has a line with
# the attributes, which the error that is made of it takes back.
_NOTE = "attributes: "


def _is_in_worker() -> bool:
    worker_info = getattr(sys.modules.get("torch.utils.data"), "get_worker_info", None)
    return worker_info is not None and worker_info() is not None


def _attributes_from_worker(message: object) -> dict[str, Any] | None:
    """The attributes of a worker's error, if this message is the text of one; None for other messages."""
    if not isinstance(message, str) or not message.startswith("Caught ") or "\nOriginal Traceback" not in message:
        return None
    import json

    for line in reversed(message.splitlines()):
        if line.startswith(_NOTE):
            try:
                sent = json.loads(line.removeprefix(_NOTE))
            except ValueError:
                break
            return sent if isinstance(sent, dict) else {}
    return {}


def _as_stored(name: str, value: Any) -> Any:
    if value is None:
        return () if name == "lost" else None
    if name in ("chunk", "byte_range", "lost"):
        return tuple(value)
    return Status(value) if name == "status" else value


class TryAgain(DamacyError, BlockingIOError):
    """`pop` has no batch to return now. The message says what is missing."""

    _own_status = Status.AGAIN
    _more_attributes: ClassVar[tuple[str, ...]] = ("errno",)


class PopTimeout(TryAgain, TimeoutError):
    """No batch was ready within `Config.pop_timeout_s`. Nothing is lost: the next `pop` continues."""


class InvalidArgument(DamacyError, ValueError):
    """An argument, a box or a limit that is not valid."""

    _own_status = Status.INVAL


class NotFound(DamacyError, FileNotFoundError):
    """A store or an array that does not exist."""

    _own_status = Status.NOTFOUND
    _more_attributes: ClassVar[tuple[str, ...]] = ("errno",)


class DtypeMismatch(DamacyError, TypeError):
    """A source element type that has no conversion to `Config.dtype`."""

    _own_status = Status.DTYPE


class RankMismatch(DamacyError, ValueError):
    """A box whose number of axes differs from that of its array or of the batch."""

    _own_status = Status.RANK


class StorageError(DamacyError, OSError):
    """Bytes that could not be read: open, read, short, changed, deadline. `errno` if the system gave one."""

    _own_status = Status.IO
    _more_attributes: ClassVar[tuple[str, ...]] = ("errno",)


class DecodeError(DamacyError):
    """Metadata, index or chunk bytes that are not valid."""

    _own_status = Status.DECODE


class UnsupportedFormat(DecodeError):
    """Well-formed data in a format that is not implemented."""


class NativeCudaError(DamacyError):
    """A failure of CUDA; `sticky` if the context cannot be used any more."""

    _own_status = Status.CUDA
    _more_attributes: ClassVar[tuple[str, ...]] = ("sticky",)
    sticky: bool = False


class OutOfMemory(DamacyError, MemoryError):
    """A limit of `Config` was reached, or an allocation failed."""

    _own_status = Status.OOM


class ShutdownError(DamacyError):
    """The pipeline is closed, or belongs to the parent process."""

    _own_status = Status.SHUTDOWN


CLASS_BY_STATUS: dict[int, type[DamacyError]] = {
    Status.AGAIN: TryAgain,
    Status.INVAL: InvalidArgument,
    Status.NOTFOUND: NotFound,
    Status.DTYPE: DtypeMismatch,
    Status.RANK: RankMismatch,
    Status.IO: StorageError,
    Status.DECODE: DecodeError,
    Status.CUDA: NativeCudaError,
    Status.OOM: OutOfMemory,
    Status.SHUTDOWN: ShutdownError,
}
CLASS_BY_KIND: dict[str, type[DamacyError]] = {"unsupported_format": UnsupportedFormat, "pop_timeout": PopTimeout}
# Classes of other modules, which add them: the reason code of a native error selects the class.
CLASS_BY_REASON: dict[str, type[DamacyError]] = {}


def make_error(status: int, kind: str, message: str, attributes: Mapping[str, Any]) -> DamacyError:
    """Creates the exception for a native error. The native module calls this and raises the result."""
    by_reason = CLASS_BY_REASON.get(attributes.get("reason", ""))
    cls = by_reason or CLASS_BY_KIND.get(kind) or CLASS_BY_STATUS.get(status, DamacyError)
    # Only some classes have an errno attribute; for the others the message already says it.
    kept = (*ATTRIBUTES, *cls._more_attributes, "_key_is_shard")
    known = {k: v for k, v in attributes.items() if k in kept}
    return cls(message, **known)
