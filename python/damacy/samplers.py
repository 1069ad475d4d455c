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
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from damacy._core import counter_rng
from damacy._core.integers import as_int
from damacy._pipeline.array_spec import check_name
from damacy._pipeline.opened_arrays import opened
from damacy._pipeline.sample import Sample, made_named_sample, made_sample, uri_text
from damacy.typing import Source

# A mapping from arrays to their shapes, a list of arrays, or one array. For samples of several arrays a mapping from
# name to the arrays of all samples, or a list of mappings from name to the array of one sample.
Arrays = (
    Mapping[Any, Sequence[int]]
    | Mapping[str, Iterable[Source] | Source]
    | Iterable[Source | Mapping[str, Source]]
    | Source
)

# What a box is cut from: a uri; or for each array of a sample its name, its uri, and the box of its leading axes.
_Box = tuple[tuple[int, int], ...]
_Origin = str | tuple[tuple[str, str, _Box], ...]


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
      cropped at the same place. `extents` then counts axes from the last one; the other, leading axes are whole. The
      cropped axes must have equal sizes.
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
        extents: Sequence[int],
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
        self._length = _positive(length, "length")
        self._extents = _extents(extents)
        self._align = _per_axis(align, self._extents, "align")
        axes = range(1, len(self._extents) + 1)
        self._purposes = axes if self.stream == 1 else axes[::-1]  # number of the draw for each axis; 0 draws the array
        shapes = _shapes(arrays, self._extents)
        self._origins = tuple(shapes)
        self._places = [
            tuple((size - extent) // align + 1 for size, extent, align in zip(shape, self._extents, self._align))
            for shape in shapes.values()
        ]
        self._limits = _limits(self._places, weights)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return (
            f"<damacy.samplers.RandomCrops of {self._extents} in {_counted(self._origins)}: length={self._length}, "
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
        return _sample_of(self._origins[which], tuple(box), row_key)


class SlidingGrid:
    """All crops of `extents` on a grid over all arrays: for evaluation, and for epochs that cover everything.

    `arrays` are given as to `RandomCrops`. `stride` is the step of the grid, by default `extents`. A last crop that
    would extend beyond the array is moved inside, so every voxel is covered if stride <= extents. With a `seed`, each
    epoch has another random order.
    """

    def __init__(
        self,
        arrays: Arrays,
        extents: Sequence[int],
        *,
        stride: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> None:
        self.seed = 0 if seed is None else as_int(seed, "seed")
        self._shuffle = seed is not None
        self._extents = _extents(extents)
        self._stride = self._extents if stride is None else _per_axis(stride, self._extents, "stride")
        shapes = _shapes(arrays, self._extents)
        self._arrays = tuple(shapes.items())
        self._grids = [
            tuple(-(-(size - extent) // step) + 1 for size, extent, step in zip(shape, self._extents, self._stride))
            for _, shape in self._arrays
        ]
        self._ends = list(itertools.accumulate(math.prod(grid) for grid in self._grids))

    def __len__(self) -> int:
        return self._ends[-1]

    def __repr__(self) -> str:
        order = f"seed={self.seed}" if self._shuffle else "in order"
        origins = _counted([origin for origin, _ in self._arrays])
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
        return _sample_of(origin, box, (epoch, index))


def _sample_of(origin: _Origin, box: _Box, row_key: tuple[int, int]) -> Sample:
    if isinstance(origin, str):
        return made_sample(origin, box, row_key)
    return made_named_sample(((name, (uri, leading + box)) for name, uri, leading in origin), row_key)


def _counted(origins: Sequence[_Origin]) -> str:
    """ "1 array", "3 arrays", "2 samples of 'image' and 'label'"."""
    first = origins[0]
    if isinstance(first, str):
        return f"{len(origins)} array" + ("" if len(origins) == 1 else "s")
    names = " and ".join(repr(name) for name, _, _ in first)
    return f"{len(origins)} sample" + ("" if len(origins) == 1 else "s") + f" of {names}"


def _shapes(arrays: Any, extents: tuple[int, ...]) -> dict[_Origin, tuple[int, ...]]:
    """The sizes of the cropped axes by origin, in the given order; opens arrays whose shapes were not given."""
    found = _named_shapes(arrays, len(extents)) if _is_named(arrays) else _shapes_by_uri(arrays, len(extents))
    if not found:
        raise ValueError("arrays must name at least one array")
    for origin, shape in found.items():
        uri = origin if isinstance(origin, str) else origin[0][1]
        for k, (size, extent) in enumerate(zip(shape, extents)):
            if extent > size:
                raise ValueError(f"{uri}: axis {k} has {size} elements, a crop needs {extent}")
    return found


def _shapes_by_uri(arrays: Any, axes: int) -> dict[_Origin, tuple[int, ...]]:
    sources = [arrays] if _is_source(arrays) else arrays
    found: dict[_Origin, tuple[int, ...]]
    if isinstance(sources, Mapping):
        found = {uri_text(uri): tuple(as_int(size, "shape") for size in shape) for uri, shape in sources.items()}
    else:
        found = {text: _look(text) for text in map(uri_text, sources)}
    for uri, shape in found.items():
        if len(shape) != axes:
            raise ValueError(f"{uri}: the array has {len(shape)} axes, extents has {axes}")
    return found


def _is_source(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) or opened(value) is not None


def _look(uri: str) -> tuple[int, ...]:
    from damacy._pipeline.opening import open as look

    return look(uri).shape


def _is_named(arrays: Any) -> bool:
    """Whether samples have several arrays: a mapping to arrays, not to shapes, or a list of mappings."""
    if _is_source(arrays):
        return False
    if isinstance(arrays, Mapping):
        return any(_is_source(value) or not all(map(_is_number, value)) for value in arrays.values())
    return isinstance(arrays, (list, tuple)) and len(arrays) > 0 and isinstance(arrays[0], Mapping)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__")


def _named_shapes(arrays: Any, axes: int) -> dict[_Origin, tuple[int, ...]]:
    found: dict[_Origin, tuple[int, ...]] = {}
    shapes: dict[str, tuple[int, ...]] = {}  # each array is looked at once
    for sample in _by_sample(arrays) if isinstance(arrays, Mapping) else arrays:
        uris = {name: uri_text(source) for name, source in sample.items()}
        for name, uri in uris.items():
            check_name(name)
            if uri not in shapes:
                shapes[uri] = _look(uri)
        origin = tuple((name, uri, _whole(shapes[uri], axes, uri)) for name, uri in uris.items())
        found[origin] = _common_shape(uris, shapes, axes)
    return found


def _by_sample(arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One array stands for every sample."""
    lists = {name: [source] if _is_source(source) else list(source) for name, source in arrays.items()}
    most = max(map(len, lists.values()))
    for name, sources in lists.items():
        if len(sources) not in (1, most):
            raise ValueError(f"arrays[{name!r}] has {len(sources)} arrays, another name has {most}")
    return [{name: sources[k % len(sources)] for name, sources in lists.items()} for k in range(most)]


def _whole(shape: tuple[int, ...], axes: int, uri: str) -> _Box:
    """The box of the leading axes."""
    if len(shape) < axes:
        raise ValueError(f"{uri}: the array has {len(shape)} axes, extents has {axes}")
    return tuple((0, size) for size in shape[: len(shape) - axes])


def _common_shape(uris: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]], axes: int) -> tuple[int, ...]:
    """The sizes of the last axes, which are those of all arrays of a sample."""
    (first, uri), *others = uris.items()
    common = shapes[uri][len(shapes[uri]) - axes :]
    for name, other in others:
        for k in range(1, axes + 1):
            if shapes[other][-k] != common[-k]:
                raise ValueError(
                    f"{other}: axis {-k} of {name!r} has {shapes[other][-k]} elements, that of {first!r} {common[-k]}: "
                    f"the cropped axes of one sample's arrays must have equal sizes"
                )
    return common


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


def _extents(extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(_positive(extent, f"extents[{k}]") for k, extent in enumerate(extents))


def _per_axis(value: int | Sequence[int], extents: tuple[int, ...], name: str) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Iterable) else (value,) * len(extents)
    if len(values) != len(extents):
        raise ValueError(f"{name} has {len(values)} axes, extents has {len(extents)}")
    return tuple(_positive(number, f"{name}[{k}]") for k, number in enumerate(values))


def _positive(value: int, name: str) -> int:
    number = as_int(value, name)
    if number < 1:
        raise ValueError(f"{name} must be >= 1 (got {number})")
    return number


def _check_range(start: int, stop: int, length: int) -> None:
    if not 0 <= start <= stop <= length:
        raise IndexError(f"samples [{start}, {stop}) of an epoch of {length}")


def _check_index(index: int, length: int) -> None:
    if not 0 <= index < length:
        raise IndexError(f"sample {index} of an epoch of {length}")
