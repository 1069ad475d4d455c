"""Transports for messages: within a process, by NCCL (`_nccl`), by MPI, by torch.distributed. Knows how each
library makes and starts requests; not the contents of messages. Tags, order and timeouts are the native library's."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from damacy import _native
from damacy.halo._errors import InvalidArgument
from damacy.halo._nccl import NCCL

_LOCAL_TIMEOUT_S = 60.0
# (peer, buffer, tag). Buffers are of host memory, or of a device's for a CUDA-aware MPI.
_Messages = Sequence[tuple[int, Any, int]]


def _check_rank(rank: int, own: int) -> None:
    if rank != own:
        raise InvalidArgument(f"expected a plan of rank {own} (got one of rank {rank})")


class Local:
    """A transport for `n` ranks in one process. The exchangers of all ranks open the same `Local`.

    One thread may start the exchanges of all ranks and then finish them. With a thread for each rank, `exchange` works
    too. Each rank may use its own CUDA stream, the current one or `stream=`. Events order messages between streams; the
    host does not wait.
    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise InvalidArgument(f"{n} ranks")
        self.size = n
        self._native = _native.LocalTransport(n, _LOCAL_TIMEOUT_S)

    @property
    def _mail(self) -> int:
        """Messages that were sent and not yet received."""
        return self._native.waiting

    def open(self, rank: int, rounds: _native.ExchangeRounds) -> _native.MessageChannels:
        return self._native.open(rank, rounds)


class _OwnComm:
    """A duplicate of a communicator. It is freed with the transport and the exchangers that use it, which every MPI
    allows one rank to do before the others. `keep` is set if messages may be left on it: they would reach a later
    communicator with the same context id."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI as mpi

        self.comm, self.keep = comm.Dup(), False
        self._is_finalized = mpi.Is_finalized

    def requests(self, send: _Messages, receive: _Messages) -> _MpiRequests:
        return _MpiRequests(self, send, receive)

    def leave_messages(self) -> None:
        self.keep = True

    def __del__(self) -> None:
        if hasattr(self, "comm") and not self.keep and not self._is_finalized():
            self.comm.Free()


class MPI:
    """A transport over a duplicate of an mpi4py communicator. With `cuda_aware=True`, MPI gets device memory; otherwise
    messages are copied through host memory.

    An exchanger whose peers do not construct theirs within `timeout_s` seconds, or construct one without links to this
    rank, raises RuntimeError."""

    def __init__(self, comm: Any, cuda_aware: bool | None = None, *, timeout_s: float = 300.0) -> None:
        self._own = _OwnComm(comm)
        self._cuda_aware = bool(cuda_aware)
        self._timeout_s = timeout_s
        self._tags = _native.mpi_tags()

    def open(self, rank: int, rounds: _native.ExchangeRounds) -> _native.MessageChannels:
        _check_rank(rank, self._own.comm.Get_rank())
        return _native.message_channels(self._own, rounds, rank, self._tags, self._timeout_s, self._cuda_aware)


class _MpiRequests:
    """Persistent requests."""

    def __init__(self, own: _OwnComm, send: _Messages, receive: _Messages) -> None:
        from mpi4py import MPI as mpi

        self._mpi, self._own, self._peers = mpi, own, [peer for peer, _, _ in receive]
        self._sends = [own.comm.Send_init([b, mpi.BYTE], dest=peer, tag=tag) for peer, b, tag in send]
        self._receives = [own.comm.Recv_init([b, mpi.BYTE], source=peer, tag=tag) for peer, b, tag in receive]

    def post(self) -> None:
        self._mpi.Prequest.Startall(self._receives)

    def send(self) -> None:
        self._mpi.Prequest.Startall(self._sends)

    def wait_received(self) -> None:
        self._mpi.Request.Waitall(self._receives)

    def wait_sent(self) -> None:
        self._mpi.Request.Waitall(self._sends)

    def missing(self) -> list[int]:
        return [peer for peer, request in zip(self._peers, self._receives) if not request.Test()]

    def cancel(self) -> bool:
        """Peers that wait for messages in flight on this communicator get none. False if MPI may still read some."""
        sends, receives = self._sends, self._receives
        self._sends, self._receives = [], []
        if self._mpi.Is_finalized():
            return not sends
        for request in receives:
            if not request.Test():
                self._own.keep = True
                request.Cancel()
                request.Wait()
        unused = all([request.Test() for request in sends])
        if not unused:
            self._own.keep = True
        for request in (*sends, *receives):
            request.Free()
        return unused


class TorchDistributed:
    """A transport over a process group of torch.distributed: gloo for host memory, nccl for CUDA. Plans use the ranks
    of the group. Over nccl, messages go by an `NCCL` with its rules: the first exchanger makes it, so that all ranks of
    the group must construct one.

    An exchanger whose peers do not construct theirs within `timeout_s` seconds, or construct one without links to this
    rank, raises RuntimeError. The group is of no use afterwards, because torch ends its connections."""

    def __init__(self, group: Any = None, *, timeout_s: float = 300.0) -> None:
        import torch.distributed as dist

        if group is None or group is dist.group.WORLD:
            warnings.warn(
                "halo exchanges share the default process group with all other collectives: "
                "pass TorchDistributed a group of its own",
                UserWarning,
                stacklevel=2,
            )
            group = dist.group.WORLD
        self._group = group
        self._timeout_s = timeout_s
        self._tags = _native.mpi_tags()
        self._nccl: NCCL | None = None

    def open(self, rank: int, rounds: _native.ExchangeRounds) -> _native.MessageChannels:
        import torch.distributed as dist

        _check_rank(rank, dist.get_rank(self._group))
        if dist.get_backend(self._group) == "nccl":
            if self._nccl is None:
                self._nccl = NCCL(self._group, device=rounds.device, timeout_s=self._timeout_s)
            return self._nccl.open(rank, rounds)
        return _native.message_channels(self, rounds, rank, self._tags, self._timeout_s)

    def requests(self, send: _Messages, receive: _Messages) -> _TorchRequests:
        return _TorchRequests(self._group, send, receive, self._timeout_s)

    def leave_messages(self) -> None:
        """Does nothing: no later exchanger can use the group."""


class _TorchRequests:
    """Sends and receives that start in one batch."""

    def __init__(self, group: Any, send: _Messages, receive: _Messages, timeout_s: float) -> None:
        import torch
        import torch.distributed as dist

        self._dist, self._timeout_s = dist, timeout_s
        self._peers = [peer for peer, _, _ in (*receive, *send)]
        self._operations = [
            dist.P2POp(
                call,
                torch.from_numpy(np.frombuffer(buffer, np.uint8)),
                int(dist.get_global_rank(group, peer)),
                group,
                tag,
            )
            for call, messages in ((dist.irecv, receive), (dist.isend, send))
            for peer, buffer, tag in messages
        ]
        self._works: list[Any] = []

    def post(self) -> None:
        """Does nothing: `send` starts receives too."""

    def send(self) -> None:
        self._works = self._dist.batch_isend_irecv(self._operations) if self._operations else []

    def wait_received(self) -> None:
        works, self._works = self._works, []
        for work in works:
            work.wait()

    def wait_sent(self) -> None:
        """Does nothing: `wait_received` waits for the sends too."""

    def missing(self) -> list[int]:
        """Waits for all messages, at most for the timeout. Each has a thread of its own: torch cannot tell which ones
        have arrived, and the first wait that times out ends the connections."""
        works, self._works = self._works, []
        deadline = time.monotonic() + self._timeout_s
        with ThreadPoolExecutor(thread_name_prefix="damacy-halo", max_workers=len(works) or 1) as threads:
            ended = list(threads.map(lambda work: self._ends(work, deadline), works))
        return sorted({peer for peer, has in zip(self._peers, ended) if not has})

    def _ends(self, work: Any, deadline: float) -> bool:
        try:
            work.wait(datetime.timedelta(seconds=self._timeout_s))
        except RuntimeError:
            if time.monotonic() < deadline:
                raise
            return False
        return True

    def cancel(self) -> bool:
        self._works.clear()
        return True


__all__ = ["MPI", "NCCL", "Local", "TorchDistributed"]
