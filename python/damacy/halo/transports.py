"""Transports for messages: within a process (`_local`), by MPI, by torch.distributed. Knows ranks and buffers; not the
contents of messages."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from damacy.halo._arrays import layout_of
from damacy.halo._errors import InvalidArgument, Unsupported
from damacy.halo._local import Local


def _host_view(buffer: Any) -> np.ndarray:
    if isinstance(buffer, np.ndarray):
        return buffer
    view: np.ndarray[Any, Any] = buffer.numpy()
    return view


class MPI:
    """A transport over a duplicate of an mpi4py communicator. With `cuda_aware=True`, MPI gets device memory; otherwise
    messages are copied through host memory."""

    def __init__(self, comm: Any, cuda_aware: bool | None = None) -> None:
        self._comm = comm.Dup()
        self._cuda_aware = bool(cuda_aware)

    def open(self, rank: int, rounds: Any) -> _MpiChannels:
        if rank != self._comm.Get_rank():
            raise InvalidArgument(f"expected a plan of rank {self._comm.Get_rank()} (got one of rank {rank})")
        return _MpiChannels(self._comm, rounds, self._cuda_aware)


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


class _MpiChannels:
    """Persistent requests of every slot and phase. MPI matches messages of one phase in the order in which they are
    started. That order is the same on all ranks, although ranks may use different slots."""

    def __init__(self, comm: Any, rounds: Any, cuda_aware: bool) -> None:
        from mpi4py import MPI as mpi

        self._mpi, self._comm = mpi, comm
        self._posted: set[tuple[int, int]] = set()  # (slot, phase) of posted receives whose exchange has not sent
        self._rounds: list[Any] = []
        for phases in rounds:
            self._rounds.append([])
            for phase, this in enumerate(phases):
                sends = {p: _Staged(b, cuda_aware) for p, b in this.send.items()}
                receives = {p: _Staged(b, cuda_aware) for p, b in this.receive.items()}
                self._rounds[-1].append(
                    (
                        sends,
                        receives,
                        [comm.Send_init([b.seen, mpi.BYTE], dest=p, tag=phase) for p, b in sends.items()],
                        [comm.Recv_init([b.seen, mpi.BYTE], source=p, tag=phase) for p, b in receives.items()],
                    )
                )

    def exchange_digests(self, mine: dict[int, Any]) -> dict[int, Any]:
        tag = 32767
        requests = [self._comm.isend(digests, dest=peer, tag=tag) for peer, digests in mine.items()]
        theirs = {peer: self._comm.recv(source=peer, tag=tag) for peer in mine}
        self._mpi.Request.waitall(requests)
        return theirs

    def post_receives(self, slot: int, phase: int) -> None:
        """Does nothing for a retry: the receives of the failed exchange stay posted, because cancelling one that has
        matched a message would lose the message."""
        if (slot, phase) in self._posted:
            return
        receives = self._rounds[slot][phase][1]
        if not any(staged.staged for staged in receives.values()):
            self._wait_for_device(receives)  # unpacking of the slot's last messages may still run
        self._mpi.Prequest.Startall(self._rounds[slot][phase][3])
        self._posted.add((slot, phase))

    def send(self, slot: int, phase: int, stream: Any) -> None:
        self._posted.discard((slot, phase))
        sends = self._rounds[slot][phase][0]
        for staged in sends.values():
            staged.down()
        self._wait_for_device(sends)
        self._mpi.Prequest.Startall(self._rounds[slot][phase][2])

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

    def wait_received(self, slot: int, phase: int, stream: Any) -> None:
        self._mpi.Request.Waitall(self._rounds[slot][phase][3])
        for staged in self._rounds[slot][phase][1].values():
            staged.up()

    def wait_sent(self, slot: int, phase: int) -> None:
        self._mpi.Request.Waitall(self._rounds[slot][phase][2])

    def close(self) -> None:
        """Cancels messages in flight; peers that wait for them on this communicator get none."""
        rounds, self._rounds = self._rounds, []
        if self._mpi.Is_finalized():
            return
        for sent, _, sends, receives in itertools.chain.from_iterable(rounds):
            for request in receives:
                if not request.Test():
                    request.Cancel()
                    request.Wait()
            if not all([request.Test() for request in sends]):
                _unsent.append(sent)
            for request in (*sends, *receives):
                request.Free()

    __del__ = close


class TorchDistributed:
    """A transport over a process group of torch.distributed: gloo for host memory, nccl for CUDA. Plans use the ranks
    of the group."""

    def __init__(self, group: Any = None) -> None:
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

    def open(self, rank: int, rounds: Any) -> _TorchChannels:
        import torch.distributed as dist

        if rank != dist.get_rank(self._group):
            raise InvalidArgument(f"expected a plan of rank {dist.get_rank(self._group)} (got one of rank {rank})")
        return _TorchChannels(self._group, rounds)


class _TorchChannels:
    def __init__(self, group: Any, rounds: Any) -> None:
        import torch
        import torch.distributed as dist

        self._dist, self._torch, self._group = dist, torch, group
        self._nccl = dist.get_backend(group) == "nccl"
        self._works: dict[tuple[int, int], list[Any]] = {}
        self._operations = [[self._batch(this.send, this.receive) for this in phases] for phases in rounds]

    def _global(self, peer: int) -> int:
        return int(self._dist.get_global_rank(self._group, peer))

    def _tensor(self, buffer: Any) -> Any:
        if isinstance(buffer, self._torch.Tensor):
            return buffer
        if isinstance(buffer, np.ndarray):
            return self._torch.from_numpy(buffer)
        raise Unsupported(f"torch.distributed cannot send a {type(buffer).__name__}")

    def _batch(self, sends: dict[int, Any], receives: dict[int, Any]) -> list[Any]:
        """Starts sends and receives in one batch, as nccl needs."""
        dist = self._dist
        return [
            dist.P2POp(call, self._tensor(buffer), self._global(peer), self._group)
            for call, buffers in ((dist.irecv, receives), (dist.isend, sends))
            for peer, buffer in sorted(buffers.items())
        ]

    def exchange_digests(self, mine: dict[int, Any]) -> dict[int, Any]:
        device = "cuda" if self._nccl else "cpu"
        send, receive = {}, {}
        for peer, digests in mine.items():
            send[peer] = self._torch.frombuffer(bytearray(b"".join(digests)), dtype=self._torch.uint8).to(device)
            receive[peer] = self._torch.zeros_like(send[peer])
        operations = self._batch(send, receive)
        for work in self._dist.batch_isend_irecv(operations) if operations else ():
            work.wait()
        out = {}
        for peer, tensor in receive.items():
            raw = bytes(tensor.cpu().numpy())
            out[peer] = (raw[: len(raw) // 2], raw[len(raw) // 2 :])
        return out

    def post_receives(self, slot: int, phase: int) -> None:
        """Does nothing: `send` starts receives and sends in one batch, as nccl needs."""

    def send(self, slot: int, phase: int, stream: Any) -> None:
        operations = self._operations[slot][phase]
        self._works[(slot, phase)] = self._dist.batch_isend_irecv(operations) if operations else []

    def wait_received(self, slot: int, phase: int, stream: Any) -> None:
        for work in self._works.pop((slot, phase), []):
            work.wait()  # nccl: the current stream waits, not the host

    def wait_sent(self, slot: int, phase: int) -> None:
        """Does nothing: `wait_received` waits for the sends too."""

    def close(self) -> None:
        self._works.clear()


__all__ = ["MPI", "Local", "TorchDistributed"]
