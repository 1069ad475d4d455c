"""`ForegroundCrops`: random crops of which a share holds a class of a label."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from damacy._core import counter_rng, counter_rng_many
from damacy._core.counter_rng_many import I64
from damacy._core.integers import as_int
from damacy._pipeline.array_spec import ArraySpec
from damacy._pipeline.cropped_arrays import Arrays, Extents, Origin
from damacy.samplers._augment import Augment, check_augment
from damacy.samplers._foreground_index import ForegroundIndex
from damacy.samplers._foreground_places import Labels, Places, labels_of, places_of
from damacy.samplers._label_levels import LabelLevel
from damacy.samplers._random_crops import RandomCrops
from damacy.samplers._sampler import BoxSampler, PerAxis, checked_stream
from damacy.samplers._within import Within
from damacy.typing import Progress

_COIN, _CLASS, _BLOCK = 128, 129, 130  # purposes of the draws
_ONE = 1 << 53
_BLOCK_EXTENT = 8  # voxels an axis of the index that is built here


class ForegroundCrops(BoxSampler):
    """Random crops, of which a share holds voxels of a class.

    * `label`: the name of the array that says what a voxel is.
    * `foreground`: the probability that a crop is made to hold at least one voxel of a class. Others are those of
      `RandomCrops`, which may hold some, too.
    * `classes`: drawn evenly; a mapping from class to weight draws by weight. By default all except 0. A class without
      a block that fits, for example on a side of a split, is left out.
    * `index`: a `ForegroundIndex` of all labels, or the path of its file, which is built if it does not exist. By
      default the labels are read when the sampler is made.
    * `level`: of label images, the level of which the index is made. See `ForegroundIndex.build`; a crop then holds the
      place of a voxel that has the class at this level. `ValueError` if `index` is of another level.
    * `progress`: called while the index is built; see `ForegroundIndex.build`.
    * Other arguments are as for `RandomCrops`, with samples of several arrays; `stream` is only 2.

    A block that holds the class is drawn by its number of voxels, then a crop evenly among the places that contain the
    whole block. So no place in a crop is preferred. `ValueError` if blocks are larger than crops.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Extents,
        *,
        length: int,
        label: str = "label",
        foreground: float = 1 / 3,
        classes: Iterable[int] | Mapping[int, float] | None = None,
        index: ForegroundIndex | str | os.PathLike[str] | None = None,
        level: int | None = None,
        progress: Progress | None = None,
        seed: int = 0,
        weights: Sequence[float] | None = None,
        align: PerAxis = 1,
        margin: PerAxis = 0,
        augment: Augment | None = None,
        within: Within | None = None,
        stream: int = 2,
    ) -> None:
        self.stream = checked_stream(stream, 2)
        self._crops = RandomCrops(
            arrays, extents, length=length, seed=seed, weights=weights, align=align, margin=margin, within=within
        )
        self.seed, self._split_stream = self._crops.seed, self._crops._split_stream
        self._augment = check_augment(augment, self._crops._dims)
        self._origins: tuple[Origin, ...] = self._crops._origins
        self._misfit = self._crops._misfit
        if not 0 <= foreground <= 1:
            raise ValueError(f"foreground must be from 0 to 1 (got {foreground})")
        self._foreground = float(foreground)
        wanted = _weights(classes)
        labels = labels_of(self._origins, label)
        found = _index(index, labels, self._crops._extents, wanted, level, progress)
        known = found.classes
        for number in wanted or ():
            if number not in known:
                raise ValueError(f"classes: the index has no voxel of class {number}; it has {_shown(known)}")
        places = places_of(self._crops, labels, found, None if wanted is None else set(wanted))
        if len(places.classes) == 0 and self._foreground > 0:
            raise ValueError("no crop can hold a class: the labels have no foreground, or no block of it fits")
        self._places = places
        # Rows are sorted by class: the classes, where their rows begin, and how the classes are drawn.
        self._classes, begins = np.unique(places.classes, return_index=True)
        ends = np.cumsum(_row_weights(places, weights is not None))
        self._row_ends = ends
        self._class_begins = np.concatenate([[0], ends])[begins]
        self._class_totals = np.diff(np.append(self._class_begins, ends[-1:]))
        shares = [1.0 if wanted is None else wanted[number] for number in self._classes.tolist()]
        scaled = [round(share / math.fsum(shares) * _ONE) for share in shares] if sum(shares) > 0 else []
        self._class_ends = np.array(list(itertools.accumulate(scaled)), np.uint64)

    def __len__(self) -> int:
        return len(self._crops)

    def _check_pads(self, specs: Mapping[str, ArraySpec]) -> None:
        self._crops._check_pads(specs)

    def __repr__(self) -> str:
        return (
            f"<damacy.samplers.ForegroundCrops: {self._foreground:.4g} with classes {_shown(self.classes)}, "
            f"others {self._crops!r}>"
        )

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes that are drawn."""
        return tuple(self._classes.tolist())

    def _draw(self, epoch: int, indices: I64) -> tuple[I64, I64]:
        which, boxes = self._crops._draw(epoch, indices)
        states = counter_rng_many.extended(counter_rng.extended(3, self.seed, epoch), indices)
        coins = counter_rng_many.draw_below(_ONE, states, _COIN)
        chosen = np.flatnonzero(coins < round(self._foreground * _ONE))
        if len(chosen) == 0:
            return which, boxes
        states = states[chosen]
        number = counter_rng_many.draw_below(int(self._class_ends[-1]), states, _CLASS).view(np.uint64)
        classes = np.searchsorted(self._class_ends, number, side="right")
        at = counter_rng_many.draw_below(self._class_totals[classes].view(np.uint64), states, _BLOCK)
        rows = np.searchsorted(self._row_ends, self._class_begins[classes] + at, side="right")
        crops, places = self._crops, self._places
        which[chosen] = crops._which[places.regions[rows]]
        first, counts = places.starts(crops, rows)
        steps = crops._steps[places.regions[rows]]
        for k, (purpose, extent) in enumerate(zip(crops._purposes, crops._extents)):
            drawn = counter_rng_many.draw_below(counts[:, k].view(np.uint64), states, purpose)
            boxes[chosen, k, 0] = first[:, k] + drawn * steps[:, k]
            boxes[chosen, k, 1] = boxes[chosen, k, 0] + extent
        return which, boxes


def _weights(classes: Iterable[int] | Mapping[int, float] | None) -> dict[int, float] | None:
    """The weight of each class; None for all classes."""
    if classes is None:
        return None
    if isinstance(classes, Mapping):
        found = {as_int(number, "classes"): float(weight) for number, weight in classes.items()}
    else:
        found = {as_int(number, "classes"): 1.0 for number in classes}
    if not all(math.isfinite(weight) and weight >= 0 for weight in found.values()) or not sum(found.values()) > 0:
        raise ValueError("classes must have weights that are finite and >= 0, and not all 0")
    return {number: weight for number, weight in found.items() if weight > 0}


def _index(
    index: ForegroundIndex | str | os.PathLike[str] | None,
    labels: Labels,
    extents: tuple[int, ...],
    classes: Mapping[int, float] | None,
    level: int | None,
    progress: Progress | None,
) -> ForegroundIndex:
    if isinstance(index, ForegroundIndex):
        return _of_level(index, level, "index")
    if index is not None and os.path.exists(index):
        kept = ForegroundIndex.load(index)
        if kept._looked_for is not None and (classes is None or not classes.keys() <= set(kept._looked_for)):
            raise ValueError(
                f"{os.fspath(index)} was built for classes {_shown(kept._looked_for)} only: say classes=, or delete it "
                "to build it again"
            )
        return _of_level(kept, level, os.fspath(index))

    def block_of(uri: str, level: LabelLevel) -> tuple[int, ...]:
        """Blocks of 8 voxels, or less if a crop has less."""
        least = [_BLOCK_EXTENT] * len(level.shape)
        for label in labels.distinct:
            if label.uri == uri:
                crop = tuple(size if n is None else n for n, size in zip(label.extents(extents), level.shape))
                least = list(map(min, least, level.extents(crop)))
        return tuple(max(1, extent) for extent in least)

    found = ForegroundIndex._built(
        [label.uri for label in labels.distinct], classes, level, block_of, progress=progress
    )
    if index is not None:
        found.save(index)
    return found


def _of_level(index: ForegroundIndex, level: int | None, name: str) -> ForegroundIndex:
    """The index; `ValueError` if it is of another level than the one that is wanted."""
    for uri in index.uris if level is not None else ():
        if index.level(uri) != level:
            raise ValueError(f"{name} is of level {index.level(uri)} of {uri}, not of level {level}: build it again")
    return index


def _row_weights(places: Places, weighted: bool) -> I64:
    """By how much each row is drawn within its class, as integers."""
    if not weighted:
        return places.counts
    weights = places.counts * places.densities
    classes, which = np.unique(places.classes, return_inverse=True)
    sums = np.zeros(len(classes))
    np.add.at(sums, which, weights)
    return np.maximum(1, np.round(weights / sums[which] * (1 << 40))).astype(np.int64)


def _shown(classes: Sequence[int]) -> str:
    return ", ".join(map(str, classes[:8])) + (f" (+{len(classes) - 8} more)" if len(classes) > 8 else "") or "none"
