"""Log records of the native library: its own sink on stderr, and the Python logger `damacy`.

Native threads put records into a bounded queue and never wait for Python. Every public call passes the queued records
to the logger before it returns. Knows the level numbers of both; holds no state."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from damacy._core.integers import as_int, shown

LOG_TRACE = 0
LOG_DEBUG = 1
LOG_INFO = 2
LOG_WARN = 3
LOG_ERROR = 4
LOG_FATAL = 5

_PYTHON_LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)

_logger = logging.getLogger("damacy")
_logger.addHandler(logging.NullHandler())


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


def drain() -> None:
    """Pass the native records that are queued so far to the Python logger."""
    try:
        from damacy import _native
    except ImportError:  # the interpreter is shutting down and has unloaded modules
        return
    for level, text in _native.drain_log_records():
        _logger.log(_PYTHON_LEVELS[level], "%s", text)


@contextlib.contextmanager
def drained() -> Iterator[None]:
    """Calls `drain` at the end of the block, also after an exception."""
    try:
        yield
    finally:
        drain()
