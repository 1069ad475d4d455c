"""Divides the samples of an epoch among steps and ranks. Pure arithmetic on the epoch's length, unless it is divided by
chunks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from damacy._pipeline.sample import Sample
from damacy._pipeline.sources import EndsBatch
from damacy._training.chunk_order import ChunkOrder, Shards

if TYPE_CHECKING:
    from damacy.samplers import Sampler
    from damacy.typing import ShardBy, Tail


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """A step takes `ranks * batch_size` samples of the epoch, in order; rank r gets the r-th part of them.

    The order is that of the sampler, or, by chunks, a `ChunkOrder` of it.
    """

    sampler: Sampler
    batch_size: int
    rank: int
    ranks: int
    tail: Tail
    shard_by: ShardBy = "order"

    @property
    def shards(self) -> Shards:
        """How an epoch is divided that these ranks began."""
        return Shards(1 if self.shard_by == "order" else self.ranks, self.batch_size)

    @property
    def step_samples(self) -> int:
        return self.ranks * self.batch_size

    def steps_left(self, done: int) -> int:
        """The remaining steps of an epoch of which `done` samples were delivered."""
        left = max(0, len(self.sampler) - done)
        return left // self.step_samples if self.tail == "drop" else -(-left // self.step_samples)

    def own_rows(self, done: int) -> int:
        """In the next step, the number of this rank's rows whose samples are new in this epoch."""
        return min(max(0, len(self.sampler) - self._first(done)), self.batch_size)

    def stream(self, epoch: int, done: int, shards: Shards, *, repeat: bool) -> Iterator[Sample | EndsBatch]:
        """This rank's samples from that position on, endlessly: those of the following epochs, or, with `repeat`, those
        of this epoch again. The epoch that was begun is divided into `shards`."""
        begun, own = ChunkOrder(self.sampler, shards), ChunkOrder(self.sampler, self.shards)
        while True:
            for step in range(self.steps_left(done)):
                yield from self._rows(begun, epoch, done + step * self.step_samples)
            epoch, done, begun = (epoch if repeat else epoch + 1), 0, own

    def _rows(self, order: ChunkOrder, epoch: int, done: int) -> Iterator[Sample | EndsBatch]:
        first = self._first(done)
        own = self.own_rows(done)
        if self.tail == "short" and own < self.batch_size:
            *before, last = self._samples(order, epoch, first, own)
            yield from before
            yield EndsBatch(last)
        else:
            yield from self._samples(order, epoch, first, self.batch_size)

    def _samples(self, order: ChunkOrder, epoch: int, first: int, count: int) -> Iterator[Sample]:
        """The samples from `first` on; after the epoch's end, those from its beginning."""
        while count > 0:
            first %= len(self.sampler)
            size = min(count, len(self.sampler) - first)
            yield from order.samples(epoch, first, first + size)
            first, count = first + size, count - size

    def _first(self, done: int) -> int:
        return done + self.rank * self.batch_size
