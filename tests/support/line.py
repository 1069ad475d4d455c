"""A line of numbers: a 1-D array whose element k is k + 1, so a batch of one-element rows says what it holds."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator

import damacy
from support.layout import Compressor
from support.streaming import Stored, store

LENGTH = 4000


class Line:
    def __init__(self, stored: Stored):
        self.stored = stored
        self.path = stored.path

    def at(self, k: int) -> damacy.Sample:
        return self.stored.sample((k, k + 1))

    def all(self, numbers: Iterable[int]) -> list[damacy.Sample]:
        return [self.at(k) for k in numbers]

    def beyond(self) -> damacy.Sample:
        """A sample push refuses: behind the array's end."""
        return self.stored.sample((LENGTH, LENGTH + 1))


def make_line(path: pathlib.Path) -> Line:
    return Line(store(path, (LENGTH,), (100,), "uint16", compressor=Compressor("zstd")))


def numbers(batch: damacy.Batch) -> list[int]:
    """Which samples of a line the rows of a batch are."""
    return [int(v) - 1 for v in batch.numpy().reshape(batch.info.shape[0], -1)[:, 0]]


def popped(pipeline: damacy.Pipeline) -> list[int]:
    """One batch, released."""
    with pipeline.pop() as batch:
        return numbers(batch)


def drained(pipeline: damacy.Pipeline) -> list[list[int]]:
    """All batches until there is nothing to pop."""
    batches = []
    while True:
        try:
            batches.append(popped(pipeline))
        except damacy.PopTimeout:
            raise
        except damacy.TryAgain:
            return batches


class Source:
    """An iterator that counts what was taken from it and remembers who took it; it may raise in place of an element."""

    def __init__(self, samples: Iterable, threads: set | None = None):
        self._samples = iter(samples)
        self.taken = 0
        self.threads = set() if threads is None else threads

    def __iter__(self) -> Iterator:
        return self

    def __next__(self):
        import threading

        self.threads.add(threading.get_ident())
        item = next(self._samples)
        self.taken += 1
        if isinstance(item, BaseException):
            raise item
        return item


def endless(line: Line) -> Iterator[damacy.Sample]:
    return (line.at(k % LENGTH) for k in itertools.count())
