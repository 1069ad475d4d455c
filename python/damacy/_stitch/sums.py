"""Sums of windows in planes, which are freed when they are final. Knows where windows lie, not where planes go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from damacy._stitch.windows import Box, Region, writable

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


class Sums:
    """Adds windows in grid order and passes final voxels to `write`, in the output's element type.

    `window`: the weight of each voxel of a window, f32, or for `"crop"` its distance, an integer. `align`: planes are
    written up to its multiples.
    """

    def __init__(
        self, window: Elements, channels: int, dtype: np.dtype[Any], is_crop: bool, align: Callable[[int], int]
    ) -> None:
        self._window = window
        self._channels = channels
        self._dtype = dtype
        self._is_crop = is_crop
        self._is_constant = not is_crop and bool((window == 1).all())
        self._align = align
        self._planes: dict[int, Plane] = {}
        self._volume: Box = ()
        self._written = 0
        self.peak_bytes = window.nbytes  # the most that was held at a time

    def add(self, region: Region, index: int, prediction: Elements | None, write: Write) -> None:
        """Add a window's prediction: channels, then the axes of the window. None: it is left out."""
        if region.begins_volume(index):
            self._volume = region.volume(index)
            self._written = self._volume[region.axis][0]
        if prediction is not None:
            self._add(region.axis, region.box(index), prediction)
        if (final := region.final_before(index)) is not None:
            stop = final if region.ends_volume(index) else writable(final, self._align(region.axis))
            if stop > self._written:
                self._write_before(region.axis, stop, write)

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

    def _write_before(self, axis: int, stop: int, write: Write) -> None:
        start, self._written = self._written, stop
        if not any(place in self._planes for place in range(start, stop)):
            return
        box = (*self._volume[:axis], (start, stop), *self._volume[axis + 1 :])
        slab = np.empty((self._channels, *(high - low for low, high in box)), self._dtype)
        self._note(slab.nbytes)
        every: Index = (slice(None),) * (axis + 1)
        for number, place in enumerate(range(start, stop)):
            plane = self._planes.pop(place, None)
            slab[(*every, number)] = fill_value(self._dtype) if plane is None else self._finished(plane)
        write(box, slab)

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
        held = self._window.nbytes + sum(plane.nbytes for plane in self._planes.values()) + more
        self.peak_bytes = max(self.peak_bytes, held)


def bytes_needed(
    region: Region, window_bytes: int, weight_bytes: int, channels: int, value_bytes: int, out_bytes: int, align: int
) -> int:
    """The most bytes that `Sums` holds for a region: planes, the window's weights, and what is written at a time."""
    summed, at_once = region.most_planes(align)
    return window_bytes + region.plane_size() * (
        summed * (channels * value_bytes + weight_bytes) + at_once * channels * out_bytes
    )


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
