"""Finds this process's rank and the number of ranks. Knows process groups of torch, if torch is imported, and the
variables of launchers; imports no framework."""

from __future__ import annotations

import functools
import os
import sys

from damacy._core.log import logger


def rank_and_ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks.

    Uses the first of: the default process group of `torch.distributed`; `RANK` and `WORLD_SIZE`, as set by `torchrun`;
    Open MPI (`OMPI_COMM_WORLD_RANK`, `_SIZE`); MPICH, Intel MPI and others (`PMI_RANK`, `PMI_SIZE`); a Slurm step of
    several tasks (`SLURM_PROCID`, `SLURM_STEP_NUM_TASKS`, else `SLURM_NTASKS`). Without any of these, returns (0, 1).
    Logs once which of them it used, at level INFO.

    Raises `RuntimeError` if `WORLD_SIZE` is above 1, `RANK` is not set, and there is no process group: this is the case
    while a launcher starts, and every process would act as rank 0. Raises `ValueError` for variables that are not
    ranks.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return _logged(distributed.get_rank(), distributed.get_world_size(), "the process group of torch")
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:
        return _from_environment("RANK", "WORLD_SIZE")
    if (world := _number("WORLD_SIZE")) > 1:
        raise RuntimeError(
            f"WORLD_SIZE is {world} and RANK is not set: a launcher has not finished; make loaders where the process "
            "group exists (Lightning: give DataModule samplers), or pass rank= and ranks="
        )
    # An mpirun inside a Slurm job starts its processes from daemons, which are the tasks of a Slurm step: the processes
    # inherit the daemon's SLURM_PROCID. So MPI is asked before Slurm.
    for mpi in ("OMPI_COMM_WORLD", "PMI"):
        if f"{mpi}_RANK" in os.environ and f"{mpi}_SIZE" in os.environ:
            return _from_environment(f"{mpi}_RANK", f"{mpi}_SIZE")
    # A shell inside an allocation has the job's SLURM_NTASKS. Only a step has started its tasks, and the step of an
    # interactive shell has a single one.
    tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in os.environ else "SLURM_NTASKS"
    if "SLURM_STEP_ID" in os.environ and "SLURM_PROCID" in os.environ and _number(tasks) > 1:
        return _from_environment("SLURM_PROCID", tasks)
    return 0, 1


def _from_environment(rank_name: str, ranks_name: str) -> tuple[int, int]:
    rank, ranks = _number(rank_name), _number(ranks_name)
    if not 0 <= rank < ranks:
        raise ValueError(f"{rank_name} must be >= 0 and below {ranks_name} (got {rank} of {ranks})")
    return _logged(rank, ranks, f"{rank_name} and {ranks_name}")


@functools.cache
def _logged(rank: int, ranks: int, source: str) -> tuple[int, int]:
    """The rank and the number of ranks; the first time with a log record."""
    logger().info("rank %d of %d, from %s", rank, ranks, source)
    return rank, ranks


def _number(name: str) -> int:
    """The variable as an integer; 0 if it is not set."""
    text = os.environ.get(name, "0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be an integer (got {text!r})") from None
