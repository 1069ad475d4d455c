"""Whole-image inference: predictions of the windows of a `SlidingGrid`, stitched together in a zarr array.

::

    grid = SlidingGrid([image], {"z": 16, "y": 96, "x": 96}, overlap=32)
    with stitch.Writer("prediction.zarr", grid, channels=2) as writer:
        for batch in Loader(grid, config, tail="short"):
            with batch as b:
                writer.add(model(b.torch()), b)

Needs the extra `zarr`. Computes on predictions only, with NumPy in host memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, get_args

import numpy as np

try:
    import zarr as _zarr  # noqa: F401  its absence is told here
except ModuleNotFoundError as missing:
    message = f"damacy.stitch needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy._core.dtype import Dtype, array_name
from damacy._core.sizes import as_bytes
from damacy._pipeline.batch import Batch
from damacy._pipeline.batch_rows import BatchRows
from damacy._pipeline.cropped_arrays import positive
from damacy._pipeline.foreign_values import dtype_of
from damacy._stitch import blends
from damacy._stitch.image_axes import Axis, axes_of
from damacy._stitch.on_host import on_host
from damacy._stitch.output import Output
from damacy._stitch.sums import Elements, Sums, bytes_needed, labels_as
from damacy._stitch.windows import Box, Cells, Region, regions_from
from damacy.samplers import SlidingGrid
from damacy.typing import Blend, DtypeLike, Progress

__all__ = ["Writer"]

_CHUNK = 64  # extent of the output's chunks on axes for which the image says none


class Writer:
    """Writes the predictions of all windows of a grid into one zarr array, blended where windows overlap.

    `grid` is a `SlidingGrid` over one image, in order. `add` takes the prediction of each batch, in the order of the
    grid: read with `Loader(grid, config, tail="short")`. The end of `with`, or `close`, completes the output.

    `out`: a path. If the image is an OME-Zarr image, or a level of one, `out` becomes an OME-Zarr image, too: a group
    with the attributes of NGFF 0.5 and one level, the array `0`, with the axes, units, scale and translation of the
    image's level. napari and ome-zarr open it at the place of the image. For any other image, and for axes that NGFF
    cannot describe, `out` becomes an array with the names of the image's axes. Both are zarr v3. With `overwrite`, a
    zarr array or group at that path is replaced when the new one is complete.

    An OME-Zarr image of integers in the folder `labels` of another one, of NGFF 0.4 or 0.5, is listed there as a label.

    The output has the shape of the image. Voxels that no window reaches are NaN, in integer types 0.

    Args:
        out: the path of the output; its parent folders are made.
        grid: the windows.
        name: the array that the predictions lie on, where samples have several; None: the first one.
        dtype: element type of the output. None: f32; for `blend="crop"` the type of the first prediction.
        channels: the channels of a prediction, the first axis behind the rows, which take the place of the image's
            channel axis. None: a prediction has the axes of a window. Axes of extent 1 may be missing or added.
        blend: how windows are combined. `"constant"`: their mean. `"gaussian"`: weighted by MONAI's importance map.
            `"hann"`: weighted by squared sines. `"crop"`: the window whose centre is nearest, the first one of several;
            for labels.
        sigma_scale: of `"gaussian"`: the standard deviation is this number times the extent of the window. One number,
            or one an axis of the window.
        chunks, shards: of the output's axes. None: the image's chunks, one channel each, and no shards.
        overwrite: replace an output that is there.
        max_bytes: the most memory for voxels that are not final, an int or text such as `"8 GiB"`; `ValueError` if
            stitching needs more.
        progress: called at the end of each `add` with the number of windows added so far, and of all.

    Sums and weights are f32, added in the order of the grid and divided once. Integers are then rounded to the nearest,
    and limited to the range of the type. Rows whose `valid` is False are left out; the other windows count alone there.

    The output appears at its path when it is complete. Until then it is in a hidden folder `.NAME.RANDOM.partial` next
    to the path. Any exception in the `with`, also `KeyboardInterrupt`, and a program that ends without `close` remove
    that folder. A process that is killed leaves it; it can be deleted.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        grid: SlidingGrid,
        *,
        name: str | None = None,
        dtype: DtypeLike | None = None,
        channels: int | None = None,
        blend: Blend = "gaussian",
        sigma_scale: float | Sequence[float] = 0.125,
        chunks: Sequence[int] | None = None,
        shards: Sequence[int] | None = None,
        overwrite: bool = False,
        max_bytes: int | str = 4 << 30,
        progress: Progress | None = None,
    ) -> None:
        if not isinstance(grid, SlidingGrid):
            raise TypeError(f"grid must be a damacy.samplers.SlidingGrid (got {type(grid).__name__})")
        if blend not in get_args(Blend):
            raise ValueError(f"blend must be 'constant', 'gaussian', 'hann' or 'crop' (got {blend!r})")
        if grid._shuffle:
            raise ValueError("a shuffled grid cannot be stitched: leave seed out")
        if len(grid._origins) != 1:
            raise ValueError(
                f"stitching needs a grid over one image, this one has {len(grid._origins)}: make a grid and a writer "
                "for each"
            )
        self._is_crop = blend == "crop"
        self._dtype = _numpy_dtype(dtype, self._is_crop)
        self._channels = None if channels is None else positive(channels, "channels")
        self._name, self._uri, all_axes, whole = _array_of(grid, name)
        self._all_cells, self._kept, axes = _axes(grid, self._name, all_axes, whole, self._channels is not None)
        self._all_regions = regions_from(self._all_cells, (1,) * len(all_axes))
        self._extents = tuple(self._all_cells[0][k].extent for k in self._kept)
        self._is_channel = [axis.is_channel for axis in axes]
        blended = [k not in whole and extent < all_axes[k].size for k, extent in zip(self._kept, self._extents)]
        if self._is_crop:
            self._window = blends.distances(self._extents, blended)
        else:
            self._window = blends.weights(blend, self._extents, blended, _sigma_scales(sigma_scale, len(axes)))
        self._time_axes = 0 if self._channels is None else _leading_times(axes)
        self._out_axes = list(axes)
        if self._channels is not None:
            named = next((axis.name for axis in all_axes if axis.is_channel), None)
            unnamed = all(axis.name is None for axis in axes)
            channel = Axis(self._channels, name=named or (None if unnamed else "c"), type="channel", scale=1.0, chunk=1)
            self._out_axes.insert(self._time_axes, channel)
        self._chunks = self._per_axis(chunks, "chunks") or [
            min(a.chunk or _CHUNK, max(a.size, 1)) for a in self._out_axes
        ]
        self._shards = self._per_axis(shards, "shards")
        self._regions, self._fills_chunks, self._needed = self._planned(as_bytes(max_bytes, "max_bytes"), axes)
        self._length = len(grid)
        self._progress = progress
        self._next = 0
        self._region = 0
        self._sums: Sums | None = None
        self._state = "open"
        self._output = Output(out, bool(overwrite), self._uri)
        if self._dtype is not None:
            self._begin(self._dtype)

    def __repr__(self) -> str:
        return (
            f"<damacy.stitch.Writer {str(self._output.path)!r}: {self._next} of {self._length} windows, {self._state}>"
        )

    @property
    def needed_bytes(self) -> int:
        """The most memory that voxels take until they are written: at most `max_bytes`."""
        return self._needed

    def add(self, prediction: Any, batch: Batch | BatchRows) -> None:
        """Add the prediction of a batch: an array or a tensor of any library, on any device, with a row for each row of
        the batch.

        `batch`: the `Batch`, also after its release, or the `BatchRows` of `IterableDataset(loader, info=True)`.
        `ValueError` if rows are not the next ones of the grid; the writer can then still be used.
        """
        if self._state != "open":
            raise ValueError(f"the writer is {self._state}: make another one")
        if not isinstance(batch, (Batch, BatchRows)):
            raise TypeError(f"batch must be a damacy.Batch or a damacy.BatchRows (got {type(batch).__name__})")
        rows = self._next_rows(batch)
        values = self._shaped(on_host(prediction), len(batch.samples))
        if self._is_crop:
            values = labels_as(values, self._dtype or values.dtype)
        self._state = "interrupted"  # unless the rest succeeds
        if self._sums is None:
            self._begin(values.dtype)
        assert self._sums is not None
        for row, index, valid in rows:
            region = self._region_of(index)
            self._sums.add(region, index, values[row] if valid else None, self._write)
        self._next += len(rows)
        self._state = "open"
        if self._progress is not None:
            self._progress(self._next, self._length)

    def close(self) -> None:
        """Complete the output. `ValueError`, and no output, if windows are missing. Idempotent."""
        if self._state == "closed":
            return
        try:
            if self._state != "open":
                raise ValueError(
                    f"the writer is {self._state}, nothing is left at {self._output.path}: make another one"
                )
            if self._next < self._length:
                box = self._all_regions[self._number_of_region(self._next)].box(self._next)
                raise ValueError(
                    f"window {self._next} of {self._length} is missing, {_shown(box)} of {self._uri}: add all batches "
                    "of the grid; Loader(tail='short') also reads the last ones"
                )
            if self._sums is None:  # a grid without a valid row
                self._begin(np.dtype(np.float32))
            self._output.finish()
            self._state = "closed"
        finally:
            if self._state != "closed":
                self.discard()

    def discard(self) -> None:
        """Remove what was written; there is no output then. No effect after `close`."""
        if self._state != "closed":
            self._state = "discarded"
            self._sums = None
            self._output.discard()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()
        elif self._state != "discarded":
            self.close()

    # -- rows

    def _next_rows(self, batch: Batch | BatchRows) -> list[tuple[int, int, bool]]:
        """Row, window and validity of the rows that count."""
        found: list[tuple[int, int, bool]] = []
        expected = self._next
        for row, (sample, valid) in enumerate(zip(batch.samples, batch.valid, strict=True)):
            if sample.row_key is None:
                raise ValueError(f"row {row} is of no sampler: read the grid with a Loader")
            index = sample.row_key[1]
            if not valid and index != expected:
                continue  # it fills up the last batch
            if expected == self._length:
                raise ValueError(f"row of window {index}, but all {self._length} windows were added")
            if index != expected:
                raise ValueError(f"row of window {index}, expected {expected}: batches come in grid order")
            box = self._all_regions[self._number_of_region(index)].box(index)
            if (parts := sample.arrays.get(self._name)) is None or tuple(parts[0]) != (self._uri, box):
                raise ValueError(
                    f"row of window {index} is of another grid: its box is not {_shown(box)} of {self._uri}"
                )
            found.append((row, index, valid))
            expected += 1
        return found

    def _shaped(self, values: Elements, rows: int) -> Elements:
        """Rows, channels and the axes of a window."""
        channels = () if self._channels is None else (self._channels,)
        expected = (rows, *channels, *self._extents)
        if (
            values.ndim == 0
            or values.shape[0] != rows
            or _without_ones(values.shape[1:]) != _without_ones(expected[1:])
        ):
            help_text, places = "", list(self._extents)
            if self._channels is None:
                places = [extent for extent, is_channel in zip(self._extents, self._is_channel) if not is_channel]
            if values.ndim > 1 and _without_ones(values.shape[2:]) == _without_ones(places):
                help_text = f": say channels={values.shape[1]}"
            raise ValueError(f"prediction has shape {values.shape}, expected {expected}{help_text}")
        return values.reshape(rows, self._channels or 1, *self._extents)

    def _number_of_region(self, index: int) -> int:
        """The region of a window that is not before the last one."""
        number = self._region
        while index >= self._regions[number].first + self._regions[number].count:
            number += 1
        return number

    def _region_of(self, index: int) -> Region:
        self._region = self._number_of_region(index)
        return self._regions[self._region]

    # -- output

    def _begin(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._output.create(self._out_axes, dtype, self._chunks, self._shards)
        self._sums = Sums(self._window, self._channels or 1, dtype, self._is_crop, self._slab_ends)

    def _written_chunks(self) -> list[int]:
        """The extent of what zarr writes as a whole, on each axis of the window."""
        chunks = list(self._shards or self._chunks)
        if self._channels is not None:
            del chunks[self._time_axes]
        return chunks

    def _slab_ends(self, axis: int) -> int | None:
        """As `Sums` needs them, for an axis of the window."""
        return self._written_chunks()[axis] if self._fills_chunks else None

    def _write(self, box: Box, elements: Elements) -> None:
        """`elements`: channels, then the axes of the window."""
        where = [slice(start, stop) for start, stop in box]
        if self._channels is None:
            self._output.write(tuple(where), elements[0])
        else:
            where.insert(self._time_axes, slice(None))
            self._output.write(tuple(where), np.moveaxis(elements, 0, self._time_axes))

    def _planned(self, max_bytes: int, axes: Sequence[Axis]) -> tuple[tuple[Region, ...], bool, int]:
        """The regions, whether slabs end with chunks, and the bytes needed. `ValueError` if they are over `max_bytes`.

        Tries first to write each chunk once, then at least all planes of a chunk at once, then voxels when they are
        final.
        """
        cells = [[region[k] for k in self._kept] for region in self._all_cells]
        dtype = self._dtype or np.dtype(np.int64)  # the largest one
        chunks, ones = self._written_chunks(), [1] * len(axes)
        for volumes, fills_chunks in ((chunks, True), (ones, True), (ones, False)):
            regions = regions_from(cells, volumes)
            needed = [
                bytes_needed(
                    region,
                    self._window,
                    self._channels or 1,
                    dtype,
                    self._is_crop,
                    chunks[region.axis] if fills_chunks else None,
                )
                for region in regions
            ]
            if max(needed) <= max_bytes:
                return regions, fills_chunks, max(needed)
        axis = regions[needed.index(max(needed))].axis
        raise ValueError(
            f"stitching needs {max(needed)} bytes, max_bytes is {max_bytes}: shorten the windows on axis "
            f"{axes[axis].name or self._kept[axis]}, or raise max_bytes"
        )

    def _per_axis(self, values: Sequence[int] | None, name: str) -> list[int] | None:
        if values is None:
            return None
        numbers = [positive(value, f"{name}[{k}]") for k, value in enumerate(values)]
        if len(numbers) != len(self._out_axes):
            raise ValueError(f"{name} has {len(numbers)} axes, the output has {len(self._out_axes)}")
        return numbers


def _array_of(grid: SlidingGrid, name: str | None) -> tuple[str, str, tuple[Axis, ...], frozenset[int]]:
    """Name, uri and axes of the array that predictions lie on; the numbers of the axes that the grid leaves whole."""
    (origin,) = grid._origins
    if isinstance(origin, str):
        if name not in (None, ""):
            raise ValueError(f"name: no array {name!r}; the grid has one array without a name")
        return "", origin, axes_of(origin) or tuple(map(Axis, grid._sizes[0])), frozenset()
    named = {array: (uri, axes) for array, uri, axes in origin}
    name = next(iter(named)) if name is None else name
    if name not in named:
        raise ValueError(f"name: no array {name!r}; the grid has {', '.join(map(repr, named))}")
    uri, axes = named[name]
    described = axes_of(uri)
    if described is None:
        raise FileNotFoundError(f"{uri}: the image of the grid does not exist any more")
    return name, uri, described, frozenset(k for k, axis in enumerate(axes) if isinstance(axis, tuple))


def _axes(
    grid: SlidingGrid, name: str, axes: tuple[Axis, ...], whole: frozenset[int], with_channels: bool
) -> tuple[list[list[Cells]], list[int], list[Axis]]:
    """The windows, for each region and axis of the array; the numbers of the axes that predictions have; these axes."""
    (origin,) = grid._origins
    of_crop: Any = tuple(range(len(axes)))
    if not isinstance(origin, str):
        of_crop = next(of_name for array, _, of_name in origin if array == name)
    order = [axis if isinstance(axis, int) else axis.axis for axis in of_crop if not isinstance(axis, tuple)]
    if order != sorted(order):
        raise ValueError(f"name: {name!r} has its axes in another order than the first array of the grid")
    cells = [[Cells(tuple(starts), extent) for starts, extent in region] for region in grid._starts_of(of_crop)]
    replaced: set[int] = set()
    if with_channels:
        replaced = {k for k, axis in enumerate(axes) if axis.is_channel}
        if not replaced and any(axis.name is None for axis in axes):
            replaced = set(whole)
        for k in replaced:
            if any(region[k].extent < axes[k].size for region in cells):
                raise ValueError(
                    f"channels take the place of axis {axes[k].name or k}, which the grid cuts into windows"
                )
    kept = [k for k in range(len(axes)) if k not in replaced]
    return cells, kept, [axes[k] for k in kept]


def _numpy_dtype(dtype: DtypeLike | None, is_crop: bool) -> np.dtype[Any] | None:
    if dtype is None:
        return None if is_crop else np.dtype(np.float32)
    found = dtype_of(dtype)
    if found is Dtype.BF16:
        raise ValueError("dtype: zarr-python writes no bfloat16: choose f32")
    if found is Dtype.BOOL and not is_crop:
        raise ValueError("dtype bool needs blend='crop': a mean of windows is a number")
    return np.dtype(array_name(found))


def _sigma_scales(value: float | Sequence[float], axes: int) -> list[float]:
    values = [float(number) for number in value] if isinstance(value, Iterable) else [float(value)] * axes
    if len(values) != axes:
        raise ValueError(f"sigma_scale has {len(values)} numbers, a window has {axes} axes")
    for number in values:
        if not (math.isfinite(number) and number > 0):
            raise ValueError(f"sigma_scale must be > 0 (got {number})")
    return values


def _leading_times(axes: Sequence[Axis]) -> int:
    """NGFF has time before channels."""
    return int(bool(axes) and (axes[0].type == "time" or (axes[0].type is None and axes[0].name in ("t", "time"))))


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def _shown(box: Box) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
