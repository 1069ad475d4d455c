"""Finds this process's rank and the number of ranks. Knows process groups of torch, if torch is imported, and the
variables of launchers; imports no framework."""

from __future__ import annotations

import os
import sys


def rank_and_ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks.

    Uses the first of: the default process group of `torch.distributed`; `RANK` and `WORLD_SIZE`, as set by `torchrun`;
    a Slurm step of several tasks (`SLURM_PROCID`, `SLURM_NTASKS`); Open MPI (`OMPI_COMM_WORLD_RANK`, `_SIZE`). Without
    any of these, returns (0, 1).

    Raises `RuntimeError` if `WORLD_SIZE` is above 1, `RANK` is not set, and there is no process group: this is the case
    while a launcher starts, and every process would act as rank 0. Raises `ValueError` for variables that are not
    ranks.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:
        return _from_environment("RANK", "WORLD_SIZE")
    if (world := _number("WORLD_SIZE")) > 1:
        raise RuntimeError(
            f"WORLD_SIZE is {world} and RANK is not set: a launcher has not finished; make loaders where the process "
            "group exists (Lightning: give DataModule samplers), or pass rank= and ranks="
        )
    # SLURM_NTASKS is also set in a shell inside an allocation, but only a step has started its tasks.
    if "SLURM_STEP_ID" in os.environ and "SLURM_PROCID" in os.environ and _number("SLURM_NTASKS") > 1:
        return _from_environment("SLURM_PROCID", "SLURM_NTASKS")
    if "OMPI_COMM_WORLD_RANK" in os.environ and "OMPI_COMM_WORLD_SIZE" in os.environ:
        return _from_environment("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    return 0, 1


def _from_environment(rank_name: str, ranks_name: str) -> tuple[int, int]:
    rank, ranks = _number(rank_name), _number(ranks_name)
    if not 0 <= rank < ranks:
        raise ValueError(f"{rank_name} must be >= 0 and below {ranks_name} (got {rank} of {ranks})")
    return rank, ranks


def _number(name: str) -> int:
    """The variable as an integer; 0 if it is not set."""
    text = os.environ.get(name, "0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be an integer (got {text!r})") from None
