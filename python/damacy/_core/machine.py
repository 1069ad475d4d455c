"""The resources of this machine that the process may use: cores, memory of the host and of a GPU, and the number of
ranks that share them.

The native library reads them: affinity masks, cgroups of both versions, resource limits, launchers' variables and NVML.
It starts no thread and creates no CUDA context. Does not know what a pipeline needs."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """What one process may use; sizes in bytes, None where the system does not say.

    `cores` are the process's, `rank_cores` its share of them among the `ranks` on this host; `host_bytes` is the free
    memory of one rank. `why_cores` and `why_memory` name what limits these two. `addresses`: the limit of the address
    space and what of it is in use, None without a limit. `gpu`: whether batches would live on a GPU.
    """

    rank_cores: int
    why_cores: str
    host_bytes: int | None
    why_memory: str
    cores: int = 1
    ranks: int = 1
    physical_bytes: int = 0
    addresses: tuple[int, int] | None = None
    open_files: int = 1024
    gpu: bool = False
    gpu_bytes: int | None = None


def this_machine(device: int | str | None = None) -> Machine:
    """As it is now, for a process whose batches live on `device` (a value that `Config` stores)."""
    from damacy import _native

    return Machine(**_native.this_machine("" if device is None else str(device)))
