"""The resources of this machine that the process may use: cores, memory of the host and of a GPU, and the number of
ranks that share them.

Knows affinity masks, cgroups of both versions, resource limits, launchers' variables and NVML. Starts no thread and
creates no CUDA context. Does not know what a pipeline needs."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
import resource
from collections.abc import Iterator, Mapping
from typing import Any

_ROOT = pathlib.Path("/")


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The share of one process. `gpu`: whether batches would be on a GPU; its memory is None if unknown.

    `why_cores` and `why_memory` name what limits them.
    """

    cores: int
    why_cores: str
    host_bytes: int
    why_memory: str
    ranks: int = 1
    gpu: bool = False
    gpu_bytes: int | None = None


def this_machine(device: int | str | None = None, root: pathlib.Path = _ROOT) -> Machine:
    """The current resources, for a process whose batches are on `device` (a value that `Config` stores)."""
    ranks = ranks_here(os.environ)
    cores, why_cores = usable_cores(root, os.environ)
    host_bytes, why_memory = free_host_bytes(root, ranks)
    gpu = _has_gpu(device)
    gpu_bytes = free_gpu_bytes(device, os.environ) if gpu else None
    return Machine(cores, why_cores, host_bytes, why_memory, ranks, gpu, gpu_bytes)


# -- ranks and cores ---------------------------------------------------------------------------------------------------


def ranks_here(environ: Mapping[str, str]) -> int:
    """The number of processes of this run on the host: `LOCAL_WORLD_SIZE`, else a Slurm step's tasks per node, else 1.

    >>> ranks_here({"SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "2(x3),1"})
    2
    """
    if number := _positive(environ.get("LOCAL_WORLD_SIZE")):
        return number
    if "SLURM_STEP_ID" not in environ:  # a shell inside an allocation is one process, for any size of the allocation
        return 1
    named = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_NTASKS_PER_NODE") or ""
    first = re.match(r"[0-9]+", named)
    return max(1, int(first[0])) if first else 1


def usable_cores(root: pathlib.Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """The cores of one rank: the affinity mask, at most the cgroup's quota, divided by the ranks; at least 1.

    A Slurm step that binds tasks to cores gives each task a mask of its own, which is not divided.
    """
    mask = len(os.sched_getaffinity(0))
    ranks = ranks_here(environ)
    own_mask = environ.get("SLURM_CPU_BIND_TYPE", "").startswith(("mask_cpu", "map_cpu", "rank"))
    cores, why = mask, f"{mask} cores in the affinity mask"
    if not own_mask:
        cores //= ranks
    quota = _cpu_quota(root)
    if quota is not None and quota / ranks < cores:
        cores, why = int(quota / ranks), f"a cgroup's quota of {quota:g} cores"
    if ranks > 1:
        why += ", the mask of one rank" if own_mask and cores == mask else f", shared by {ranks} ranks"
    return max(1, cores), why


def _cpu_quota(root: pathlib.Path) -> float | None:
    """The quota in cores; None without one."""
    quotas = []
    for folder in _cgroups(root, "cpu"):
        words = _words(folder / "cpu.max")  # version 2: "400000 100000" or "max 100000"
        words = words or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        if len(words) == 2 and (quota := _positive(words[0])) and (period := _positive(words[1])):
            quotas.append(quota / period)
    return min(quotas, default=None)


# -- memory of the host ------------------------------------------------------------------------------------------------


def free_host_bytes(root: pathlib.Path, ranks: int) -> tuple[int, str]:
    """Free bytes for one rank: its share of the host's and its cgroups' memory, and the rest of its address space."""
    found = [(free // ranks, why) for free, why in _shared_memory(root)]
    found += _address_space(root)
    return min(found, default=(0, "unknown"))


def _shared_memory(root: pathlib.Path) -> Iterator[tuple[int, str]]:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024, "free on the host"
    for folder in _cgroups(root, "memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            most = _positive(_text(folder / limit).strip())
            if most and most < 1 << 60:  # version 1 writes a huge number for no limit
                taken = _positive(_text(folder / used).strip()) or 0
                yield max(0, most - max(0, taken - _file_pages(folder))), "free in the cgroup"


def _file_pages(folder: pathlib.Path) -> int:
    """Bytes of the page cache, which can be freed."""
    total = 0
    for line in _text(folder / "memory.stat").splitlines():
        name, _, number = line.partition(" ")
        if name in ("inactive_file", "active_file"):
            total += int(number)
    return total


def _address_space(root: pathlib.Path) -> list[tuple[int, str]]:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return []
    pages = _words(root / "proc/self/statm")
    taken = int(pages[0]) * resource.getpagesize() if pages else 0
    return [(max(0, limit - taken), "left of the address-space limit (ulimit -v)")]


# -- cgroups -----------------------------------------------------------------------------------------------------------


def _cgroups(root: pathlib.Path, controller: str) -> Iterator[pathlib.Path]:
    """Folders of the process's cgroups with that controller, and of all their parents."""
    mounts = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0":
            top = mounts
        elif controller in names.split(","):
            top = mounts / names if (mounts / names).is_dir() else mounts / controller
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):  # the path is that of the host; inside a container only its top exists
            yield top.joinpath(*parts[:depth])


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _words(path: pathlib.Path) -> list[str]:
    return _text(path).split()


def _positive(text: str | None) -> int | None:
    number = int(text) if text and re.fullmatch(r"[0-9]{1,19}", text.strip()) else 0
    return number or None


# -- GPUs --------------------------------------------------------------------------------------------------------------


def _has_gpu(device: int | str | None) -> bool:
    if device == "cpu":
        return False
    try:
        from damacy import _native
    except ImportError:
        return False
    return bool(_native.backend_info()["cuda"])


def free_gpu_bytes(device: int | str | None, environ: Mapping[str, str]) -> int | None:
    """Free bytes according to NVML, which needs no context; None if unknown. No number: the first visible GPU."""
    import ctypes

    library = _nvml()
    if library is None:
        return None
    ordinal = device if isinstance(device, int) else 0
    handle = ctypes.c_void_p()
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    name = str(ordinal) if visible is None else ([*visible.split(","), *[""] * (ordinal + 1)])[ordinal].strip()
    if name.isdigit():
        failed = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(handle))
    else:
        failed = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    memory = (ctypes.c_ulonglong * 3)()  # total, free, used
    if failed or library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
        return None
    return int(memory[1])


@functools.cache
def _nvml() -> Any:
    """A `ctypes.CDLL` that is kept until the process ends; None if NVML is not installed."""
    import ctypes

    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        return None if library.nvmlInit_v2() else library
    except (OSError, AttributeError):
        return None
