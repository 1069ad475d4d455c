"""The transport between ranks of one process. Knows buffers and their last use; which rank waits for which message is
the native library's. `_message_copies` copies messages."""

from __future__ import annotations

from typing import Any

from damacy import _native
from damacy.halo import _message_copies
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
        return self._native.open(rank, _LocalBuffers(rounds))


class _LocalBuffers:
    """The buffers of one rank. A message is a copy, with a mark of the sender's stream after which it is there."""

    def __init__(self, rounds: Any) -> None:
        self._rounds = rounds
        self._like = next(iter(buffers_of(rounds)), None)
        self._copies = _message_copies.copies_for(self._like)
        self._last_use: dict[tuple[int, int], Any] = {}  # marks, by slot and phase: the last use of its buffers so far

    def follow(self, slot: int, phase: int) -> None:
        """Makes the current stream wait for the last use of the buffers, which may have been on another stream."""
        if (slot, phase) in self._last_use:
            self._copies.wait(self._last_use[slot, phase], self._like)

    def use(self, slot: int, phase: int) -> None:
        self._last_use[slot, phase] = self._copies.record(self._like)

    def copies(self, slot: int, phase: int) -> dict[int, Any]:
        """Of what is sent; packing is already ordered before later work of the current stream."""
        sent = self._rounds[slot][phase].send
        messages = {peer: self._copies.clone(buffer) for peer, buffer in sent.items()}
        mark = self._copies.record(self._like)
        return {peer: (message, mark) for peer, message in messages.items()}

    def senders(self, slot: int, phase: int) -> list[int]:
        return list(self._rounds[slot][phase].receive)

    def place(self, slot: int, phase: int, sender: int, sent: Any) -> None:
        """Makes the current stream wait, not the host; unpacking is ordered after work of that stream."""
        message, mark = sent
        buffer = self._rounds[slot][phase].receive[sender]
        self._copies.wait(mark, message, buffer)
        self._copies.place(message, buffer)

    def close(self) -> None:
        self._copies.close()
