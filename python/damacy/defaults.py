"""The settings of file I/O: the default values for new files and requests.

>>> import damacy.defaults
>>> with damacy.defaults.set({"task_size": 1 << 20}):
...     damacy.defaults.task_size()
1048576
>>> damacy.defaults.get("task_size")
4194304

They hold for the whole process. Precedence: keyword of a call, keyword of the file, value set here, environment
(`DAMACY_X`, else `KVIKIO_X`, read once), built-in default. Names and meanings are those of KvikIO. Additional keys:
engine, auto_threads, queue_depth, pinned_limit, coalesce_gap.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from damacy._fileio.arguments import natural, values_to_set
from damacy._fileio.compat_mode import CompatMode as CompatMode

_changing = threading.Lock()


def _native() -> Any:
    from damacy import _native

    return _native


# -- what is valid -----------------------------------------------------------------------------------------------------


def _integer(key: str, value: Any) -> int:
    try:
        number = natural(key, value)
    except TypeError:
        raise TypeError(f"{key}: expected an integer (got {type(value).__name__})") from None
    if number >= 1 << 63:
        raise OverflowError(f"{key}: {number} is above 2^63 - 1")
    return number


def _positive(key: str, value: Any) -> int:
    number = _integer(key, value)
    if number == 0:
        raise ValueError(f"{key}: expected a positive integer (got 0)")
    return number


def _compat_mode(key: str, value: Any) -> CompatMode:
    return CompatMode.coerce(value)


def _direct(key: str, value: Any) -> bool | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() == "auto":
        return "auto"
    raise ValueError(f"{key}: expected True, False or 'auto' (got {value!r})")


def _codes(key: str, value: Any) -> list[int]:
    if not isinstance(value, list) or not all(isinstance(code, int) for code in value):
        raise TypeError(f"{key}: expected a list of int (got {value!r})")
    return list(value)


def _engine(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key}: expected text (got {type(value).__name__})")
    if value not in ("auto", "pread", "io_uring"):
        raise ValueError(f"{key}: expected auto, pread or io_uring (got {value!r})")
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "compat_mode": _compat_mode,
    "num_threads": _positive,
    "task_size": _positive,
    "gds_threshold": _integer,
    "bounce_buffer_size": _positive,
    "auto_direct_io_read": _direct,
    "auto_direct_io_write": _direct,
    "http_max_attempts": _positive,
    "http_timeout": _positive,
    "http_status_codes": _codes,
    "engine": _engine,
    "auto_threads": _positive,
    "queue_depth": _positive,
    "pinned_limit": _positive,
    "coalesce_gap": _integer,
}


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    for key in values:
        if key not in _CHECKS:
            raise KeyError(key)
    return {key: _CHECKS[key](key, value) for key, value in values.items()}


# -- the values --------------------------------------------------------------------------------------------------------


def get(config_name: str) -> Any:
    """The current value of a setting. Raises `KeyError` for an unknown key."""
    if config_name not in _CHECKS:
        raise KeyError(config_name)
    value = _native().io_settings()[config_name]
    return CompatMode(value) if config_name == "compat_mode" else value


class _Restoring:
    """A context manager that restores previous values on exit."""

    def __init__(self, before: dict[str, Any]) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _apply(self._before)


def _apply(values: dict[str, Any]) -> dict[str, Any]:
    """Applies values to the process; returns the previous ones."""
    with _changing:
        native = _native()
        now = native.io_settings()
        before = {key: now[key] for key in values}
        if "num_threads" in values:
            before["num_threads_set"] = now["num_threads_set"]
        native.io_change_settings(values)
    if before.get("num_threads", values.get("num_threads")) != values.get("num_threads"):
        native.io_replace_workers()
    return before


def set(*config: Any) -> _Restoring:  # noqa: A001  KvikIO's name
    """`set({key: value, ...})` or `set(key, value)`: checks all values, then applies all.

    As a context manager it restores, on exit, the values from before the call.

    Raises `KeyError` for an unknown key, `ValueError` or `OverflowError` for a value out of range, `TypeError` for a
    value of another type. Nothing is changed then.
    """
    return _Restoring(_apply(_checked(values_to_set(*config))))


class _SettingAtEntry:
    """Sets a value at entry and restores the previous one at exit."""

    def __init__(self, key: str, value: Any) -> None:
        self._values = _checked({key: value})
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append(_apply(self._values))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _apply(self._before.pop())


# -- KvikIO's functions, one of each kind for each key -----------------------------------------------------------------


def compat_mode() -> bool:
    """True if only POSIX calls are used. For AUTO it returns `is_compat_mode_preferred()`."""
    mode = get("compat_mode")
    return is_compat_mode_preferred() if mode == CompatMode.AUTO else mode == CompatMode.ON


@functools.cache
def is_compat_mode_preferred() -> bool:
    """Whether cuFile cannot be used here: no libcufile, WSL, or no readable `/run/udev`. Probed once."""
    native = _native()
    native.cufile_look_in([path for path in sys.path if path.endswith(("site-packages", "dist-packages"))])
    return bool(native.cufile_preference()[0])


def compat_mode_reset(compatmode: bool | CompatMode | str | int) -> None:
    """Sets the mode; True is ON, False is OFF."""
    set("compat_mode", compatmode)


def get_num_threads() -> int:
    """The size of the default pool: 1 unless set."""
    return int(get("num_threads"))


num_threads = get_num_threads


def reset_num_threads(nthreads: int) -> None:
    """Waits for running parts and replaces the workers. Queued parts run on the new ones."""
    values = _checked({"num_threads": nthreads})
    with _changing:
        _native().io_change_settings(values)
    _native().io_replace_workers()


num_threads_reset = reset_num_threads


def reset_task_size(nbytes: int) -> None:
    """Sets the size of the parts into which requests are split, in bytes."""
    set("task_size", nbytes)


def pause_threads(paused: bool = True) -> None:
    """Paused workers start no part; threads that wait for a future still help."""
    _native().io_pause(bool(paused))


def threads_paused() -> bool:
    """Whether the workers are paused."""
    return bool(_native().io_paused())


_OWN_KEYS = ("engine", "auto_threads", "queue_depth", "pinned_limit", "coalesce_gap")


def _define(name: str, function: Callable[..., Any], text: str) -> None:
    if name in globals():
        return
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = text
    globals()[name] = function


# KvikIO's names of the argument; that of others is `nbytes`.
_ARGUMENTS = {
    "compat_mode": "compatmode",
    "num_threads": "nthreads",
    "auto_direct_io_read": "enable",
    "auto_direct_io_write": "enable",
    "http_max_attempts": "attempts",
    "http_timeout": "timeout",
    "http_status_codes": "status_codes",
}


def _of_argument(name: str, function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function with another name of its argument."""
    signature = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)])

    def named(*given: Any, **keywords: Any) -> Any:
        return function(*signature.bind(*given, **keywords).args)

    named.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    return named


def _define_for(key: str) -> None:
    argument = _ARGUMENTS.get(key, "nbytes")
    reset = _of_argument(argument, lambda value: set(key, value))
    setting = _of_argument(argument, lambda value: _SettingAtEntry(key, value))
    _define(key, lambda: get(key), f"The current value of {key}.")
    _define(f"{key}_reset", reset, f"Sets {key}.")
    _define(f"set_{key}", setting, f"A context manager that sets {key} at entry and restores it at exit.")


for _key in _CHECKS:
    if _key not in _OWN_KEYS:
        _define_for(_key)
del _key


def __dir__() -> list[str]:
    return sorted(builtins.set(globals()))
