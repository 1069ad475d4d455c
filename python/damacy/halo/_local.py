"""The transport between ranks of one process. Knows ranks, buffers and which rank waits for which; not the contents of
messages. `_message_copies` copies them."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from damacy.halo import _message_copies
from damacy.halo._errors import HaloError, InvalidArgument

LOCAL_TIMEOUT_S = 60.0


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
        self._changed = threading.Condition()
        self._mail: dict[tuple[int, ...], Any] = {}  # messages that were sent and not yet received
        self._registry: dict[tuple[int, int], dict[int, Any]] = {}  # digests of open exchangers, for their peers
        self._opened: dict[int, int] = defaultdict(int)

    def open(self, rank: int, rounds: Any) -> _LocalChannels:
        if not 0 <= rank < self.size:
            raise InvalidArgument(f"rank {rank} of {self.size}")
        with self._changed:
            generation = self._opened[rank]
            self._opened[rank] += 1
        return _LocalChannels(self, rank, generation, rounds)


class _LocalChannels:
    def __init__(self, local: Local, rank: int, generation: int, rounds: Any) -> None:
        self._local, self._rank, self._generation, self._rounds = local, rank, generation, rounds
        self._mine: dict[int, Any] = {}
        self._shaken = False
        self._begun: dict[int, int] = defaultdict(int)  # number of exchanges sent, by phase
        self._number: dict[tuple[int, int], int] = {}  # number of the current exchange, by slot and phase
        self._like = next(
            (b for phases in rounds for r in phases for b in (*r.send.values(), *r.receive.values())), None
        )
        self._copies = _message_copies.copies_for(self._like)
        self._last_use: dict[tuple[int, int], Any] = {}  # marks, by slot and phase: the last use of its buffers so far

    def exchange_digests(self, mine: dict[int, Any]) -> dict[int, Any]:
        """The digests of peers that are open. Peers that open later are compared when the first message is sent."""
        self._mine = mine
        with self._local._changed:
            self._local._registry[(self._rank, self._generation)] = mine
            self._local._changed.notify_all()
            return self._known()

    def _known(self) -> dict[int, Any]:
        registry = self._local._registry
        out = {}
        for peer in self._mine:
            theirs = registry.get((peer, self._generation))
            if theirs is not None:
                out[peer] = theirs.get(self._rank, (b"", b""))
        return out

    def _check(self) -> None:
        """RuntimeError if a peer's digest is known and differs."""
        if self._shaken:
            return
        known = self._known()
        for peer, (sent, expected) in known.items():
            if (expected, sent) != tuple(self._mine[peer]):
                raise HaloError(f"rank {self._rank} and rank {peer} do not agree on fields, types, wire or links")
        self._shaken = len(known) == len(self._mine)

    def post_receives(self, slot: int, phase: int) -> None:
        with self._local._changed:
            self._check()
        self._number[slot, phase] = self._begun[phase]
        self._follow(slot, phase)

    def _follow(self, slot: int, phase: int) -> None:
        """Makes the current stream wait for the last use of the buffers, which may have been on another stream."""
        if (slot, phase) in self._last_use:
            self._copies.wait(self._last_use[slot, phase], self._like)

    def _used(self, slot: int, phase: int) -> Any:
        mark = self._last_use[slot, phase] = self._copies.record(self._like)
        return mark

    def _address(self, source: int, target: int, slot: int, phase: int) -> tuple[int, ...]:
        return self._generation, source, target, phase, self._number[slot, phase]

    def send(self, slot: int, phase: int, stream: Any) -> None:
        """Sends the buffers; packing is already ordered before later work of the current stream."""
        self._begun[phase] += 1
        sends = self._rounds[slot][phase].send
        messages = {peer: self._copies.clone(buffer) for peer, buffer in sends.items()}
        mark = self._used(slot, phase)
        with self._local._changed:
            for peer, message in messages.items():
                self._local._mail[self._address(self._rank, peer, slot, phase)] = message, mark
            self._local._changed.notify_all()

    def wait_received(self, slot: int, phase: int, stream: Any) -> None:
        """Makes the current stream wait, not the host; unpacking is ordered after work of that stream."""
        mail = self._local._mail
        self._follow(slot, phase)
        for peer, buffer in self._rounds[slot][phase].receive.items():
            address = self._address(peer, self._rank, slot, phase)

            def has_arrived(address: tuple[int, ...] = address) -> bool:
                self._check()
                return address in mail

            with self._local._changed:
                if not self._local._changed.wait_for(has_arrived, LOCAL_TIMEOUT_S):
                    raise HaloError(
                        f"rank {self._rank} timed out after {LOCAL_TIMEOUT_S:.0f} s: no message from rank {peer}"
                    )
                message, mark = mail.pop(address)
            self._copies.wait(mark, message, buffer)
            self._copies.place(message, buffer)

    def wait_sent(self, slot: int, phase: int) -> None:
        """Does not wait, because messages are copies. Unpacking was the last use of the buffers."""
        self._used(slot, phase)

    def close(self) -> None:
        self._copies.close()
        if self._shaken:  # otherwise the digest stays, so that peers that open or exchange later see a mismatch
            with self._local._changed:
                self._local._registry.pop((self._rank, self._generation), None)
