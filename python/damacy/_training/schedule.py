"""Divides the samples of an epoch among steps and ranks. Pure arithmetic on the epoch's length."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from damacy._pipeline.sample import Sample, with_row_key
from damacy._pipeline.sources import EndsBatch

if TYPE_CHECKING:
    from damacy.samplers import Sampler
    from damacy.typing import Tail

_PORTION = 4096  # at most so many samples are drawn at once


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """A step takes `ranks * batch_size` samples of the epoch, in order; rank r gets the r-th part of them."""

    sampler: Sampler
    batch_size: int
    rank: int
    ranks: int
    tail: Tail

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

    def stream(self, epoch: int, done: int, *, repeat: bool) -> Iterator[Sample | EndsBatch]:
        """This rank's samples from that position on, endlessly: those of the following epochs, or, with `repeat`, those
        of this epoch again."""
        while True:
            for step in range(self.steps_left(done)):
                yield from self._rows(epoch, done + step * self.step_samples)
            epoch, done = (epoch if repeat else epoch + 1), 0

    def _rows(self, epoch: int, done: int) -> Iterator[Sample | EndsBatch]:
        first = self._first(done)
        own = self.own_rows(done)
        if self.tail == "short" and own < self.batch_size:
            *before, last = self._samples(epoch, first, own)
            yield from before
            yield EndsBatch(last)
        else:
            yield from self._samples(epoch, first, self.batch_size)

    def _samples(self, epoch: int, first: int, count: int) -> Iterator[Sample]:
        """The samples from `first` on; after the epoch's end, those from its beginning."""
        many = getattr(self.sampler, "samples", None)
        while count > 0:
            first %= len(self.sampler)
            size = min(count, len(self.sampler) - first, _PORTION)
            indices = range(first, first + size)
            if callable(many):
                drawn = many(epoch, first, first + size)
            else:
                drawn = (self.sampler.sample(epoch, index) for index in indices)
            for index, sample in zip(indices, drawn, strict=True):
                yield with_row_key(sample, (epoch, index))
            first, count = first + size, count - size

    def _first(self, done: int) -> int:
        return done + self.rank * self.batch_size
