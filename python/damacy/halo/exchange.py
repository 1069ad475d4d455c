"""Exchanges halos between ranks: packs, sends and receives by a transport, unpacks. Knows arrays; buffers and the order
of steps are the native library's. Knows neither the contents of messages (exchange_plan) nor how bytes are sent
(transports).

    exchanger = Exchanger(plan, MPI(comm))
    exchanger.exchange([a])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from damacy import _native
from damacy.halo._arrays import current_stream_on, look
from damacy.halo._plans import num_threads
from damacy.halo.exchange_plan import ExchangePlan


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
                for pair in self._exchanger._rounds.bind(slot, self._arrays.addresses)
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

    _lazy: _native.LazyStreams | None = None  # tests set it: replaces devices

    def __init__(self, plan: ExchangePlan, transport: Any, *, depth: int = 2) -> None:
        self._steps = _native.ExchangeSteps(plan._native, depth)
        self.plan = plan
        self.depth = depth
        field = plan.fields[0]
        self._rounds = _native.ExchangeRounds(
            plan._native, depth, field.device, current_stream_on(field.library, field.device), self._lazy
        )
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
            self._queue = _native.HaloQueue(self._lazy)
        return self._queue.bound(arrays, copies)

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
