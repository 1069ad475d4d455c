"""Sums of windows in planes, which are freed when they are final. Knows where windows lie, not where planes go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from damacy._stitch.windows import Box, Region

Elements = np.ndarray[Any, Any]
Write = Callable[[Box, Elements], None]
Index = tuple[Any, ...]


@dataclasses.dataclass(slots=True)
class Plane:
    """Sums and weights of voxels; for `"crop"` the values so far, and their distances."""

    values: Elements
    """Channels, then the axes of the volume without the one along which planes lie."""
    weights: Elements
    """Without channels."""

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.weights.nbytes


class Slab:
    """Final voxels that are written together, in the output's element type."""

    def __init__(self, box: Box, axis: int, channels: int, dtype: np.dtype[Any]) -> None:
        self.box = box
        self.elements = np.empty((channels, *(high - low for low, high in box)), dtype)
        self.has_windows = False
        self._axis = axis

    def set_plane(self, place: int, values: Any) -> None:
        every: Index = (slice(None),) * (self._axis + 1)
        self.elements[(*every, place - self.box[self._axis][0])] = values


class Sums:
    """Adds windows in grid order and passes final voxels to `write`, in the output's element type.

    Args:
        window: the weight of each voxel of a window, f32, or for `"crop"` its distance, an integer.
        slab_ends: for an axis, voxels are written up to multiples of this number, so that chunks are written once.
            None: as soon as they are final.
    """

    def __init__(
        self,
        window: Elements,
        channels: int,
        dtype: np.dtype[Any],
        is_crop: bool,
        slab_ends: Callable[[int], int | None],
    ) -> None:
        self._window = window
        self._channels = channels
        self._dtype = dtype
        self._is_crop = is_crop
        self._is_constant = not is_crop and bool((window == 1).all())
        self._slab_ends = slab_ends
        self._planes: dict[int, Plane] = {}
        self._volume: Box = ()
        self._slab: Slab | None = None
        self._done = 0  # planes before it are in a slab, or written
        self.peak_bytes = window.nbytes  # the most that was held at a time

    def add(self, region: Region, index: int, prediction: Elements | None, write: Write) -> None:
        """Add a window's prediction: channels, then the axes of the window. None: it is left out."""
        if region.begins_volume(index):
            self._volume = region.volume(index)
            self._done = self._volume[region.axis][0]
        if prediction is not None:
            self._add(region.axis, region.box(index), prediction)
        if (final := region.final_before(index)) is not None:
            self._finish_before(final, region, write)

    def _add(self, axis: int, box: Box, prediction: Elements) -> None:
        in_volume = [slice(start - low, stop - low) for (start, stop), (low, _) in zip(box, self._volume)]
        of_plane: Index = (..., *in_volume[:axis], *in_volume[axis + 1 :])  # an ellipsis gives a view in any case
        every: Index = (slice(None),) * axis
        for number, place in enumerate(range(*box[axis])):
            plane = self._planes.get(place) or self._new_plane(axis, place)
            in_window: Index = (*every, number)
            weight = self._window[in_window]
            added = prediction[(slice(None), *in_window)]
            values, weights = plane.values[of_plane], plane.weights[of_plane]
            if self._is_crop:
                nearer = weight < weights
                np.copyto(values, added, where=nearer, casting="unsafe")
                np.copyto(weights, weight, where=nearer)
            else:
                added = added.astype(np.float32, copy=False)
                values += added if self._is_constant else added * weight
                weights += weight

    def _new_plane(self, axis: int, place: int) -> Plane:
        lengths = [high - low for low, high in self._volume]
        shape = (*lengths[:axis], *lengths[axis + 1 :])
        values = np.zeros((self._channels, *shape), self._dtype if self._is_crop else np.float32)
        kind = self._window.dtype
        plane = Plane(values, np.full(shape, np.iinfo(kind).max, kind) if self._is_crop else np.zeros(shape, kind))
        self._planes[place] = plane
        self._note()
        return plane

    def _finish_before(self, final: int, region: Region, write: Write) -> None:
        """Convert planes, free them, and write those that fill a slab."""
        while self._done < final:
            slab = self._slab = self._slab or self._new_slab(final, region)
            plane = self._planes.pop(self._done, None)
            slab.has_windows |= plane is not None
            slab.set_plane(self._done, fill_value(self._dtype) if plane is None else self._finished(plane))
            self._done += 1
            if self._done == slab.box[region.axis][1]:
                if slab.has_windows:
                    write(slab.box, slab.elements)
                self._slab = None

    def _new_slab(self, final: int, region: Region) -> Slab:
        axis, start = region.axis, self._done
        ends = self._slab_ends(axis)
        if ends is None:
            stop = min(final, start + region.longest_step)
        else:
            stop = min(self._volume[axis][1], (start // ends + 1) * ends)
        box = (*self._volume[:axis], (start, stop), *self._volume[axis + 1 :])
        slab = Slab(box, axis, self._channels, self._dtype)
        self._note(slab.elements.nbytes)
        return slab

    def _finished(self, plane: Plane) -> Elements:
        if self._is_crop:
            nothing = plane.weights == np.iinfo(plane.weights.dtype).max
            np.copyto(plane.values, fill_value(self._dtype), where=nothing)
            return plane.values
        nothing = plane.weights == 0
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            np.divide(plane.values, plane.weights, out=plane.values)
            values = plane.values if self._dtype.kind == "f" else rounded(plane.values, self._dtype)
            values = values.astype(self._dtype, copy=False)
        np.copyto(values, fill_value(self._dtype), where=nothing)
        return values

    def _note(self, more: int = 0) -> None:
        slab = 0 if self._slab is None else self._slab.elements.nbytes
        held = self._window.nbytes + sum(plane.nbytes for plane in self._planes.values()) + slab + more
        self.peak_bytes = max(self.peak_bytes, held)


def bytes_needed(
    region: Region, window: Elements, channels: int, dtype: np.dtype[Any], is_crop: bool, slab_ends: int | None
) -> int:
    """The most bytes that `Sums` holds for a region: the window's weights, planes, and a slab."""
    planes = region.axes[region.axis].extent
    of_voxel = channels * (dtype.itemsize if is_crop else 4) + window.dtype.itemsize
    slab = region.longest_step if slab_ends is None else slab_ends
    low, high = region.volume(region.first)[region.axis]
    slab_bytes = min(slab, high - low) * channels * dtype.itemsize
    rounding = 0 if is_crop or dtype.kind == "f" else channels * (8 + dtype.itemsize + 3)  # of one plane
    needed: int = window.nbytes + region.plane_size * (planes * of_voxel + slab_bytes + rounding)
    return needed


def fill_value(dtype: np.dtype[Any]) -> Any:
    """Of voxels that no window reaches: NaN if the type has it, else 0."""
    return dtype.type("nan" if dtype.kind == "f" else 0)


def rounded(values: Elements, dtype: np.dtype[Any]) -> Elements:
    """Floats as integers: rounded to the nearest, ties to even, and limited to the type's range. NaN becomes 0.

    >>> rounded(np.array([0.5, 1.5, 300, -1, np.nan]), np.dtype("u1")).tolist()
    [0, 2, 255, 0, 0]
    """
    limits = np.iinfo(dtype)
    near = np.rint(values.astype(np.float64))
    low, high = near <= float(limits.min), near >= float(limits.max)  # the latter may be 2**63: rounded up
    near[low | high | np.isnan(near)] = 0
    found = near.astype(dtype)
    found[low], found[high] = limits.min, limits.max
    return found


def labels_as(values: Elements, dtype: np.dtype[Any]) -> Elements:
    """Labels in another element type. `ValueError` for integers that it cannot hold; floats become the nearest integer.

    >>> labels_as(np.array([0, 3]), np.dtype("u1")).dtype
    dtype('uint8')
    """
    if values.dtype == dtype or dtype.kind == "f":
        return values.astype(dtype, copy=False)
    if values.dtype.kind == "f":
        return values != 0 if dtype.kind == "b" else rounded(values, dtype)
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for extreme in (int(values.min(initial=0)), int(values.max(initial=0))):
        if not low <= extreme <= high:
            raise ValueError(f"the prediction has a label {extreme}, which {dtype} cannot hold: choose another dtype")
    return values.astype(dtype)
