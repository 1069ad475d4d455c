"""Transports for messages: within a process (`_local`), by NCCL (`_nccl`), by MPI, by torch.distributed. Knows how each
library makes and starts requests; not the contents of messages. Tags, order and timeouts are the native library's."""

from __future__ import annotations

import datetime
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from damacy import _native
from damacy.halo._arrays import layout_of
from damacy.halo._errors import InvalidArgument, Unsupported
from damacy.halo._local import Local, buffers_of
from damacy.halo._nccl import NCCL


def _host_view(buffer: Any) -> np.ndarray:
    if isinstance(buffer, np.ndarray):
        return buffer
    view: np.ndarray[Any, Any] = np.frombuffer(buffer, np.uint8) if isinstance(buffer, memoryview) else buffer.numpy()
    return view


def _check_rank(rank: int, own: int) -> None:
    if rank != own:
        raise InvalidArgument(f"expected a plan of rank {own} (got one of rank {rank})")


class _OwnComm:
    """A duplicate of a communicator. It is freed with the transport and the exchangers that use it, which every MPI
    allows one rank to do before the others. `keep` is set if messages may be left on it: they would reach a later
    communicator with the same context id."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI as mpi

        self.comm, self.keep = comm.Dup(), False
        self._is_finalized = mpi.Is_finalized

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

    def open(self, rank: int, rounds: Any) -> _native.MessageChannels:
        _check_rank(rank, self._own.comm.Get_rank())
        library = _MpiLibrary(self._own, self._cuda_aware)
        return _native.message_channels(library, rounds, rank, self._tags, self._timeout_s)


class _Staged:
    """A buffer for MPI: itself, or a copy in host memory."""

    def __init__(self, buffer: Any, cuda_aware: bool) -> None:
        self.buffer = buffer
        self.on_device = layout_of(buffer).device is not None
        if not self.on_device:
            self.seen = _host_view(buffer)
        elif cuda_aware:
            self.seen = buffer
        elif hasattr(buffer, "pin_memory"):
            import torch

            self._host = torch.zeros(buffer.shape, dtype=torch.uint8).pin_memory()
            self.seen = self._host.numpy()
        else:
            import cupyx

            self.seen = self._host = cupyx.zeros_pinned(buffer.shape, dtype="uint8")
        self.staged = self.on_device and not cuda_aware

    def up(self) -> None:
        if self.staged:
            self.buffer.copy_(self._host) if hasattr(self.buffer, "copy_") else self.buffer.set(self._host)

    def down(self) -> None:
        if self.staged:
            self._host.copy_(self.buffer) if hasattr(self.buffer, "copy_") else self.buffer.get(out=self._host)


_unsent: list[Any] = []  # buffers that MPI may still read; never freed


class _MpiLibrary:
    """Makes the requests of one exchanger."""

    def __init__(self, own: _OwnComm, cuda_aware: bool) -> None:
        self._own, self._cuda_aware = own, cuda_aware

    def requests(
        self, send: dict[int, Any], receive: dict[int, Any], send_tags: dict[int, int], receive_tag: int
    ) -> _MpiRequests:
        sent = {peer: _Staged(buffer, self._cuda_aware) for peer, buffer in send.items()}
        received = {peer: _Staged(buffer, self._cuda_aware) for peer, buffer in receive.items()}
        return _MpiRequests(self._own, sent, received, send_tags, receive_tag)

    def leave_messages(self) -> None:
        self._own.keep = True


class _MpiRequests:
    """Persistent requests."""

    def __init__(
        self,
        own: _OwnComm,
        sent: dict[int, _Staged],
        received: dict[int, _Staged],
        send_tags: dict[int, int],
        receive_tag: int,
    ) -> None:
        from mpi4py import MPI as mpi

        self._mpi, self._own, self._sent, self._received = mpi, own, sent, received
        self._sends = [own.comm.Send_init([b.seen, mpi.BYTE], dest=p, tag=send_tags[p]) for p, b in sent.items()]
        self._receives = [
            own.comm.Recv_init([b.seen, mpi.BYTE], source=p, tag=receive_tag) for p, b in received.items()
        ]

    def post(self) -> None:
        if not any(staged.staged for staged in self._received.values()):
            self._wait_for_device(self._received)  # unpacking of the last messages may still run
        self._mpi.Prequest.Startall(self._receives)

    def send(self) -> None:
        for staged in self._sent.values():
            staged.down()
        self._wait_for_device(self._sent)
        self._mpi.Prequest.Startall(self._sends)

    @staticmethod
    def _wait_for_device(buffers: dict[int, _Staged]) -> None:
        """Waits on the host, because MPI does not know streams."""
        first = next(iter(buffers.values()), None)
        if first is not None and first.on_device:
            if hasattr(first.buffer, "pin_memory"):
                import torch

                torch.cuda.current_stream(first.buffer.device).synchronize()
            else:
                import cupy

                cupy.cuda.get_current_stream().synchronize()

    def wait_received(self) -> None:
        self._mpi.Request.Waitall(self._receives)
        for staged in self._received.values():
            staged.up()

    def wait_sent(self) -> None:
        self._mpi.Request.Waitall(self._sends)

    def missing(self) -> list[int]:
        return [peer for peer, request in zip(self._received, self._receives) if not request.Test()]

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
            _unsent.append(self._sent)
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

    def open(self, rank: int, rounds: Any) -> _native.MessageChannels:
        import torch.distributed as dist

        _check_rank(rank, dist.get_rank(self._group))
        if dist.get_backend(self._group) == "nccl":
            if self._nccl is None:
                device = next((layout_of(buffer).device for buffer in buffers_of(rounds)), None)
                self._nccl = NCCL(self._group, device=device, timeout_s=self._timeout_s)
            return self._nccl.open(rank, rounds)
        return _native.message_channels(self, rounds, rank, self._tags, self._timeout_s)

    def requests(
        self, send: dict[int, Any], receive: dict[int, Any], send_tags: dict[int, int], receive_tag: int
    ) -> _TorchRequests:
        return _TorchRequests(self._group, send, receive, send_tags, receive_tag, self._timeout_s)

    def leave_messages(self) -> None:
        """Does nothing: no later exchanger can use the group."""


def _tensor_of(buffer: Any) -> Any:
    import torch

    if isinstance(buffer, torch.Tensor):
        return buffer
    if not isinstance(buffer, (np.ndarray, memoryview)):
        raise Unsupported(f"torch.distributed cannot send a {type(buffer).__name__}")
    return torch.from_numpy(_host_view(buffer))


class _TorchRequests:
    """Sends and receives that start in one batch."""

    def __init__(
        self,
        group: Any,
        send: dict[int, Any],
        receive: dict[int, Any],
        send_tags: dict[int, int],
        receive_tag: int,
        timeout_s: float,
    ) -> None:
        import torch.distributed as dist

        self._dist, self._timeout_s = dist, timeout_s
        self._peers = (*receive, *send)
        self._operations = [
            dist.P2POp(call, _tensor_of(buffer), int(dist.get_global_rank(group, peer)), group, tag_of(peer))
            for call, buffers, tag_of in (
                (dist.irecv, receive, lambda peer: receive_tag),
                (dist.isend, send, send_tags.__getitem__),
            )
            for peer, buffer in buffers.items()
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
