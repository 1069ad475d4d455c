"""`Sampler`, the interface of samplers; the base classes of those that draw many samples at once; checks of
arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._core.integers import as_int
from damacy._pipeline.array_spec import ArraySpec
from damacy._pipeline.cropped_arrays import Cropped, Origin, not_negative, positive, samples_of
from damacy._pipeline.sample import Sample, with_row_key
from damacy.samplers._augment import Augment

FEW = 24  # so many samples are drawn sooner one by one than by NumPy


class Sampler(Protocol):
    """The interface of samplers: the number of samples of an epoch, and each sample.

    A sampler may also have `samples(epoch, start, stop)`, which returns a list; loaders call it if it is there.
    """

    seed: int

    def __len__(self) -> int: ...

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch; the same for the same arguments, in every process."""
        ...


class PortionSampler:
    """A sampler that computes many samples at once.

    Subclasses define `__len__`, `_samples_at` and `_boxes_at`, which get valid indices.
    """

    seed: int
    _split_stream: int = 1  # of the split whose side the sampler draws from

    def __len__(self) -> int:
        raise NotImplementedError

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch: 0 <= index < len(self), else `IndexError`."""
        check_index(index, len(self))
        return self.samples(epoch, index, index + 1)[0]

    def samples(self, epoch: int, start: int, stop: int) -> list[Sample]:
        """Samples [start, stop) of an epoch, as `sample` returns them, but faster. `IndexError` beyond the epoch."""
        check_range(start, stop, len(self))
        return self._samples_at(epoch, np.arange(start, stop), range(start, stop))

    def boxes(self, epoch: int, start: int, stop: int) -> I64:
        """Only the boxes of these samples: an array of shape (n, axes, 2), starts and stops in voxels.

        `axes` are the cropped axes, in the order of the first array: all axes, if samples have one array and `extents`
        are numbers. `IndexError` beyond the epoch.
        """
        check_range(start, stop, len(self))
        return self._boxes_at(epoch, np.arange(start, stop))

    def _picked(self, epoch: int, indices: I64) -> list[Sample]:
        """The samples of these indices, each with its own row key."""
        return self._samples_at(epoch, indices, indices.tolist())

    def _samples_at(self, epoch: int, indices: I64, keys: Iterable[int]) -> list[Sample]:
        """The samples of these indices; the keys are the indices of their rows."""
        raise NotImplementedError

    def _boxes_at(self, epoch: int, indices: I64) -> I64:
        raise NotImplementedError


class PickingSampler(PortionSampler):
    """A sampler of the samples of another one, or of a sequence: subclasses define `_picks`, and set `_length`."""

    _length: int

    def __init__(self, samples: Any) -> None:
        if not hasattr(samples, "sample") and not (hasattr(samples, "__getitem__") and hasattr(samples, "__len__")):
            raise TypeError(f"samples must be a sampler or a sequence of Sample (got {type(samples).__name__})")
        self._samples = samples
        self._split_stream = getattr(samples, "_split_stream", 1)

    def __len__(self) -> int:
        return self._length

    def _picks(self, epoch: int, indices: I64) -> I64:
        """The indices that the samples of these indices have there."""
        raise NotImplementedError

    def _shown_samples(self) -> str:
        """The other sampler's `repr`, or the number of samples."""
        return repr(self._samples) if hasattr(self._samples, "sample") else f"{len(self._samples)} samples"

    def _check_pads(self, specs: Mapping[str, ArraySpec]) -> None:
        if callable(check := getattr(self._samples, "_check_pads", None)):
            check(specs)

    def _samples_at(self, epoch: int, indices: I64, keys: Iterable[int]) -> list[Sample]:
        samples, picks = self._samples, self._picks(epoch, indices)
        if isinstance(samples, PortionSampler):
            return samples._samples_at(epoch, picks, keys)
        found = (samples.sample(epoch, k) if hasattr(samples, "sample") else samples[k] for k in picks.tolist())
        return [with_row_key(sample, (epoch, key)) for sample, key in zip(found, keys)]

    def _boxes_at(self, epoch: int, indices: I64) -> I64:
        """`ValueError` if their numbers of axes differ."""
        if isinstance(self._samples, PortionSampler):
            return self._samples._boxes_at(epoch, self._picks(epoch, indices))
        found = [sample.aabb for sample in self._picked(epoch, indices)]
        return np.array(found, np.int64).reshape(len(found), -1, 2)


class BoxSampler(PortionSampler):
    """A sampler that computes boxes: subclasses define `_draw`, and `_origins`, the arrays of the samples."""

    _origins: tuple[Origin, ...]
    _augment: Augment | None = None
    _misfit: Mapping[str, Mapping[str | int, float]] = {}

    @property
    def misfit(self) -> dict[str, dict[str | int, float]]:
        """By array name and axis, how far the voxels of an array lie beside those of the first array, in its voxels.

        Empty if the voxel edges of all arrays coincide. Otherwise the nearest voxels are taken: at most half a voxel of
        the coarser array beside the place, and above 0 if they lie below it. An axis has the largest misfit of all
        samples.
        """
        return {name: dict(axes) for name, axes in self._misfit.items()}

    def _draw(self, epoch: int, indices: I64) -> tuple[I64, I64]:
        """For each index the number of its origin, and its box: arrays of shapes (n,) and (n, axes, 2)."""
        raise NotImplementedError

    def _samples_at(self, epoch: int, indices: I64, keys: Iterable[int]) -> list[Sample]:
        which, boxes = self._draw(epoch, indices)
        samples = samples_of(self._origins, which, boxes, epoch, keys)
        return samples if self._augment is None else self._augment.many(samples, self.seed, epoch, indices)

    def _boxes_at(self, epoch: int, indices: I64) -> I64:
        return self._draw(epoch, indices)[1]


PerAxis = int | Sequence[int] | Mapping[str, int]
"""One number for all cropped axes, one for each of them, or a mapping from the names of some of them."""


def per_axis(
    value: PerAxis, crops: Cropped, name: str, *, others: Sequence[int], least: Literal[0, 1] = 1
) -> tuple[int, ...]:
    """One number for each cropped axis, of `least` or more; `ValueError` for others. `others`: the numbers of axes that
    a mapping does not name."""
    check = positive if least else not_negative
    if isinstance(value, Mapping):
        for axis in value:
            if not isinstance(axis, str) or axis not in crops.keys:
                names = ", ".join(repr(key) for key in crops.keys if isinstance(key, str))
                raise ValueError(f"{name}: no axis {axis!r}; extents has {names or 'no names of axes'}")
        return tuple(
            check(value[axis], f"{name}[{axis!r}]") if isinstance(axis, str) and axis in value else other
            for axis, other in zip(crops.keys, others)
        )
    values = tuple(value) if isinstance(value, Iterable) else (value,) * len(crops.extents)
    if len(values) != len(crops.extents):
        raise ValueError(f"{name} has {len(values)} axes, extents has {len(crops.extents)}")
    return tuple(check(number, f"{name}[{k}]") for k, number in enumerate(values))


def check_range(start: int, stop: int, length: int) -> None:
    if not 0 <= start <= stop <= length:
        raise IndexError(f"samples [{start}, {stop}) of an epoch of {length}")


def checked_stream(stream: int, *known: int) -> int:
    """The number of a random stream; `ValueError` if it is none of those that the sampler knows."""
    number = as_int(stream, "stream")
    if number not in known:
        raise ValueError(f"stream must be {' or '.join(map(str, known))} (got {number})")
    return number


def check_index(index: int, length: int) -> None:
    if not 0 <= index < length:
        raise IndexError(f"sample {index} of an epoch of {length}")
