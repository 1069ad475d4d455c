"""Where crops may start that hold a block of a label: for every block the region that it lies in. Draws nothing."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from damacy._core.counter_rng_many import I64
from damacy._pipeline.cropped_arrays import Origin
from damacy.samplers._foreground_index import ForegroundIndex
from damacy.samplers._random_crops import RandomCrops

_ANYWHERE = 1 << 60  # on axes that a label lacks, a crop may start wherever its region allows


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """Rows are blocks with a class that a crop can hold, sorted by class."""

    classes: I64
    counts: I64
    """Voxels of the class in the block."""
    regions: I64
    """The number of the region that holds it."""
    densities: npt.NDArray[np.float64]
    """How likely one place of that region is, relative to a place of other regions."""
    bounds: I64
    """Of the block, on the axes of crops: an array of shape (n, axes, 2)."""

    def starts(self, crops: RandomCrops, rows: I64) -> tuple[I64, I64]:
        """For each row and axis the first start of a crop that holds the block, and the number of starts."""
        return _starts(crops, self.regions[rows], self.bounds[rows])


@dataclasses.dataclass(frozen=True, slots=True)
class Labels:
    """The labels of samples."""

    of_origins: tuple[str, ...]
    """For each origin the uri of its label."""
    axes: dict[str, tuple[int | None, ...]]
    """For each uri and axis the crop's axis, or None where the axis is whole."""


def labels_of(origins: tuple[Origin, ...], name: str) -> Labels:
    """`ValueError` if samples have no array of that name."""
    uris: list[str] = []
    found: dict[str, tuple[int | None, ...]] = {}
    for origin in origins:
        members = {} if isinstance(origin, str) else {each: (uri, axes) for each, uri, axes in origin}
        if name not in members:
            there = ", ".join(repr(each) for each in members if each) or "one without a name"
            raise ValueError(f"label: no array {name!r}; there are {there}")
        uri, axes = members[name]
        uris.append(uri)
        found[uri] = tuple(axis if isinstance(axis, int) else None for axis in axes)
    return Labels(tuple(uris), found)


def places_of(crops: RandomCrops, labels: Labels, index: ForegroundIndex, classes: set[int] | None) -> Places:
    """The blocks that fit. `ValueError` if blocks are larger than crops."""
    by_uri: dict[str, tuple[I64, I64, I64]] = {}
    for uri, axes in labels.axes.items():
        label = index._label(uri)
        wanted = label.classes != 0 if classes is None else np.isin(label.classes, np.array(sorted(classes)))
        bounds = np.empty((int(wanted.sum()), len(crops._extents), 2), np.int64)
        bounds[:, :, 0], bounds[:, :, 1] = _ANYWHERE, -_ANYWHERE
        of_label = label.bounds()[wanted]
        for k, axis in enumerate(axes):
            if axis is None:
                continue
            bounds[:, axis] = of_label[:, k]
            if min(label.block[k], label.shape[k]) > crops._extents[axis]:
                raise ValueError(
                    f"{uri}: the index has blocks of {label.block[k]} voxels on axis {k}, a crop has "
                    f"{crops._extents[axis]}: build it with smaller blocks, fewer classes or more max_bytes"
                )
        by_uri[uri] = label.classes[wanted], label.counts[wanted], bounds
    weights = np.diff(np.array([0, *crops._limits], np.float64))
    sizes = np.array([math.prod(grid) for grid in crops._places.tolist()], np.float64)
    columns: list[tuple[I64, I64, I64, I64]] = []
    many = len(crops._which) > len(crops._origins)
    near = {uri: _Near(bounds) if many else None for uri, (_, _, bounds) in by_uri.items()}
    for region, which in enumerate(crops._which.tolist()):
        if weights[region] == 0:
            continue
        uri = labels.of_origins[which]
        found, counts, bounds = by_uri[uri]
        search = near[uri]
        rows = np.arange(len(found)) if search is None else search.rows(crops, region)
        regions = np.full(len(rows), region)
        fits = (_starts(crops, regions, bounds[rows])[1] > 0).all(axis=1)
        rows = rows[fits]
        columns.append((found[rows], counts[rows], regions[fits], bounds[rows]))
    found, counts, regions, bounds = (np.concatenate(column) for column in zip(*columns))
    order = np.argsort(found, kind="stable")
    regions = regions[order]
    return Places(found[order], counts[order], regions, (weights / sizes)[regions], bounds[order])


class _Near:
    """Finds the blocks that begin in a region, on the axis with the most places of blocks."""

    def __init__(self, bounds: I64) -> None:
        starts = bounds[:, :, 0]
        self._axis = max(range(starts.shape[1]), key=lambda k: len(np.unique(starts[:, k])))
        self._order = np.argsort(starts[:, self._axis], kind="stable")
        self._sorted = starts[self._order, self._axis]

    def rows(self, crops: RandomCrops, region: int) -> I64:
        low = crops._low[region, self._axis]
        if len(self._sorted) and self._sorted[0] == _ANYWHERE:
            return self._order
        high = low + crops._places[region, self._axis] * crops._align[self._axis] + crops._extents[self._axis]
        first, last = np.searchsorted(self._sorted, [low, high])
        return self._order[first:last]


def _starts(crops: RandomCrops, regions: I64, bounds: I64) -> tuple[I64, I64]:
    steps, extents = np.array(crops._align, np.int64), np.array(crops._extents, np.int64)
    low = crops._low[regions]
    last = low + (crops._places[regions] - 1) * steps
    first = np.maximum(low, -((extents - bounds[:, :, 1]) // steps) * steps)
    last = np.minimum(last, bounds[:, :, 0] // steps * steps)
    return first, (last - first) // steps + 1
