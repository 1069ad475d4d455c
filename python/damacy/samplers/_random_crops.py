"""`RandomCrops`: crops at random places."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from damacy._core import counter_rng, counter_rng_many
from damacy._core.counter_rng_many import I64, U64
from damacy._core.integers import as_int
from damacy._pipeline.array_spec import ArraySpec
from damacy._pipeline.cropped_arrays import Arrays, Extents, check_sizes, counted, cut_axes, positive, sample_of
from damacy._pipeline.sample import Sample
from damacy.samplers._augment import Augment, check_augment
from damacy.samplers._regions import Regions, regions_of
from damacy.samplers._sampler import FEW, BoxSampler, PerAxis, check_index, check_range, checked_stream, per_axis
from damacy.samplers._within import Within

_MOST = 1 << 63  # bounds of numbers that NumPy draws


class RandomCrops(BoxSampler):
    """Crops of `extents` at random places, of arrays drawn by weight.

    * `arrays`: uris, or a mapping from uri to shape, which avoids reading the metadata. For samples of several arrays
      `{"image": [u0, u1], "label": [v0, v1]}`, or `[{"image": u0, "label": v0}, ...]`: all arrays of a sample are
      cropped at the same place of the world, see below.
    * `extents`: voxels of the (first) array, one number an axis; for several arrays counted from the last axis, and the
      leading axes are whole. Or a mapping from the names of axes, such as `{"z": 16, "y": 96, "x": 96}`: axes that are
      not in it are whole, and an array may lack some of them, but not the first one.
    * `weights`: one number per array; by default every place of every array is equally likely.
    * `align`: crops start at multiples of these numbers, so that crops of the chunk shape touch only one chunk.
      `align` and `margin` are one number, one for each axis of `extents`, or, where `extents` is a mapping, a mapping
      from some of its axes.
    * `length`: the number of samples of an epoch.
    * `margin`: voxels, for each axis, by which a crop may overhang the array; its `ArraySpec` then needs a `pad`. With
      `within`, only on axes that the split does not cut. Where voxels of the arrays have different sizes, a `Loader`
      refuses `pad="reflect"`, which would mirror the arrays at different places; `"symmetric"` keeps them together.
    * `augment`: `Flips("z")` or `Dihedral("y", "x")` draws a turn for each crop, the same for all arrays of a sample.
    * `within`: a side of a `split`, in whose blocks all crops lie.
    * `stream`: how places are drawn; the meaning of a number never changes. 2 counts axes from the last one. So crops
      of an image with a leading channel axis, and of its label without one, are at the same place for the same seed. 1
      counts axes from the first one and is needed for states that were saved with it.

    Arrays of one sample may have different voxels. Their scales and translations, as `damacy.open` shows them, say
    where they lie. Crops lie in all of them and start where all have a voxel edge: at every second voxel of the image
    if voxels of the label are twice as large. `ValueError` if a crop is not a whole number of voxels of each array.
    `misfit` tells where no edges coincide. Axes of arrays without a scale must have equal sizes.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Extents,
        *,
        length: int,
        seed: int = 0,
        weights: Sequence[float] | None = None,
        align: PerAxis = 1,
        margin: PerAxis = 0,
        augment: Augment | None = None,
        within: Within | None = None,
        stream: int = 2,
    ) -> None:
        self.seed = as_int(seed, "seed")
        self.stream = checked_stream(stream, 1, 2)
        self._length = positive(length, "length")
        crops = cut_axes(arrays, extents)
        self._extents = crops.extents
        self._dims = crops.dims
        self._augment = check_augment(augment, crops.dims)
        axes = len(self._extents)
        margins = per_axis(margin, crops, "margin", others=[0] * axes, least=0)
        check_sizes(crops, margins, may_overhang=within is None)
        self._unlike = {
            key: crops.unlike[key] for key, least in zip(crops.keys, margins) if least and key in crops.unlike
        }
        # Number of the draw for each axis; 0 draws the array.
        self._purposes = tuple(range(1, len(self._extents) + 1)) if self.stream == 1 else crops.from_last
        regions = regions_of(crops, within, per_axis(align, crops, "align", others=[1] * axes), margins)
        self._split_stream = 1 if within is None else within._stream
        self._origins, self._which, self._misfit = regions.origins, regions.which, crops.misfit
        self._low, self._steps = regions.starts(), regions.steps
        self._places = (regions.last_starts(self._extents) - self._low) // self._steps + 1
        self._limits = _limits(self._places, regions, weights)
        # The same in the form that one sample, and many samples, are drawn from sooner.
        self._by_region = list(
            zip(self._which.tolist(), self._low.tolist(), self._places.tolist(), self._steps.tolist())
        )
        self._array_of_limits = np.array(self._limits, np.uint64) if self._limits[-1] <= _MOST else None

    def __len__(self) -> int:
        return self._length

    def _check_pads(self, specs: Mapping[str, ArraySpec]) -> None:
        """`ValueError` if crops that overhang would show arrays of one sample mirrored at different places."""
        for key, arrays in self._unlike.items():
            pads = ((array, specs[array.name]._pad_of(array.keys)) for array in arrays if array.name in specs)
            mirrored = {array: pad for array, pad in pads if pad in ("reflect", "symmetric")}
            if len({array.voxels for array in mirrored}) > 1 and "reflect" in mirrored.values():
                raise ValueError(
                    f"pad='reflect': on axis {key} {' and '.join(array.name for array in mirrored)} have voxels of "
                    "different sizes, and 'reflect' mirrors each at the centre of its last voxel, so they would lie "
                    "beside each other: say pad='symmetric', which mirrors at the edge and keeps them together"
                )

    def __repr__(self) -> str:
        return (
            f"<damacy.samplers.RandomCrops of {self._extents} in {counted(self._origins)}: length={self._length}, "
            f"seed={self.seed}, stream={self.stream}>"
        )

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch: 0 <= index < len(self), else `IndexError`."""
        check_index(index, self._length)
        return self._drawn(counter_rng.hash64(self.seed, epoch, index), (epoch, index))

    def samples(self, epoch: int, start: int, stop: int) -> list[Sample]:
        """Samples [start, stop) of an epoch, as `sample` returns them, but faster. `IndexError` beyond the epoch."""
        if stop - start > FEW:
            return super().samples(epoch, start, stop)
        check_range(start, stop, self._length)
        return self._one_by_one(epoch, range(start, stop))

    def _picked(self, epoch: int, indices: I64) -> list[Sample]:
        if len(indices) > FEW:
            return super()._picked(epoch, indices)
        return self._one_by_one(epoch, indices.tolist())

    def _one_by_one(self, epoch: int, indices: Iterable[int]) -> list[Sample]:
        state = counter_rng.extended(3, self.seed, epoch)
        return [self._drawn(counter_rng.extended(state, index), (epoch, index)) for index in indices]

    def _drawn(self, state: int, row_key: tuple[int, int]) -> Sample:
        draw_below = counter_rng.draw_below
        region = bisect.bisect_right(self._limits, draw_below(self._limits[-1], state, 0))
        which, lows, places, steps = self._by_region[region]
        box = []
        for low, count, purpose, step, extent in zip(lows, places, self._purposes, steps, self._extents):
            start = low + draw_below(count, state, purpose) * step
            box.append((start, start + extent))
        sample = sample_of(self._origins[which], tuple(box), row_key)
        return sample if self._augment is None else self._augment.one(sample, state)

    def _draw(self, epoch: int, indices: I64) -> tuple[I64, I64]:
        states = counter_rng_many.extended(counter_rng.extended(3, self.seed, epoch), indices)
        regions = self._regions_drawn(states)
        boxes = np.empty((len(indices), len(self._extents), 2), np.int64)
        for k, (purpose, extent) in enumerate(zip(self._purposes, self._extents)):
            drawn = counter_rng_many.draw_below(self._places[regions, k].view(np.uint64), states, purpose)
            boxes[:, k, 0] = self._low[regions, k] + drawn * self._steps[regions, k]
            boxes[:, k, 1] = boxes[:, k, 0] + extent
        return self._which[regions], boxes

    def _regions_drawn(self, states: U64) -> I64:
        if self._array_of_limits is None:
            total = self._limits[-1]
            drawn = (counter_rng.draw_below(total, state, 0) for state in states.tolist())
            return np.array([bisect.bisect_right(self._limits, number) for number in drawn], np.int64)
        numbers = counter_rng_many.draw_below(self._limits[-1], states, 0)
        return np.searchsorted(self._array_of_limits, numbers.view(np.uint64), side="right")


def _limits(places: I64, regions: Regions, weights: Sequence[float] | None) -> list[int]:
    """Cumulative weights as integers: a number in [`limits[k - 1]`, `limits[k]`) draws region k."""
    counts = [math.prod(grid) for grid in places.tolist()]
    if weights is None:
        return list(itertools.accumulate(counts))
    if len(weights) != len(regions.origins):
        raise ValueError(f"weights must have one number per array: {len(regions.origins)} (got {len(weights)})")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not sum(weights) > 0:
        raise ValueError("weights must be finite and >= 0, and not all 0")
    used = sorted(set(regions.which.tolist()))
    total = math.fsum(weights[k] for k in used)
    if not total > 0:
        raise ValueError("weights: all arrays on this side of the split have the weight 0")
    scaled = {k: round(weights[k] / total * (1 << 53)) for k in used}
    limits: list[int] = []
    for k, of_array in itertools.groupby(zip(regions.which.tolist(), counts), key=lambda pair: pair[0]):
        ends = list(itertools.accumulate(count for _, count in of_array))
        before = limits[-1] if limits else 0
        limits += [before + scaled[k] * end // ends[-1] for end in ends]
    return limits
