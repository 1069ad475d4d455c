"""`Indexed`: samples in an order that is given."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from damacy._core import counter_rng
from damacy._core.counter_rng_many import I64
from damacy._core.integers import as_int
from damacy._pipeline.sample import Sample
from damacy.samplers._sampler import PickingSampler, Sampler

_KEPT = 2  # orders of so many epochs: a loader reads ahead into the next one


class Indexed(PickingSampler):
    """The samples in the order of given indices.

    * `samples`: a sequence of `Sample`, or a sampler.
    * `indices`: integers from 0 to below `len(samples)`: a list, an array, or an object that is iterated once for each
      epoch, such as a `torch.utils.data.Sampler`; it needs a length. If it has `set_epoch`, that is called first.

    The indices of an epoch are kept, so `sample` is pure if `indices` gives the same order for the same epoch. A run
    that is resumed needs that, and so do several ranks. While a sampler of torch draws an epoch, torch's random numbers
    depend only on the seed of `samples` and the epoch; so a `RandomSampler` without a generator has the same order in
    all processes.

    >>> grid = SlidingGrid({"a.zarr": (100,)}, (25,))
    >>> [sample.aabb for sample in Indexed(grid, [3, 0]).samples(0, 0, 2)]
    [((75, 100),), ((0, 25),)]
    """

    def __init__(self, samples: Sampler | Sequence[Sample], indices: Iterable[int]) -> None:
        super().__init__(samples)
        if not isinstance(indices, Sized) or not isinstance(indices, Iterable):
            raise TypeError(f"indices must have a length and be iterable (got {type(indices).__name__})")
        self._indices = indices
        self._length = len(indices)
        if self._length == 0:
            raise ValueError("indices must have at least one index")
        self._drawn: dict[int, I64] = {}  # by epoch
        self.seed: int = getattr(samples, "seed", 0)
        self.stream: int = getattr(samples, "stream", 1)

    def __repr__(self) -> str:
        return f"<damacy.samplers.Indexed of {self._shown_samples()}: {self._length} indices>"

    def _picks(self, epoch: int, indices: I64) -> I64:
        return self._order(epoch)[indices]

    def _order(self, epoch: int) -> I64:
        """The indices of an epoch. `ValueError` or `TypeError` if they are not valid."""
        found = self._drawn.get(epoch)
        if found is None:
            if callable(set_epoch := getattr(self._indices, "set_epoch", None)):
                set_epoch(epoch)
            with _torch_seeded(self._indices, self.seed, epoch):
                found = np.array([as_int(index, "an index") for index in self._indices], np.int64)
            if len(found) != self._length:
                raise ValueError(f"indices has the length {self._length} and gave {len(found)} in epoch {epoch}")
            outside = found[(found < 0) | (found >= len(self._samples))]
            if len(outside):
                raise ValueError(f"indices: {outside[0]} in epoch {epoch}, of {len(self._samples)} samples")
            while len(self._drawn) >= _KEPT:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[epoch] = found
        return found


@contextlib.contextmanager
def _torch_seeded(indices: Any, *key: int) -> Iterator[None]:
    """Seeds torch's global generator by a key, if `indices` is a sampler of torch, and restores it at exit."""
    of_torch = getattr(sys.modules.get("torch.utils.data"), "Sampler", None)
    if of_torch is None or not isinstance(indices, of_torch):
        yield
        return
    torch = sys.modules["torch"]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(counter_rng.hash64(*key) >> 1)
        yield
