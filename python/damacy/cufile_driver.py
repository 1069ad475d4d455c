"""The cuFile driver, with the names of KvikIO's `kvikio.cufile_driver`. Most of them have little to do here: the first
request on GPU memory that can use libcufile loads it and opens its driver.

>>> import damacy.cufile_driver
>>> with damacy.cufile_driver.set("poll_thresh_size", 8):
...     damacy.cufile_driver.get("poll_thresh_size")
8

To see whether a file uses cuFile, and why not, call `CuFile.explain()`.
"""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

import damacy.cufile  # noqa: F401  says where Python packages may have libcufile
from damacy import _native
from damacy._fileio.arguments import natural, values_to_set
from damacy._fileio.errors import make_file_error

_MODULE_VERSION = pathlib.Path("/sys/module/nvidia_fs/version")

# Sizes are in KiB. The values are those of cuFile without a configuration file.
_FIXED: dict[str, Any] = {"allow_compat_mode": True, "per_buffer_cache_size": 1024}
_kept: dict[str, Any] = {
    "poll_mode": False,
    "poll_thresh_size": 4,
    "max_device_cache_size": 128 << 10,
    "max_pinned_memory_size": 32 << 20,
}


def get(config_name: str) -> Any:
    """The value of a property. Raises `KeyError` for an unknown one.

    * `is_gds_available`: whether libcufile can be loaded and the kernel has the module nvidia-fs;
      `major_version`, `minor_version`: the version of that module, 0 without it.
    * `poll_mode`, `poll_thresh_size`, `max_device_cache_size`, `max_pinned_memory_size`: what `set` was given, else
      cuFile's default; `allow_compat_mode`, `per_buffer_cache_size`: cuFile's default. cuFile itself reads these from
      its configuration file (`CUFILE_ENV_PATH_JSON`).
    """
    if config_name == "is_gds_available":
        return bool(_native.cufile_probe()["usable"]) and _module_version() != (0, 0)
    if config_name in ("major_version", "minor_version"):
        return _module_version()[config_name == "minor_version"]
    return (_FIXED | _kept)[config_name]


def set(*config: Any) -> contextlib.AbstractContextManager[Any]:  # noqa: A001  KvikIO's name
    """`set({name: value, ...})` or `set(name, value)`: keeps values of properties for `get`.

    They have no effect: write them to cuFile's configuration file. As a context manager it restores, on exit, the
    values from before the call.

    Raises `KeyError` for an unknown or a read-only property, `ValueError` for other arguments.
    """
    checked = {name: _checked(name, value) for name, value in values_to_set(*config).items()}
    restoring = contextlib.ExitStack()
    restoring.callback(_kept.update, {name: _kept[name] for name in checked})
    _kept.update(checked)
    return restoring


def libcufile_version() -> tuple[int, int]:
    """Major and minor version of libcufile, which is loaded for it; (0, 0) without one, or before 1.8."""
    major, rest = divmod(int(_native.cufile_probe()["version"]), 1000)
    return major, rest // 10


def driver_open() -> None:
    """Loads libcufile. Its driver is opened by the first request that needs it, and stays open.

    Raises `CuFileLibraryError`, a `RuntimeError`, if libcufile cannot be loaded.
    """
    found = _native.cufile_probe()
    if not found["usable"]:
        raise make_file_error("cufile", f"cuFile error: cannot open the driver: {found['reason']}", {})


def driver_close() -> None:
    """Does nothing: requests of other threads may use the driver, which ends with the process.

    Raises `CuFileLibraryError`, a `RuntimeError`, if libcufile cannot be loaded.
    """
    driver_open()


def initialize() -> None:
    """As `driver_open`. Nothing needs to be closed at exit."""
    driver_open()


def _checked(name: str, value: Any) -> bool | int:
    if name in _FIXED or name in ("is_gds_available", "major_version", "minor_version"):
        raise KeyError(f"{name} is read-only")
    if name not in _kept:
        raise KeyError(name)
    if name == "poll_mode":
        return bool(value)
    return natural(name, value)


def _module_version() -> tuple[int, int]:
    try:
        major, minor, *_ = _MODULE_VERSION.read_text().strip().split(".")
    except OSError:
        return 0, 0
    return int(major), int(minor)
