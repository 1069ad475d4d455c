"""A montage of crops in colour, with labels on top. Knows axes, channels and world coordinates of opened arrays; reads
elements by `Array.read`. Writes no files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from damacy._cli.box import Box
from damacy._core.errors import InvalidArgument
from damacy._open.arrays import Array
from damacy._open.images import Channel, Image
from damacy._pipeline.array_spec import ArraySpec
from damacy.samplers import RandomCrops, SlidingGrid

if TYPE_CHECKING:
    import numpy

    Values = numpy.ndarray[Any, Any]

MAX_CHANNELS = 8
MAX_PIXELS = 1 << 26
GAP = 2  # black pixels between crops
OPACITY = 0.4  # of labels
_COLORS = ("FF00FF", "00FF00", "00FFFF", "FFFF00", "FF0000", "0000FF", "FF8000", "8000FF")
_CHANNEL_NAMES = ("c", "channel", "band", "variable")
_GOLDEN = 0x9E3779B97F4A7C15  # consecutive ids get hues far apart


class Shown(NamedTuple):
    """How a channel is shown: its name, its colour as `RRGGBB`, and the values of black and of full colour."""

    label: str | None
    color: str
    black: float
    white: float


class Montage(NamedTuple):
    """The picture: rows, columns, and red, green and blue as bytes. And what is in it."""

    pixels: Values
    boxes: list[Box]
    columns: int
    channels: list[Shown]


def channel_axis(array: Array) -> int | None:
    """The axis of channels: of type `channel`, or with a name of one."""
    if isinstance(array, Image):
        for k, axis in enumerate(array.axes[: array.ndim]):
            if axis.type == "channel":
                return k
    names = [k for k, name in enumerate(array.dims) if name in _CHANNEL_NAMES]
    return names[0] if names else None


def plane_axes(array: Array, channels: int | None) -> tuple[int, int]:
    """The axes of rows and columns: the last two that hold no channels."""
    axes = [k for k in range(array.ndim) if k != channels]
    if len(axes) < 2:
        raise InvalidArgument(
            f"a picture needs two axes besides channels; the shape is {array.shape}", uri=array.uri, reason="rank"
        )
    return axes[-2], axes[-1]


def boxes_of(
    array: Array, plane: tuple[int, int], channels: int | None, side: int, count: int, seed: int | None
) -> list[Box]:
    """`count` crops of one plane: random ones, or without a seed those of a grid, evenly spaced."""
    if 0 in array.shape:
        raise InvalidArgument(f"the array has no elements: its shape is {array.shape}", uri=array.uri, reason="aabb")
    extents = [min(side, size) if k in plane else 1 for k, size in enumerate(array.shape)]
    crops: RandomCrops | SlidingGrid
    if seed is not None:
        crops = RandomCrops([array], extents, length=count, seed=seed)
        indices = list(range(count))
    else:
        crops = SlidingGrid([array], extents)
        count = min(count, len(crops))
        indices = [k * len(crops) // count for k in range(count)]
    boxes: list[Box] = []
    for index in indices:
        pairs: list[Any] = list(crops.sample(0, index).aabb)
        if channels is not None:
            pairs[channels] = (0, min(array.shape[channels], MAX_CHANNELS))
        boxes.append(tuple(pairs))
    return boxes


def montage(
    image: Array, omero: Sequence[Channel], label: Array | None, boxes: list[Box], channels: int | None
) -> Montage:
    """The crops in rows and columns. `omero`: colours and windows of the channels, as far as they are known."""
    import numpy

    plane = plane_axes(image, channels)
    crops = [_channels_first(image.read(box, spec=ArraySpec(dtype="f64")), plane, channels) for box in boxes]
    shown = _shown(numpy.stack(crops), omero)
    height, width = crops[0].shape[1:]
    columns = math.ceil(math.sqrt(len(boxes)))
    rows = -(-len(boxes) // columns)
    pixels = numpy.zeros((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), "u1")
    for k, (box, crop) in enumerate(zip(boxes, crops)):
        colors = composite(crop, shown)
        if label is not None:
            ids = label_plane(image, label, box, plane, channels)
            colors = numpy.where((ids != 0)[..., None], (1 - OPACITY) * colors + OPACITY * id_colors(ids), colors)
        top, left = k // columns * (height + GAP), k % columns * (width + GAP)
        pixels[top : top + height, left : left + width] = numpy.rint(colors * 255)
    return Montage(pixels, boxes, columns, shown)


def _channels_first(crop: Values, plane: tuple[int, int], channels: int | None) -> Values:
    import numpy

    kept = ([] if channels is None else [channels]) + list(plane)
    others = [k for k in range(crop.ndim) if k not in kept]
    ordered = numpy.transpose(crop, others + kept)
    return ordered.reshape((-1, *(crop.shape[k] for k in plane)))


def _shown(crops: Values, omero: Sequence[Channel]) -> list[Shown]:
    """For each channel of the crops (index, channel, y, x)."""
    count = crops.shape[1]
    found = []
    for k in range(count):
        known = omero[k] if k < len(omero) else Channel(None, None, None)
        low, high = known.window or _contrast(crops[:, k])
        is_color = known.color is not None and re.fullmatch("[0-9A-Fa-f]{6}", known.color)
        color = known.color if known.color and is_color else ("FFFFFF" if count == 1 else _COLORS[k])
        found.append(Shown(known.label, color, low, high if high > low else low + 1))
    return found


def _contrast(values: Values) -> tuple[float, float]:
    """The 1st and the 99th percentile."""
    import numpy

    finite = values[numpy.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = (float(bound) for bound in numpy.percentile(finite, (1, 99)))
    return (low, high) if low < high else (float(finite.min()), float(finite.max()))


def composite(crop: Values, shown: Sequence[Shown]) -> Values:
    """The sum of the channels in their colours, from 0 to 1; NaN is black.

    >>> import numpy
    >>> red, blue = Shown(None, "FF0000", 0, 100), Shown(None, "0000FF", 0, 9)
    >>> composite(numpy.array([[[50.0]], [[9.0]]]), [red, blue]).tolist()
    [[[0.5, 0.0, 1.0]]]
    """
    import numpy

    total = numpy.zeros((*crop.shape[1:], 3))
    for values, channel in zip(crop, shown):
        level = numpy.nan_to_num(((values - channel.black) / (channel.white - channel.black)).clip(0, 1))
        total += level[..., None] * numpy.frombuffer(bytes.fromhex(channel.color), "u1") / 255
    return total.clip(0, 1)


def id_colors(ids: Values) -> Values:
    """Red, green and blue from 0 to 1 of each label id: the same in every picture.

    >>> import numpy
    >>> numpy.round(id_colors(numpy.array([1, 2])), 2).tolist()
    [[0.25, 0.47, 1.0], [0.69, 1.0, 0.25]]
    """
    import numpy

    with numpy.errstate(over="ignore"):
        hue = (ids.astype("i8").view("u8") * numpy.uint64(_GOLDEN)).astype("f8") / 2.0**64 * 6
    turns = [numpy.abs((hue + shift) % 6 - 3) - 1 for shift in (0, 4, 2)]
    return 0.25 + 0.75 * numpy.stack(turns, axis=-1).clip(0, 1)


def label_plane(image: Array, label: Array, box: Box, plane: tuple[int, int], channels: int | None) -> Values:
    """The ids at the centres of the pixels: of the nearest voxel, the lower one on a tie; 0 outside the label."""
    import numpy

    partners = _partners(image, label, channels)
    indices: list[Values] = []
    inside = numpy.ones((1, 1), bool)
    for k, partner in enumerate(partners):
        start, stop = (0, 1) if partner is None else box[partner]
        found = numpy.arange(start, stop) if partner is None else _nearest(image, label, k, partner, start, stop)
        is_in = (found >= 0) & (found < label.shape[k])
        if partner in plane:
            inside = inside & (is_in[:, None] if partner == plane[0] else is_in[None, :])
        else:
            inside = inside & bool(is_in.all())
        indices.append(found.clip(0, label.shape[k] - 1))
    ids = label.read([(int(axis.min()), int(axis.max()) + 1) for axis in indices])
    ids = ids[numpy.ix_(*(axis - axis.min() for axis in indices))]
    if ids.dtype.kind not in "biu":
        raise InvalidArgument(f"labels must be integers (got {label.dtype})", uri=label.uri, reason="dtype")
    rows, columns = (partners.index(axis) for axis in plane)
    ids = numpy.moveaxis(ids, (rows, columns), (-2, -1))
    ids = ids.reshape((-1, *ids.shape[-2:]))[0]
    return numpy.where(inside, ids, numpy.zeros((), ids.dtype))


def _partners(image: Array, label: Array, channels: int | None) -> list[int | None]:
    """For each axis of the label that of the image: of its name, else from the last. None: an axis of one element."""
    spatial = [k for k in range(image.ndim) if k != channels]
    by_name = all(label.dims) and all(image.dims)
    found: list[int | None] = []
    for k, name in enumerate(label.dims or (None,) * label.ndim):
        if by_name:
            partner = image.dims.index(name) if name in image.dims else None
        else:
            at = len(spatial) - label.ndim + k
            partner = spatial[at] if at >= 0 else None
        if partner is not None and partner == channels:
            partner = None
        if partner is None and label.shape[k] != 1:
            raise InvalidArgument(
                f"axis {name or k} of the label has {label.shape[k]} elements, and the image has no such axis",
                uri=label.uri,
                reason="rank",
            )
        found.append(partner)
    for axis in plane_axes(image, channels):
        if axis not in found:
            raise InvalidArgument(
                f"the label has no axis {image.dims[axis] or axis}: its shape is {label.shape}",
                uri=label.uri,
                reason="rank",
            )
    return found


def _nearest(image: Array, label: Array, k: int, partner: int, start: int, stop: int) -> Values:
    import numpy

    pixels = numpy.arange(start, stop)
    fine, coarse = image.scale[partner], label.scale[k]
    if fine is None or coarse is None:
        if image.shape[partner] != label.shape[k]:
            name = image.dims[partner] or partner
            raise InvalidArgument(
                f"axis {name} has {image.shape[partner]} elements, label {label.shape[k]}, and no scale: "
                "give arrays with scale, or equal shapes",
                uri=label.uri,
                reason="extents",
            )
        return pixels
    world = fine * pixels + (image.translation[partner] or 0.0)
    voxels = (world - (label.translation[k] or 0.0)) / coarse
    nearest: Values = numpy.ceil(voxels - 0.5 - 1e-6).astype("i8")
    return nearest
