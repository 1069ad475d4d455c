"""The transport between ranks of one process, which is the native library's. Knows where buffers are."""

from __future__ import annotations

from typing import Any

from damacy import _native
from damacy.halo._arrays import layout_of
from damacy.halo._errors import InvalidArgument

LOCAL_TIMEOUT_S = 60.0


def buffers_of(rounds: Any) -> list[Any]:
    """All buffers of an exchanger."""
    return [b for phases in rounds for r in phases for b in (*r.send.values(), *r.receive.values())]


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
        self._native = _native.LocalTransport(n, LOCAL_TIMEOUT_S)

    @property
    def _mail(self) -> int:
        """Messages that were sent and not yet received."""
        return self._native.waiting

    def open(self, rank: int, rounds: Any) -> _native.MessageChannels:
        like = next(iter(buffers_of(rounds)), None)
        return self._native.open(rank, rounds, None if like is None else layout_of(like).device, like)
