"""Samplers choose the boxes that a training run reads: random crops and sliding grids over many arrays.

A sampler is a pure function from (epoch, index) to a `Sample`. It keeps no state, so any process can compute any sample
of a run, and two integers are enough to resume. Knows shapes and boxes; reads only the shapes of arrays.

>>> crops = RandomCrops({"a.zarr": (100, 200), "b.zarr": (50, 60)}, (32, 32), length=1000, seed=7)
>>> crops.sample(epoch=0, index=3) == crops.sample(epoch=0, index=3), len(crops)
(True, 1000)
>>> grid = SlidingGrid({"a.zarr": (100, 200)}, (50, 100))
>>> [grid.sample(0, k).aabb for k in range(len(grid))]
[((0, 50), (0, 100)), ((0, 50), (100, 200)), ((50, 100), (0, 100)), ((50, 100), (100, 200))]
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from damacy._core import counter_rng
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import Arrays, Extents, counted, cropped, positive, sample_of
from damacy._pipeline.sample import Sample


class Sampler(Protocol):
    """The interface of samplers: the number of samples of an epoch, and each sample."""

    seed: int

    def __len__(self) -> int: ...

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch; the same for the same arguments, in every process."""
        ...


class RandomCrops:
    """Crops of `extents` at random places, of arrays drawn by weight.

    * `arrays`: uris, or a mapping from uri to shape, which avoids reading the metadata. For samples of several arrays
      `{"image": [u0, u1], "label": [v0, v1]}`, or `[{"image": u0, "label": v0}, ...]`: all arrays of a sample are
      cropped at the same place. The cropped axes must have equal sizes.
    * `extents`: one number an axis; for several arrays counted from the last axis, and the leading axes are whole. Or
      a mapping from the names of axes, such as `{"z": 16, "y": 96, "x": 96}`: axes that are not in it are whole, and an
      array may lack some of them, but not the first one.
    * `weights`: one number per array; by default every place of every array is equally likely.
    * `align`: crops start at multiples of these numbers, so that crops of the chunk shape touch only one chunk.
    * `length`: the number of samples of an epoch.
    * `stream`: how places are drawn; the meaning of a number never changes. 2 counts axes from the last one. So crops
      of an image with a leading channel axis, and of its label without one, are at the same place for the same seed. 1
      counts axes from the first one and is needed for states that were saved with it.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Extents,
        *,
        length: int,
        seed: int = 0,
        weights: Sequence[float] | None = None,
        align: int | Sequence[int] = 1,
        stream: int = 2,
    ) -> None:
        self.seed = as_int(seed, "seed")
        self.stream = as_int(stream, "stream")
        if self.stream not in (1, 2):
            raise ValueError(f"stream must be 1 or 2 (got {self.stream})")
        self._length = positive(length, "length")
        crops = cropped(arrays, extents)
        self._extents = crops.extents
        self._align = _per_axis(align, self._extents, "align")
        # Number of the draw for each axis; 0 draws the array.
        self._purposes = tuple(range(1, len(self._extents) + 1)) if self.stream == 1 else crops.from_last
        self._origins = tuple(crops.sizes)
        self._places = [
            tuple((size - extent) // align + 1 for size, extent, align in zip(shape, self._extents, self._align))
            for shape in crops.sizes.values()
        ]
        self._limits = _limits(self._places, weights)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return (
            f"<damacy.samplers.RandomCrops of {self._extents} in {counted(self._origins)}: length={self._length}, "
            f"seed={self.seed}, stream={self.stream}>"
        )

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch: 0 <= index < len(self), else `IndexError`."""
        _check_index(index, self._length)
        return self._drawn(counter_rng.hash64(self.seed, epoch, index), (epoch, index))

    def samples(self, epoch: int, start: int, stop: int) -> list[Sample]:
        """Samples [start, stop) of an epoch, as `sample` returns them, but faster."""
        _check_range(start, stop, self._length)
        state = counter_rng.extended(3, self.seed, epoch)
        return [self._drawn(counter_rng.extended(state, index), (epoch, index)) for index in range(start, stop)]

    def _drawn(self, state: int, row_key: tuple[int, int]) -> Sample:
        draw_below = counter_rng.draw_below
        which = bisect.bisect_right(self._limits, draw_below(self._limits[-1], state, 0))
        box = []
        for count, purpose, align, extent in zip(self._places[which], self._purposes, self._align, self._extents):
            start = draw_below(count, state, purpose) * align
            box.append((start, start + extent))
        return sample_of(self._origins[which], tuple(box), row_key)


class SlidingGrid:
    """All crops of `extents` on a grid over all arrays: for evaluation, and for epochs that cover everything.

    `arrays` are given as to `RandomCrops`. `stride` is the step of the grid, by default `extents`. A last crop that
    would extend beyond the array is moved inside, so every voxel is covered if stride <= extents. With a `seed`, each
    epoch has another random order.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Extents,
        *,
        stride: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> None:
        self.seed = 0 if seed is None else as_int(seed, "seed")
        self._shuffle = seed is not None
        crops = cropped(arrays, extents)
        self._extents = crops.extents
        self._stride = self._extents if stride is None else _per_axis(stride, self._extents, "stride")
        self._arrays = tuple(crops.sizes.items())
        self._grids = [
            tuple(-(-(size - extent) // step) + 1 for size, extent, step in zip(shape, self._extents, self._stride))
            for _, shape in self._arrays
        ]
        self._ends = list(itertools.accumulate(math.prod(grid) for grid in self._grids))

    def __len__(self) -> int:
        return self._ends[-1]

    def __repr__(self) -> str:
        order = f"seed={self.seed}" if self._shuffle else "in order"
        origins = counted(origin for origin, _ in self._arrays)
        return (
            f"<damacy.samplers.SlidingGrid of {self._extents} in {origins}: {len(self)} crops, "
            f"stride={self._stride}, {order}>"
        )

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch: 0 <= index < len(self), else `IndexError`."""
        _check_index(index, len(self))
        return self._cell(epoch, index)

    def samples(self, epoch: int, start: int, stop: int) -> list[Sample]:
        """Samples [start, stop) of an epoch, as `sample` returns them."""
        _check_range(start, stop, len(self))
        return [self._cell(epoch, index) for index in range(start, stop)]

    def _cell(self, epoch: int, index: int) -> Sample:
        place = counter_rng.shuffled(index, len(self), self.seed, epoch) if self._shuffle else index
        which = bisect.bisect_right(self._ends, place)
        at = place - (self._ends[which - 1] if which else 0)
        origin, shape = self._arrays[which]
        starts = []
        for k in reversed(range(len(shape))):
            at, cell = divmod(at, self._grids[which][k])
            starts.append(min(cell * self._stride[k], shape[k] - self._extents[k]))
        box = tuple((start, start + extent) for start, extent in zip(reversed(starts), self._extents))
        return sample_of(origin, box, (epoch, index))


def _limits(places: Sequence[tuple[int, ...]], weights: Sequence[float] | None) -> list[int]:
    """Cumulative weights as integers: a number in [`limits[k - 1]`, `limits[k]`) draws array k."""
    if weights is None:
        return list(itertools.accumulate(math.prod(grid) for grid in places))
    if len(weights) != len(places):
        raise ValueError(f"weights must have one number per array: {len(places)} (got {len(weights)})")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not sum(weights) > 0:
        raise ValueError("weights must be finite and >= 0, and not all 0")
    total = math.fsum(weights)
    scaled = [round(weight / total * (1 << 53)) for weight in weights]
    return list(itertools.accumulate(scaled))


def _per_axis(value: int | Sequence[int], extents: tuple[int, ...], name: str) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Iterable) else (value,) * len(extents)
    if len(values) != len(extents):
        raise ValueError(f"{name} has {len(values)} axes, extents has {len(extents)}")
    return tuple(positive(number, f"{name}[{k}]") for k, number in enumerate(values))


def _check_range(start: int, stop: int, length: int) -> None:
    if not 0 <= start <= stop <= length:
        raise IndexError(f"samples [{start}, {stop}) of an epoch of {length}")


def _check_index(index: int, length: int) -> None:
    if not 0 <= index < length:
        raise IndexError(f"sample {index} of an epoch of {length}")
