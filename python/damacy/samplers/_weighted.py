"""`Weighted`: samples drawn with replacement, by weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from damacy._core import counter_rng, counter_rng_many
from damacy._core.counter_rng_many import I64
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import positive
from damacy._pipeline.sample import Sample
from damacy.samplers._sampler import PickingSampler, Sampler

_ONE = 1 << 53
_COLUMN, _COIN = 0, 1  # purposes of the draws


class Weighted(PickingSampler):
    """Samples drawn with replacement, in proportion to their weights.

    * `samples`: a sequence of `Sample`, or a sampler, whose samples of the same epoch are drawn.
    * `weights`: a number for each of them, finite and >= 0. A sample of weight 0 is never drawn.
    * `length`: the number of samples of an epoch.

    A draw takes the same time for any number of weights.

    >>> grid = SlidingGrid({"a.zarr": (100,)}, (50,))
    >>> [sample.aabb for sample in Weighted(grid, [0, 1], length=2, seed=3).samples(0, 0, 2)]
    [((50, 100),), ((50, 100),)]
    """

    stream = 2

    def __init__(
        self, samples: Sampler | Sequence[Sample], weights: Sequence[float], *, length: int, seed: int = 0
    ) -> None:
        super().__init__(samples)
        self.seed = as_int(seed, "seed")
        self._length = positive(length, "length")
        if len(weights) != len(samples):
            raise ValueError(f"weights must have one number per sample: {len(samples)} (got {len(weights)})")
        numbers = [float(weight) for weight in weights]
        if not all(math.isfinite(weight) and weight >= 0 for weight in numbers) or not sum(numbers) > 0:
            raise ValueError("weights must be finite and >= 0, and not all 0")
        self._limits, self._others = alias_table(numbers)

    def __repr__(self) -> str:
        return f"<damacy.samplers.Weighted of {self._shown_samples()}: length={self._length}, seed={self.seed}>"

    def _picks(self, epoch: int, indices: I64) -> I64:
        states = counter_rng_many.extended(counter_rng.extended(3, self.seed, epoch), indices)
        columns = counter_rng_many.draw_below(len(self._limits), states, _COLUMN)
        coins = counter_rng_many.draw_below(_ONE, states, _COIN)
        return np.where(coins < self._limits[columns], columns, self._others[columns])


def alias_table(weights: Sequence[float]) -> tuple[I64, I64]:
    """For each column the limit in [0, 2**53], below which a coin draws the column, and what it draws otherwise.

    Vose's method. All columns are equally likely.
    """
    count, total = len(weights), math.fsum(weights)
    left = [weight / total * count for weight in weights]  # what is not in the table yet; the mean is 1
    limits, others = np.full(count, _ONE, np.int64), np.arange(count)
    small = [k for k, weight in enumerate(left) if weight < 1]
    large = [k for k, weight in enumerate(left) if weight >= 1]
    while small and large:
        k, other = small.pop(), large[-1]
        limits[k], others[k] = round(left[k] * _ONE), other
        left[other] -= 1 - left[k]
        if left[other] < 1:
            small.append(large.pop())
    # By rounding, columns may remain whose rest is nearly 1. A sample of weight 0 must not be among them.
    heaviest = max(range(count), key=weights.__getitem__)
    for k in small:
        if weights[k] == 0:
            limits[k], others[k] = 0, heaviest
    return limits, others
