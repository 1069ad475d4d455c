"""The transport of NCCL, which the native library loads at run time. Knows ways to send rank 0's id to all ranks, and
where the package of NCCL has its library; not the contents of messages."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from damacy import _native
from damacy.halo._errors import InvalidArgument


def _library() -> str:
    """The file of the package nvidia-nccl-cu12 or nvidia-nccl-cu13; "" if there is none, or DAMACY_LIBNCCL is set."""
    if os.environ.get("DAMACY_LIBNCCL"):
        return ""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return ""
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        file = os.path.join(folder, "lib", "libnccl.so.2")
        if os.path.exists(file):
            return file
    return ""


def _ranks_of(group: Any) -> tuple[int, int, Callable[[bytes], bytes]]:
    """This rank, the number of ranks, and a function that returns the bytes of rank 0."""
    if isinstance(group, tuple):
        rank, ranks, broadcast = group
        return rank, ranks, broadcast
    if hasattr(group, "Get_rank") and hasattr(group, "bcast"):
        return group.Get_rank(), group.Get_size(), lambda own: group.bcast(own, root=0)
    try:
        import torch.distributed as dist

        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    except (ImportError, TypeError, ValueError):
        raise InvalidArgument(
            f"group {group!r}: expected a communicator of mpi4py, a process group of torch.distributed, or a tuple "
            "(rank, ranks, broadcast)"
        ) from None

    def broadcast_over_torch(own: bytes) -> bytes:
        sent = [own]
        dist.broadcast_object_list(sent, src=dist.get_global_rank(group, 0), group=group)
        return sent[0]

    return rank, ranks, broadcast_over_torch


class NCCL:
    """A transport over a communicator of NCCL of its own. NCCL is loaded at run time: DAMACY_LIBNCCL, the package of
    pip, or libnccl.so.2. Messages go from device memory to device memory, in the order of the stream that the exchange
    is started on. The host does not wait, and exchanges can be captured in a CUDA graph after one exchange.

    `group`: a communicator of mpi4py, a process group of torch.distributed, or a tuple (rank, ranks, broadcast):
    `broadcast` is called once on every rank with bytes, and returns the bytes of rank 0. It only sets up the
    communicator. `device`: the CUDA device of this rank's arrays, by default the current one. The constructor waits
    for all ranks. All ranks must start their exchanges in the same order, also those of different exchangers; with
    sequential corners, the order of all starts and finishes must be the same.

    Raises NotImplementedError if NCCL cannot be loaded, and RuntimeError with the call, NCCL's text and the rank if
    NCCL fails, or if another rank does not construct its transport, or a peer its exchanger, within `timeout_s`
    seconds. The transport is of no use after a timeout, and NCCL may keep a thread of this rank."""

    def __init__(
        self, group: Any, *, device: int | None = None, library: str | None = None, timeout_s: float = 300.0
    ) -> None:
        rank, ranks, broadcast = _ranks_of(group)
        self._device = _native.current_cuda_device() if device is None else device
        if device is None and self._device < 0:
            raise InvalidArgument("no CUDA device is current: pass device=")
        self._native = _native.NcclTransport(
            self._device, rank, ranks, broadcast, _library() if library is None else library, timeout_s
        )

    def open(self, rank: int, rounds: _native.ExchangeRounds) -> _native.MessageChannels:
        own = None if self._device < 0 else self._device
        if rounds.device != own:
            raise InvalidArgument(f"expected arrays on device {own} (got device {rounds.device}; None: the host)")
        return self._native.open(rank, rounds)

    def close(self) -> None:
        """Releases the communicator, when its exchangers are closed too. May wait for other ranks of this machine."""
        self._native.close()


__all__ = ["NCCL"]
