"""Describes the machine of a result: commit, date, processor, versions. No user names and no paths."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_LIBRARIES = ("damacy", "tensorstore", "zarr", "numcodecs", "numpy", "torch")


def describe(commit: str = "") -> dict:
    return {
        "commit": commit or _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", "../src", "../python", ".")),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "kernel": platform.release(),
            "gpu": _run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
        },
        "versions": {"python": platform.python_version()} | _versions(),
        "load_before": load(),
    }


def load() -> list[float]:
    """The load averages, which show other users of the machine. Use rates by processor time on a machine with load."""
    return list(os.getloadavg())


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*arguments: str) -> str:
    return _run(["git", "-C", str(Path(__file__).parent), *arguments])


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
