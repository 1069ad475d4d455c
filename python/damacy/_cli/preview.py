"""`damacy preview`: writes one plane of an array or image as a grey PNG, or a montage of crops in colour with labels on
top. Chooses level, plane and contrast; a pipeline reads it."""

from __future__ import annotations

import math
import pathlib
from typing import TYPE_CHECKING, Annotated

import rich.markup
import typer

import damacy
from damacy._cli import cat, montage
from damacy._cli.box import Box, box_extents, box_text, parse_box
from damacy._cli.console import AsJson, Uri, errors, extents, fail, fail_to_write, print_json, refuse
from damacy._cli.montage import Montage
from damacy._cli.output import written_whole
from damacy._cli.png import grey_png, rgb_png
from damacy._open.opening import array_or_image

if TYPE_CHECKING:
    import numpy

_DEFAULT_CROPS = 16
_OTHER_PICTURES = {".bmp", ".gif", ".jpeg", ".jpg", ".npy", ".pdf", ".svg", ".tif", ".tiff", ".webp"}


def command(
    uri: Uri,
    output: Annotated[pathlib.Path, typer.Option("--out", help="The PNG to write.")] = pathlib.Path("preview.png"),
    box: Annotated[str, typer.Option(help="The box of level 0 to show; default: the middle of a coarse level.")] = "",
    size: Annotated[int, typer.Option(min=1, help="The longest side, in pixels.")] = 1024,
    label: Annotated[
        str, typer.Option(help="Show crops with this label on top: the name of a label of the image, or a path.")
    ] = "",
    crops: Annotated[int, typer.Option(min=0, help="Show so many crops, with the image's first label on top.")] = 0,
    side: Annotated[int, typer.Option(min=1, help="The longest side of a crop, in pixels.")] = 128,
    grid: Annotated[bool, typer.Option("--grid", help="Crops of a grid, evenly spaced, not random ones.")] = False,
    seed: Annotated[int, typer.Option(help="Of random crops.")] = 0,
    level: Annotated[int, typer.Option(min=0, help="The level of the image to crop; 0 is the finest.")] = 0,
    no_label: Annotated[bool, typer.Option("--no-label", help="Show crops without a label.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one plane as a grey PNG: the last two axes, at the middle of all others.

    Black and white are the 1st and the 99th percentile. For an image with levels, the coarsest level is used that is
    at least --size pixels wide or high.

    With --label or --crops, write a montage of crops in colour. Colours and windows of channels are those of the
    metadata (omero), else the 1st and 99th percentile. A label id has the same colour in every picture.
    """
    if label or crops or grid or no_label:
        if box:
            refuse("--box shows one plane: leave --label, --crops, --grid and --no-label out", as_json)
        if label and no_label:
            refuse("give --label or --no-label", as_json)
        _refuse_other_formats(output, as_json)
        chosen = _montage_of(
            uri, label, no_label, crops or _DEFAULT_CROPS, side, None if grid else seed, level, as_json
        )
        _write_montage(output, *chosen, as_json)
        return
    _refuse_other_formats(output, as_json)
    try:
        shown, wanted = _choose(uri, box, size)
    except damacy.DamacyError as error:
        fail(error, as_json)
    except ValueError as error:
        refuse(str(error), as_json)
    rows = max(math.prod(box_extents(wanted)[:-1]), 1)
    columns = box_extents(wanted)[-1] if wanted else 1
    if rows * columns > 1 << 28:
        refuse(f"the box has {rows * columns:,} elements: too many for a picture", as_json)
    try:
        data = b"".join(bytes(block) for block in cat.blocks(shown, wanted, damacy.Dtype.F32))
    except damacy.DamacyError as error:
        fail(error, as_json)
    pixels, low, high = _greys(data)
    try:
        with written_whole(output) as file:
            file.write(grey_png(pixels, columns, rows))
    except OSError as error:
        fail_to_write(output, error, as_json)
    if as_json:
        black_white = {"black": low, "white": high}
        print_json({"uri": shown, "box": wanted, "width": columns, "height": rows, "file": str(output)} | black_white)
    else:
        text = (
            f"{output}: {extents((rows, columns))} pixels, {box_text(wanted)} of {shown}, black {low:g}, white {high:g}"
        )
        errors.print(rich.markup.escape(text), soft_wrap=True)


def _refuse_other_formats(output: pathlib.Path, as_json: bool) -> None:
    """Refuses a name of another picture format."""
    if output.suffix.lower() in _OTHER_PICTURES:
        refuse(f"--out {output}: only PNG can be written: give a name that ends in .png", as_json)


def _montage_of(
    uri: str, label: str, no_label: bool, count: int, side: int, seed: int | None, level: int, as_json: bool
) -> tuple[damacy.Array, damacy.Array | None, Montage]:
    """The array that is shown, its label, and the picture."""
    try:
        image = array_or_image(uri)
        levels = len(image.levels) if isinstance(image, damacy.Image) else 1
        if level >= levels:
            refuse(f"--level {level}: {uri} has {levels} levels", as_json)
        ids = None if no_label else _label_of(image, label, as_json)
        shown = image.level(level) if level and isinstance(image, damacy.Image) else image
        channels = montage.channel_axis(image)
        plane = montage.plane_axes(shown, channels)
        if count * min(side, shown.shape[plane[0]]) * min(side, shown.shape[plane[1]]) > montage.MAX_PIXELS:
            refuse(f"{count} crops of {side} pixels: too many for a picture", as_json)
        boxes = montage.boxes_of(shown, plane, channels, side, count, seed)
        omero = image.channels if isinstance(image, damacy.Image) else ()
        return shown, ids, montage.montage(shown, omero, ids, boxes, channels)
    except damacy.DamacyError as error:
        fail(error, as_json)


def _label_of(image: damacy.Array, label: str, as_json: bool) -> damacy.Array | None:
    """A label of the image by its name, or the array of that path; by default the first label, if there is any."""
    labels = image.labels if isinstance(image, damacy.Image) else {}
    if not label:
        label = next(iter(labels), "")
        return labels[label] if label else None
    if label in labels:
        return labels[label]
    try:
        return array_or_image(label)
    except damacy.NotFound:
        has = ", ".join(map(repr, labels)) or "none"
        refuse(f"--label {label}: no path, and no label of {image.uri}; there are {has}", as_json)


def _write_montage(
    output: pathlib.Path, shown: damacy.Array, label: damacy.Array | None, found: Montage, as_json: bool
) -> None:
    height, width, _ = found.pixels.shape
    try:
        with written_whole(output) as file:
            file.write(rgb_png(found.pixels.tobytes(), width, height))
    except OSError as error:
        fail_to_write(output, error, as_json)
    if as_json:
        channels = [channel._asdict() for channel in found.channels]
        print_json(
            {"uri": shown.uri, "label": label and label.uri, "boxes": found.boxes, "columns": found.columns}
            | {"channels": channels, "width": width, "height": height, "file": str(output)}
        )
        return
    on_top = "" if label is None else f", {label.uri} on top"
    text = f"{output}: {extents((height, width))} pixels, {len(found.boxes)} crops of {shown.uri}{on_top}"
    errors.print(rich.markup.escape(text), soft_wrap=True)


def _choose(uri: str, box: str, size: int) -> tuple[str, Box]:
    info = array_or_image(uri)
    if box:
        return uri, parse_box(box, info.shape)
    shown = uri
    for level in info.levels[1:]:
        found = array_or_image(f"{uri.rstrip('/')}/{level}")
        if max(found.shape[-2:], default=1) < size:
            break
        info, shown = found, found.uri
    if 0 in info.shape:
        raise ValueError(f"{shown} has no elements: its shape is {info.shape}")
    leading = [(extent // 2, extent // 2 + 1) for extent in info.shape[:-2]]
    return shown, (*leading, *(_middle(extent, size) for extent in info.shape[-2:]))


def _middle(extent: int, size: int) -> tuple[int, int]:
    start = max(0, (extent - size) // 2)
    return start, min(extent, start + size)


def _greys(data: bytes) -> tuple[bytes, float, float]:
    """The pixels, and the values that became black and white."""
    import numpy

    values = numpy.frombuffer(data, "<f4")
    low, high = _contrast(values)
    scaled = (values.astype("f8") - low) / (high - low) * 255
    return numpy.nan_to_num(scaled.clip(0, 255)).astype("u1").tobytes(), low, high


def _contrast(values: numpy.ndarray) -> tuple[float, float]:
    import numpy

    finite = values[numpy.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = (float(bound) for bound in numpy.percentile(finite, (1, 99)))
    if low == high:
        low, high = float(finite.min()), float(finite.max())
    return (low, high) if low < high else (low, low + 1)
