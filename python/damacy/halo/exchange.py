"""Exchanges halos between ranks: packs, sends and receives by a transport, unpacks. Knows arrays and buffers; the order
of steps is the native library's. Knows neither the contents of messages (exchange_plan) nor how bytes are sent
(transports).

    exchanger = Exchanger(plan, MPI(comm))
    exchanger.exchange([a])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from damacy import _native
from damacy.halo._arrays import layout_of, look
from damacy.halo._plans import num_threads
from damacy.halo.exchange_plan import ExchangePlan, Field


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
    if field.device is not None:
        from damacy._device.array import asarray

        return asarray(np.zeros(size, np.uint8), device=field.device)
    return np.zeros(size, np.uint8)


def _places(buffers: dict[int, Any]) -> dict[int, tuple[int, int]]:
    layouts = {peer: layout_of(buffer) for peer, buffer in buffers.items()}
    return {peer: (layout.address, layout.nbytes) for peer, layout in layouts.items()}


class _Round:
    """Buffers of one phase in one slot. Several slots let several exchanges be in flight."""

    def __init__(self, like: Field, bytes_to: dict[int, int], bytes_from: dict[int, int]) -> None:
        self.send = {peer: _allocate(like, size) for peer, size in bytes_to.items()}
        self.receive = {peer: _allocate(like, size) for peer, size in bytes_from.items()}

        # address and bytes, of the buffers that are sent and of those that are received
        self.places = _places(self.send), _places(self.receive)


class Token:
    """An exchange that was started. It must be finished once."""

    __slots__ = ("_started",)

    def __init__(self, started: _native.ExchangeToken) -> None:
        self._started = started


class BoundExchange:
    """An exchanger with its arrays, which were checked once; this makes each exchange cheaper."""

    def __init__(self, exchanger: Exchanger, arrays: _native.HaloArrays) -> None:
        self._exchanger, self._arrays = exchanger, arrays
        self._ways: list[Any] = [None] * exchanger.depth  # for each slot and phase, the functions that pack and unpack

    def _ways_of(self, slot: int) -> Any:
        ways = self._ways[slot]
        if ways is None:
            make = self._exchanger._way
            ways = [
                [make(self._arrays, c) for c in pair]
                for pair in self._exchanger._copies.bind(slot, self._arrays.addresses)
            ]
            self._ways[slot] = ways
        return ways

    def start(self, *, stream: Any = None) -> Token:
        """As `Exchanger.start`."""
        return Token(self._exchanger._steps.start(self._ways_of, stream))

    def finish(self, token: Token, *, stream: Any = None) -> None:
        """As `Exchanger.finish`."""
        self._exchanger.finish(token, stream=stream)

    def exchange(self, *, stream: Any = None) -> None:
        """`start`, then `finish`."""
        self._exchanger.finish(self.start(stream=stream))


class Exchanger:
    """Runs a plan over a transport, with up to `depth` exchanges in flight. The constructor raises RuntimeError if a
    peer expects other messages.

    Exchanges may be finished in any order; those with sequential corners in the order in which they were started.

    An exchange that fails before its messages are sent can be retried: its receives stay posted, and messages of peers
    that are ahead are kept for the next `start`. If an exchange fails later, peers already have messages of it. The
    exchanger then refuses every call except `close`."""

    def __init__(self, plan: ExchangePlan, transport: Any, *, depth: int = 2) -> None:
        self._steps = _native.ExchangeSteps(plan._native, depth)
        self.plan = plan
        self.depth = depth
        self._copies = _native.ExchangeCopies(plan._native, depth)
        sizes = [self._copies.message_bytes(phase) for phase in range(len(plan.phases))]
        self._rounds = [[_Round(plan.fields[0], *pair) for pair in sizes] for _ in range(depth)]
        for slot, phases in enumerate(self._rounds):
            for phase, buffers in enumerate(phases):
                self._copies.set_messages(slot, phase, buffers.places)
        self._channels = transport.open(plan.rank, self._rounds)
        self._queue: _native.HaloQueue | None = None
        try:
            self._steps.open(self._channels)
        except BaseException:
            self.close()
            raise

    def bind(self, arrays: Sequence[Any]) -> BoundExchange:
        """Checks the arrays once and keeps them, for many exchanges of the same arrays."""
        self._steps.check()
        return BoundExchange(self, _native.gather_fields(self.plan._native, arrays, self.plan.fields[0].device, look))

    def _way(self, arrays: _native.HaloArrays, copies: Any) -> Callable[[Any], None] | None:
        """A function that runs the copies on a stream; None if there are none."""
        if copies is None:
            return None
        if arrays.device is None:
            return lambda stream: copies.run(num_threads())
        if self._queue is None:
            self._queue = _native.HaloQueue()
        return self._queue.bound(arrays, copies, None)

    def start(self, arrays: Sequence[Any], *, stream: Any = None) -> Token:
        """Posts the receives, packs, and sends. The halos are valid after `finish`."""
        return self.bind(arrays).start(stream=stream)

    def finish(self, token: Token, *, stream: Any = None) -> None:
        """Unpacks the received messages. RuntimeError for a token that was finished or belongs to another exchanger."""
        self._steps.finish(token._started, stream)

    def exchange(self, arrays: Sequence[Any], *, stream: Any = None) -> None:
        """`start`, then `finish`."""
        self.finish(self.start(arrays, stream=stream))

    def close(self) -> None:
        """Releases the transport's resources of this exchanger. Later calls do nothing."""
        if self._channels is not None:
            self._steps.close()
            channels, self._channels = self._channels, None
            channels.close()

    def __enter__(self) -> Exchanger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["BoundExchange", "Exchanger", "Token"]
