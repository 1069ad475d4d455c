"""`Windows`: steps before and after a time, of one or several arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from damacy._core import counter_rng, counter_rng_many
from damacy._core.counter_rng_many import I64
from damacy._core.errors import NotFound
from damacy._core.integers import as_int, elements
from damacy._open.arrays import Array
from damacy._open.coordinates import has_times, values
from damacy._open.opening import open_array, open_group
from damacy._pipeline.cropped_arrays import Extents, positive
from damacy._pipeline.sample import Sample, made_stacked_sample
from damacy._pipeline.take import Take
from damacy.samplers._sampler import PortionSampler, checked_stream
from damacy.samplers._window_arrays import TIME, WindowArrays, WindowSource, window_arrays
from damacy.samplers._within import Within


class Windows(PortionSampler):
    """Windows along the time, or another axis. A sample has, for each name, the steps around a time t.

    * `arrays`: for each name a source and its offsets from t, half-open: with `{"x": (u, (-3, 1)), "y": (u, (6, 7))}` a
      sample has the four steps up to t, and the one six steps later. A source is a uri, a list of uris, or a group and
      the names of its arrays: `("era5.zarr", ["t2m", "u10"])`. Lists and groups are stacked along a new first axis. A
      source without the time axis, such as a land-sea mask, has None for its offsets, and is the same in each sample.
    * `dim`: the name or the number of the axis. All arrays have the same size on it.
    * `step`: elements from one offset to the next: with `step=6` of an hourly array, offsets count six hours.
    * `stride`: each so many-th t is a sample, from the first one for which all offsets exist.
    * `within`: a pair of steps, or a side of a `split`, in which all steps of a window lie.
    * `extents`: of a random crop on other axes, as for `RandomCrops`. Without it these axes are whole. Crops lie inside
      the arrays. None crosses the ends of an axis, even of a periodic one such as longitude.
    * `length`: the number of samples of an epoch, by default the number of windows. If it is greater, they repeat.
    * `seed`: each epoch has another random order. Without a seed windows are in order.
    * `stream`: the version of the random order. 3 draws all orders of fewer than 4,096 windows equally often; 2 is
      needed for states that were saved with it.
    """

    def __init__(
        self,
        arrays: Mapping[str, tuple[WindowSource, tuple[int, int] | None]],
        *,
        dim: str | int = "time",
        stride: int = 1,
        step: int = 1,
        within: tuple[int, int] | Within | None = None,
        extents: Extents | None = None,
        length: int | None = None,
        seed: int | None = None,
        stream: int = 3,
    ) -> None:
        known = checked_stream(stream, 2, 3)
        self.stream = 2 if seed is None else known  # which differ in the random order only
        self.seed = 0 if seed is None else as_int(seed, "seed")
        self._shuffle = seed is not None
        self._stride = positive(stride, "stride")
        self._dim = dim
        found = window_arrays(arrays, dim, extents, positive(step, "step"))
        self._names, self._extents, self._purposes = found.names, found.extents, found.from_last[1:]
        self._timed = found.timed[0]
        offsets = found.offsets
        self._dim_name = found.dim
        self._coordinate: npt.NDArray[Any] | None = None  # read by times
        bounds = _bounds(found, within)
        self._split_stream = within._stream if isinstance(within, Within) else 1
        # For each region the first t, and the first place and the number of places of crops.
        first = np.maximum(bounds[:, 0, 0] - offsets[0], 0)
        last = np.minimum(bounds[:, 0, 1] - offsets[1], found.sizes[0] - 1)
        counts = np.maximum((last - first) // self._stride + 1, 0)
        places = bounds[:, 1:, 1] - bounds[:, 1:, 0] - np.array(self._extents, np.int64) + 1
        used = (counts > 0) & (places > 0).all(axis=1)
        if not used.any():
            raise ValueError(f"no window of offsets {offsets} has room on axis {dim!r} of {elements(found.sizes[0])}")
        self._first, self._low, self._places = first[used], bounds[used, 1:, 0], places[used]
        self._ends = np.cumsum(counts[used])
        self._length = int(self._ends[-1]) if length is None else positive(length, "length")

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        names = " and ".join(repr(name.name) for name in self._names)
        crop = f", crops of {self._extents}" if self._extents else ""
        order = f"seed={self.seed}" if self._shuffle else "in order"
        return (
            f"<damacy.samplers.Windows of {names} along {self._dim!r}{crop}: {self._ends[-1]} windows, "
            f"length={self._length}, stride={self._stride}, {order}>"
        )

    def boxes(self, epoch: int, start: int, stop: int) -> I64:
        """Only the boxes of these samples, of the first name with offsets: an array of shape (n, axes, 2), in elements.

        `axes` are `dim`, and the axes of `extents` in the order of the array. `IndexError` beyond the epoch.
        """
        return super().boxes(epoch, start, stop)

    def times(self, samples: Iterable[Sample]) -> npt.NDArray[Any]:
        """The coordinate of the time t of each sample of this sampler.

        Reads the array next to the first one with offsets that is named as `dim`, else the only one there with this
        axis alone and with times, such as `dates`. Times with CF units of a standard calendar are `datetime64`.
        `ValueError` if `dim` has no name; `damacy.NotFound` if there is no such array.
        """
        if self._coordinate is None:
            if self._dim_name is None:
                raise ValueError(f"times: axis {self._dim!r} has no name, so no array has its coordinates")
            group = self._timed.members[0].uri.rstrip("/").rpartition("/")[0]
            self._coordinate = values(_coordinate_of(group, self._dim_name))
        first = self._timed
        axis = first.members[0].axes.index(TIME)
        places = []
        for sample in samples:
            steps = sample.arrays[first.name][0][1][axis]
            if isinstance(steps, Take):
                raise ValueError("times: the sample is not one of this sampler")
            places.append((steps.start if isinstance(steps, range) else steps[0]) - first.first)
        return self._coordinate[np.array(places, np.int64)]

    def _samples_at(self, epoch: int, indices: I64, keys: Iterable[int]) -> list[Sample]:
        times, boxes = self._draw(epoch, indices)
        crops = [list(map(tuple, axis)) for axis in boxes.swapaxes(0, 1).tolist()]
        entries = zip(*(name.entries(times.tolist(), crops) for name in self._names))
        return [made_stacked_sample(arrays, (epoch, key)) for arrays, key in zip(entries, keys)]

    def _boxes_at(self, epoch: int, indices: I64) -> I64:
        times, boxes = self._draw(epoch, indices)
        first = self._timed
        steps = times[:, None, None] + np.array([first.first, first.stop])
        return np.concatenate([steps, boxes], axis=1)

    def _draw(self, epoch: int, indices: I64) -> tuple[I64, I64]:
        """For each index its t, and its crop on the other axes: arrays of shapes (n,) and (n, axes, 2)."""
        count = int(self._ends[-1])
        windows = indices % count
        if self._shuffle:
            shuffled = counter_rng_many.shuffled if self.stream == 2 else counter_rng_many.evenly_shuffled
            windows = shuffled(windows, count, self.seed, epoch)
        regions = np.searchsorted(self._ends, windows, side="right")
        before = np.concatenate([[0], self._ends])[regions]
        times = self._first[regions] + (windows - before) * self._stride
        boxes = np.empty((len(indices), len(self._extents), 2), np.int64)
        states = counter_rng_many.extended(counter_rng.extended(3, self.seed, epoch), indices)
        for k, (purpose, extent) in enumerate(zip(self._purposes, self._extents)):
            drawn = counter_rng_many.draw_below(self._places[regions, k].view(np.uint64), states, purpose)
            boxes[:, k, 0] = self._low[regions, k] + drawn
            boxes[:, k, 1] = boxes[:, k, 0] + extent
        return times, boxes


def _coordinate_of(group: str, dim: str) -> Array:
    """The array of a group that is named as an axis, else the only one with this axis alone and with times."""
    try:
        return open_array(f"{group}/{dim}")
    except NotFound as missing:
        try:
            nodes = open_group(group).variables.values()
        except NotFound:
            raise missing from None
        found = [node for node in nodes if node.dims == (dim,) and has_times(node)]
        if len(found) != 1:
            raise
        return found[0]


def _bounds(arrays: WindowArrays, within: tuple[int, int] | Within | None) -> I64:
    """The regions that windows lie in: an array of shape (regions, 1 + cropped axes, 2)."""
    if isinstance(within, Within):
        first, stop = arrays.offsets
        within._decide((stop - first, *arrays.extents), arrays.from_last)
        return within._bounds(arrays.timed[0].members[0].uri, arrays.sizes, arrays.from_last)
    bounds = np.array([[(0, size) for size in arrays.sizes]], np.int64)
    if within is not None:
        if not isinstance(within, (tuple, list)) or len(within) != 2:
            raise TypeError(f"within must be (start, stop), or a side of a split (got {type(within).__name__})")
        start, stop = as_int(within[0], "within: start"), as_int(within[1], "within: stop")
        if start == stop:
            raise ValueError(f"within: [{start}, {stop}) is empty; the axis has {elements(arrays.sizes[0])}")
        if not 0 <= start < stop <= arrays.sizes[0]:
            raise ValueError(f"within: [{start}, {stop}) is not in the {elements(arrays.sizes[0])} of the axis")
        bounds[0, 0] = start, stop
    return bounds
