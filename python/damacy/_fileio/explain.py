"""Describes what file I/O found on this machine and which engines it chose for a file. Decides nothing."""

from __future__ import annotations

import os
from typing import Any

from damacy import _native, defaults


def of_process() -> dict[str, Any]:
    """The CUDA libraries that were looked for, the probe of io_uring, and the thread pool."""
    backend = _native.backend_info()
    return {
        "libcuda": {"usable": backend["cuda"], "reason": backend["cuda_reason"]},
        "libcufile": _native.cufile_probe(),
        "io_uring": _native.io_uring_probe(),
        "pool": {
            "workers": _native.io_counters()["workers"],
            "num_threads": defaults.get_num_threads(),
            "auto_threads": defaults.get("auto_threads"),
            "paused": defaults.threads_paused(),
        },
        "settings": _settings(),
    }


def of_file(file: Any) -> dict[str, Any]:
    """The result of `CuFile.explain`."""
    facts = file.facts()
    reasons = {}
    uring = _native.io_uring_probe()
    if not uring["usable"]:
        reasons["io_uring"] = uring["reason"]
    elif facts["engine"] == "pread":
        reasons["io_uring"] = "the engine is pread"
    if facts["why_not_cufile"]:
        reasons["cufile"] = facts["why_not_cufile"]
    if facts["why_not_direct"]:
        reasons["direct"] = facts["why_not_direct"]
    elif True not in (facts["direct_io_read"], facts["direct_io_write"]):
        reasons["direct"] = "direct I/O is disabled by the settings"
    if facts["direct_io_read"] is True and "io_uring" not in reasons:
        reasons["io_uring"] = "direct I/O is done by pread"
    host = "pread" if "io_uring" in reasons else "io_uring"
    if host == "io_uring":
        least = "64 KiB" if facts["engine"] == "io_uring" else "8 MiB"
        reasons["pread"] = f"io_uring is used for gathers and for reads above {least}; pread for all other reads"
    return {
        "path": os.fsdecode(file.path),
        "flags": file.open_flags(),
        "filesystem": facts["filesystem"],
        "dio_alignment": facts["dio_alignment"],
        "engine_host": host,
        "engine_device": "staging" if "cufile" in reasons else "cufile",
        "reasons": reasons,
        "settings": _settings()
        | {
            "compat_mode": defaults.CompatMode(facts["compat_mode"]).name,
            "engine": facts["engine"],
            "auto_direct_io_read": facts["direct_io_read"],
            "auto_direct_io_write": facts["direct_io_write"],
        },
        "counters": file.counters(),
    }


def _settings() -> dict[str, Any]:
    settings = {key: value for key, value in _native.io_settings().items() if key != "num_threads_set"}
    return settings | {"compat_mode": defaults.CompatMode(settings["compat_mode"]).name}
