"""Log records of the native library: its own sink on stderr, and the Python logger `damacy`.

Native threads put records into a bounded queue and never wait for Python. Every public call passes the queued records
to the logger before it returns, if the program has loaded `logging`. Knows the level numbers of both."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

from damacy._core.integers import as_int, shown

LOG_TRACE = 0
LOG_DEBUG = 1
LOG_INFO = 2
LOG_WARN = 3
LOG_ERROR = 4
LOG_FATAL = 5

_PYTHON_LEVELS = (5, 10, 20, 30, 40, 50)  # those of `logging`, and one below them


@functools.cache
def logger() -> logging.Logger:
    """The logger `damacy`, with a handler that does nothing: without any, Python prints warnings on stderr."""
    import logging

    found = logging.getLogger("damacy")
    found.addHandler(logging.NullHandler())
    return found


def set_log_level(level: int) -> None:
    """Set the level of the native sink on stderr, `LOG_TRACE` to `LOG_FATAL` (default). Python's logger has its own."""
    number = as_int(level, "level")
    if not LOG_TRACE <= number <= LOG_FATAL:
        raise ValueError(f"level must be {LOG_TRACE} to {LOG_FATAL} (got {shown(number)})")
    from damacy import _native

    _native.set_log_level(number)


def set_log_quiet(quiet: bool) -> None:
    """Turn the native log sink on stderr off (True) or on again (False)."""
    from damacy import _native

    _native.set_log_quiet(bool(quiet))


def drain(*, warn: bool = True, raises: bool = True) -> None:
    """Pass the native records that are queued so far to the Python logger. With `warn`, also issue the queued warnings;
    without `raises`, a warning that a filter turns into an exception is dropped: its text is in the log.

    A program that has not loaded `logging` has no handlers: its records are dropped."""
    native = sys.modules.get("damacy._native")  # None before it is loaded and when the interpreter has unloaded it
    if native is None:
        return
    records = native.drain_log_records()
    if records and "logging" in sys.modules:  # otherwise there are no handlers
        for level, text in records:
            logger().log(_PYTHON_LEVELS[level], "%s", text)
    if not warn:
        return
    for text in native.take_packed_warnings():  # a plain program shows no records
        try:
            warnings.warn(text, UserWarning, stacklevel=4)  # the caller of a public function
        except UserWarning:
            if raises:
                raise


class _Drained:
    """Calls `drain` at the end of a `with` block. After an exception, which a warning must not replace, warnings wait
    for the next call."""

    __slots__ = ("_raises",)

    def __init__(self, raises: bool) -> None:
        self._raises = raises

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        drain(warn=kind is None, raises=self._raises)


drained = _Drained(raises=True)
drained_at_end = _Drained(raises=False)  # of functions that end something: they do not fail for a warning
