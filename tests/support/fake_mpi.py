"""As much of mpi4py as halo exchanges use, for ranks of one process: messages arrive at once, and meet receives in the
order in which these were started. What MPI would wait for forever raises `WouldHang`. Knows nothing of halos."""

from __future__ import annotations

import collections
import ctypes
import types
from typing import Any


class WouldHang(RuntimeError):
    """A wait for a message that no rank has sent."""


class _Channel:
    """Messages from one rank to another with one tag, and the receives that wait for them."""

    def __init__(self) -> None:
        self.messages: collections.deque[bytes] = collections.deque()
        self.receives: collections.deque[_Request] = collections.deque()

    def match(self) -> None:
        while self.messages and self.receives:
            self.receives.popleft()._complete(self.messages.popleft())


def _memory_of(buffer: Any) -> memoryview:
    """The bytes of a buffer, also of one on a device, which is host memory in tests."""
    if hasattr(buffer, "__cuda_array_interface__"):
        said = buffer.__cuda_array_interface__
        buffer = (ctypes.c_char * said["shape"][0]).from_address(said["data"][0])
    return memoryview(buffer).cast("B")


class _Request:
    """A persistent request. Inactive ones are complete, as MPI has it."""

    def __init__(self, channel: _Channel, buffer: Any, is_send: bool) -> None:
        self._channel, self._buffer, self._is_send = channel, buffer, is_send
        self.active = False
        self._arrived = False

    def Start(self) -> None:
        if self.active:
            raise RuntimeError("MPI_ERR_REQUEST: the request is active")
        self.active, self._arrived = True, self._is_send
        if self._is_send:
            self._channel.messages.append(bytes(_memory_of(self._buffer)))
        else:
            self._channel.receives.append(self)
        self._channel.match()

    def _complete(self, message: bytes) -> None:
        _memory_of(self._buffer)[:] = message
        self._arrived = True

    def Test(self) -> bool:
        if self._arrived:
            self.active = False
        return not self.active

    def Wait(self) -> None:
        if not self.Test():
            raise WouldHang("no rank has sent this message")

    def Cancel(self) -> None:
        """Without effect on a receive that has its message already, as in MPI."""
        if not self._arrived:
            self._channel.receives.remove(self)
            self._arrived = True

    def Free(self) -> None:
        pass


def _all(step: str) -> Any:
    return staticmethod(lambda requests: [getattr(request, step)() for request in requests] and None)


class Comm:
    """One rank's communicator; `Comm.world(n)` makes those of all ranks."""

    def __init__(self, rank: int, channels: dict[Any, _Channel]) -> None:
        self._rank, self._channels = rank, channels
        self.duplicates = 0  # that were not freed; messages of a duplicate meet those of the communicator

    @staticmethod
    def world(n: int) -> list[Comm]:
        channels: dict[Any, _Channel] = collections.defaultdict(_Channel)
        return [Comm(rank, channels) for rank in range(n)]

    def Dup(self) -> Comm:
        self.duplicates += 1
        return self

    def Free(self) -> None:
        self.duplicates -= 1

    def Get_rank(self) -> int:
        return self._rank

    def Send_init(self, buffer: Any, dest: int, tag: int) -> _Request:
        return _Request(self._channels[self._rank, dest, tag], buffer[0], True)

    def Recv_init(self, buffer: Any, source: int, tag: int) -> _Request:
        return _Request(self._channels[source, self._rank, tag], buffer[0], False)


def module() -> types.ModuleType:
    """What stands for the package `mpi4py`."""
    package = types.ModuleType("mpi4py")
    package.MPI = types.SimpleNamespace(  # type: ignore[attr-defined]
        BYTE="byte",
        Is_finalized=lambda: False,
        Prequest=types.SimpleNamespace(Startall=_all("Start")),
        Request=types.SimpleNamespace(Waitall=_all("Wait")),
    )
    return package
