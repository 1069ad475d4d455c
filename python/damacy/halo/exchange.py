"""Exchanges halos between ranks: packs, sends and receives by a transport, unpacks. Knows buffers and the order of
steps; not the contents of messages (exchange_plan), nor how bytes are sent (transports).

    exchanger = Exchanger(plan, MPI(comm))
    exchanger.exchange([a])
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from damacy.halo._arrays import Layout, layout_of, whole
from damacy.halo._dtypes import NAMES
from damacy.halo._errors import DtypeMismatch, HaloError, InvalidArgument
from damacy.halo._gather import Arrays, one_per_type
from damacy.halo._threads import num_threads
from damacy.halo.exchange_plan import ExchangePlan, Field, Phase

MOST_LAYOUTS_OF_ADDRESSES = 32  # sets of addresses for which an exchanger caches plans


def _allocate(field: Field, size: int) -> Any:
    """`size` bytes, on the host or on the device of the field."""
    if field.library == "torch":
        import torch

        if field.device is None:
            return torch.zeros(size, dtype=torch.uint8)
        zeros = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{field.device}")
        torch.cuda.current_stream(zeros.device).synchronize()
        return zeros
    if field.library == "cupy":
        import cupy

        with cupy.cuda.Device(field.device):
            zeros = cupy.zeros(size, dtype="uint8")
            cupy.cuda.get_current_stream().synchronize()
            return zeros
    return np.zeros(size, np.uint8)


class _Round:
    """Buffers and plans of one phase in one slot. Several slots let several exchanges be in flight."""

    def __init__(self, plan: ExchangePlan, phase: Phase) -> None:
        self.pack, self.unpack = plan.pack(phase), plan.unpack(phase)
        like = plan.fields[0]
        self.send = {p: _allocate(like, n) for p, n in zip(sorted(phase.sends), self.pack.buffer_bytes)}
        self.receive = {p: _allocate(like, n) for p, n in zip(sorted(phase.receives), self.unpack.buffer_bytes)}

    def copies(self, fields: tuple[int, ...]) -> tuple[Any, Any]:
        """The copies that pack and unpack at these addresses; None if there are none."""
        return self._bound(self.pack, fields, self.send), self._bound(self.unpack, fields, self.receive)

    @staticmethod
    def _bound(plan: Any, fields: tuple[int, ...], buffers: dict[int, Any]) -> Any:
        if not plan.launches:
            return None
        addresses = [layout_of(b).address for _, b in sorted(buffers.items())]
        bases = [*fields, *(addresses[m] for m in plan.message_of_slot)]
        if len(fields) > 1:  # fields may share memory
            plan.check_overlaps(bases)
        return plan.bind(bases)


class Token:
    """An exchange that was started. It must be finished once."""

    def __init__(self, bound: BoundExchange, slot: int, stream: Any) -> None:
        self._bound, self._slot, self._stream = bound, slot, stream
        self._finished = False


class BoundExchange:
    """An exchanger with its arrays, which were checked once; this makes each exchange cheaper."""

    def __init__(self, exchanger: Exchanger, arrays: Arrays) -> None:
        self._exchanger, self._arrays = exchanger, arrays
        self._ways: list[Any] = [None] * exchanger.depth  # for each slot and phase, the functions that pack and unpack

    def _ways_of(self, slot: int) -> Any:
        ways = self._ways[slot]
        if ways is None:
            make = self._exchanger._way
            ways = [[make(self._arrays, c) for c in pair] for pair in self._exchanger._copies(slot, self._arrays)]
            self._ways[slot] = ways
        return ways

    def start(self, *, stream: Any = None) -> Token:
        """As `Exchanger.start`."""
        slot = self._exchanger._next_slot()
        self._exchanger._begin(slot, 0, self._ways_of(slot)[0][0], stream)
        return Token(self, slot, stream)

    def finish(self, token: Token, *, stream: Any = None) -> None:
        """As `Exchanger.finish`."""
        self._exchanger.finish(token, stream=stream)

    def exchange(self, *, stream: Any = None) -> None:
        """`start`, then `finish`."""
        self._exchanger.finish(self.start(stream=stream))


class Exchanger:
    """Runs a plan over a transport, with up to `depth` exchanges in flight. The constructor raises RuntimeError if a
    peer expects other messages.

    An exchange that fails before its messages are sent can be retried: its receives stay posted, and messages of peers
    that are ahead are kept for the next `start`. If an exchange fails later, peers already have messages of it. The
    exchanger then refuses every call except `close`."""

    def __init__(self, plan: ExchangePlan, transport: Any, *, depth: int = 2) -> None:
        if depth < 1:
            raise InvalidArgument(f"depth {depth}")
        self.plan = plan
        self.depth = depth
        self._rounds = [[_Round(plan, phase) for phase in plan.phases] for _ in range(depth)]
        self._channels = transport.open(plan.rank, self._rounds)
        self._talks = bool(plan.peers)
        self._free = list(range(depth - 1, -1, -1))
        self._posted: int | None = None  # slot of an exchange that has not sent; its receives may be posted
        self._refuses = ""
        self._remembered: OrderedDict[Any, Any] = OrderedDict()
        self._queue: Any = None
        try:
            self._shake(self._channels.exchange_digests({p: plan.digests(p) for p in plan.peers}))
        except BaseException:
            self.close()
            raise

    def _shake(self, theirs: dict[int, tuple[bytes, bytes]]) -> None:
        for peer, (sent, expected) in theirs.items():
            mine = self.plan.digests(peer)
            if (sent, expected) != (mine[1], mine[0]):
                raise HaloError(f"rank {self.plan.rank} and rank {peer} do not agree on fields, types, wire or links")

    def _check_open(self) -> None:
        if self._refuses:
            raise HaloError(self._refuses)

    def bind(self, arrays: Sequence[Any]) -> BoundExchange:
        """Checks the arrays once and keeps them, for many exchanges of the same arrays."""
        self._check_open()
        if len(arrays) != len(self.plan.fields):
            raise HaloError(f"Quantities count: {len(arrays)} for {len(self.plan.fields)} fields")
        held, addresses = [], []
        for n, (array, field) in enumerate(zip(arrays, self.plan.fields)):
            layout = layout_of(whole(array))
            self._check(n, layout, field)
            addresses.append(layout.address)
            held.append(layout.owner)
        strides = tuple(field.strides for field in self.plan.fields)
        return BoundExchange(
            self, Arrays(held, addresses, strides, self.plan.fields[0].device, [], [], one_per_type(held))
        )

    @staticmethod
    def _check(n: int, layout: Layout, field: Field) -> None:
        if layout.dtype != field.dtype:
            raise DtypeMismatch(f"array {n} has dtype {NAMES[layout.dtype]}, expected {NAMES[field.dtype]}")
        if (layout.shape, layout.strides) != (field.shape, field.strides):
            raise InvalidArgument(
                f"array {n} has shape {layout.shape}, strides {layout.strides}, expected {field.shape}, {field.strides}"
            )
        if layout.device != field.device:
            raise InvalidArgument(f"array {n} is on device {layout.device}, expected {field.device} (None: the host)")
        if not layout.writable:
            raise InvalidArgument(f"array {n} is read-only")

    def _copies(self, slot: int, arrays: Arrays) -> Any:
        """The copies of each phase, cached by the addresses of the arrays."""
        key = slot, tuple(arrays.addresses)
        copies = self._remembered.get(key)
        if copies is None:
            copies = self._remembered[key] = [this.copies(key[1]) for this in self._rounds[slot]]
            while len(self._remembered) > MOST_LAYOUTS_OF_ADDRESSES:
                self._remembered.popitem(last=False)
        else:
            self._remembered.move_to_end(key)
        return copies

    def _way(self, arrays: Arrays, copies: Any) -> Callable[[Any], None] | None:
        """A function that runs the copies on a stream; None if there are none."""
        if copies is None:
            return None
        if arrays.device is None:
            return lambda stream: copies.run(num_threads())
        if self._queue is None:
            from damacy.halo._queue import Queue

            self._queue = Queue()
        bound: Callable[[Any], None] = self._queue.bound(arrays, copies, None)
        return bound

    def _next_slot(self) -> int:
        """The slot of the next exchange. A retry uses the slot of the failed exchange, because messages match receives
        in the order in which the receives were posted."""
        self._check_open()
        if self._posted is not None:
            return self._posted
        if not self._free:
            raise HaloError(f"{len(self._rounds)} exchanges are in flight already: finish one, or pass a larger depth")
        return self._free[-1]

    def _begin(self, slot: int, phase: int, pack: Any, stream: Any) -> None:
        """Posts the receives of a phase, packs, and sends. The slot is in flight as soon as phase 0 is sent."""
        if self._talks:
            if phase == 0:
                self._posted = slot
            self._channels.post_receives(slot, phase)
        if pack is not None:
            pack(stream)
        try:
            if phase == 0:
                self._posted = None
                self._free.remove(slot)
            if self._talks:
                self._channels.send(slot, phase, stream)
        except BaseException as error:
            self._refuse_after(error)
            raise

    def _refuse_after(self, error: BaseException) -> None:
        self._refuses = f"an exchange failed half way ({error}); close this exchanger and make another one"

    def start(self, arrays: Sequence[Any], *, stream: Any = None) -> Token:
        """Posts the receives, packs, and sends. The halos are valid after `finish`."""
        return self.bind(arrays).start(stream=stream)

    def finish(self, token: Token, *, stream: Any = None) -> None:
        """Unpacks the received messages. RuntimeError for a token that was finished or belongs to another exchanger."""
        own = token._bound._exchanger is self
        if not own or token._finished:
            raise HaloError("finish: this token was finished already" if own else "finish: another exchanger's token")
        self._check_open()
        token._finished = True
        slot, stream = token._slot, token._stream if stream is None else stream
        try:
            for phase, (pack, unpack) in enumerate(token._bound._ways_of(slot)):
                if phase:
                    self._begin(slot, phase, pack, stream)
                if self._talks:
                    self._channels.wait_received(slot, phase, stream)
                if unpack is not None:
                    unpack(stream)
                if self._talks:
                    self._channels.wait_sent(slot, phase)
        except BaseException as error:
            self._refuse_after(error)
            raise
        self._free.append(slot)

    def exchange(self, arrays: Sequence[Any], *, stream: Any = None) -> None:
        """`start`, then `finish`."""
        self.finish(self.start(arrays, stream=stream))

    def close(self) -> None:
        """Releases the transport's resources of this exchanger. Later calls do nothing."""
        if self._channels is not None:
            self._refuses = "this exchanger is closed"
            channels, self._channels = self._channels, None
            channels.close()

    def __enter__(self) -> Exchanger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["BoundExchange", "Exchanger", "Token"]
