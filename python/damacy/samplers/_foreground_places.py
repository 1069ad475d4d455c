"""Where crops may start that hold a block of a label: for every block the region that it lies in. Draws nothing."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from damacy._core.counter_rng_many import I64
from damacy._pipeline.cropped_arrays import Origin
from damacy._pipeline.same_place import Scaled
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


class Label(NamedTuple):
    """The label of a sample."""

    uri: str
    axes: tuple[Scaled | None, ...]
    """For each axis how it lies on an axis of the crop, or None where the axis is whole."""

    def extents(self, of_crop: tuple[int, ...]) -> tuple[int | None, ...]:
        """Of a crop in voxels of the label; None where the axis is whole."""
        return tuple(None if axis is None else of_crop[axis.axis] * axis.times // axis.per for axis in self.axes)


@dataclasses.dataclass(frozen=True, slots=True)
class Labels:
    """The labels of samples."""

    of_origins: tuple[Label, ...]

    @property
    def distinct(self) -> tuple[Label, ...]:
        return tuple(dict.fromkeys(self.of_origins))


def labels_of(origins: tuple[Origin, ...], name: str) -> Labels:
    """`ValueError` if samples have no array of that name."""
    found: list[Label] = []
    for origin in origins:
        members = {} if isinstance(origin, str) else {each: (uri, axes) for each, uri, axes in origin}
        if name not in members:
            named = [each for each in members if each]
            if not named:
                raise ValueError(f"label: give arrays by name, {{'image': images, {name!r}: labels}}")
            raise ValueError(
                f"label: no array {name!r}; there are {', '.join(map(repr, named))}: say label={named[-1]!r}"
            )
        uri, axes = members[name]
        scaled = (Scaled(axis, 1, 1, 0) if isinstance(axis, int) else axis for axis in axes)
        found.append(Label(uri, tuple(axis if isinstance(axis, Scaled) else None for axis in scaled)))
    return Labels(tuple(found))


def places_of(crops: RandomCrops, labels: Labels, index: ForegroundIndex, classes: set[int] | None) -> Places:
    """The blocks that fit. `ValueError` if blocks are larger than crops."""
    by_label: dict[Label, tuple[I64, I64, I64]] = {}
    for each in labels.distinct:
        label = index._label(each.uri)
        wanted = label.classes != 0 if classes is None else np.isin(label.classes, np.array(sorted(classes)))
        bounds = np.empty((int(wanted.sum()), len(crops._extents), 2), np.int64)
        bounds[:, :, 0], bounds[:, :, 1] = _ANYWHERE, -_ANYWHERE
        of_label, block = index._bounds(each.uri)[wanted], index._block_on_label(each.uri)
        for k, (axis, extent) in enumerate(zip(each.axes, each.extents(crops._extents))):
            if axis is None or extent is None:
                continue
            bounds[:, axis.axis, 0], bounds[:, axis.axis, 1] = axis.hull(of_label[:, k, 0], of_label[:, k, 1])
            if block[k] > extent:
                raise ValueError(
                    f"{each.uri}: the index has blocks of {block[k]} voxels on axis {k}, a crop has "
                    f"{extent}: build it with smaller blocks, fewer classes, more max_bytes or of a finer level"
                )
        by_label[each] = label.classes[wanted], label.counts[wanted], bounds
    weights = np.diff(np.array([0, *crops._limits], np.float64))
    sizes = np.array([math.prod(grid) for grid in crops._places.tolist()], np.float64)
    columns: list[tuple[I64, I64, I64, I64]] = []
    many = len(crops._which) > len(crops._origins)
    near = {each: _Near(bounds) if many else None for each, (_, _, bounds) in by_label.items()}
    for region, which in enumerate(crops._which.tolist()):
        if weights[region] == 0:
            continue
        each = labels.of_origins[which]
        found, counts, bounds = by_label[each]
        search = near[each]
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
        steps = crops._places[region, self._axis] * crops._steps[region, self._axis]
        high = low + steps + crops._extents[self._axis]
        first, last = np.searchsorted(self._sorted, [low, high])
        return self._order[first:last]


def _starts(crops: RandomCrops, regions: I64, bounds: I64) -> tuple[I64, I64]:
    steps, extents = crops._steps[regions], np.array(crops._extents, np.int64)
    low = crops._low[regions]
    last = low + (crops._places[regions] - 1) * steps
    first = np.maximum(low, low - (low + extents - bounds[:, :, 1]) // steps * steps)
    last = np.minimum(last, low + (bounds[:, :, 0] - low) // steps * steps)
    return first, (last - first) // steps + 1
