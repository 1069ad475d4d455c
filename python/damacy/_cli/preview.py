"""`damacy preview`: writes one plane of an array or image as a grey PNG. Chooses level, plane and contrast; a pipeline
reads it."""

from __future__ import annotations

import math
import pathlib
from typing import TYPE_CHECKING, Annotated

import rich.markup
import typer

import damacy
from damacy._cli import cat
from damacy._cli.box import Box, box_extents, box_text, parse_box
from damacy._cli.console import AsJson, Uri, errors, extents, fail, fail_to_write, print_json, refuse
from damacy._cli.output import written_whole
from damacy._cli.png import grey_png
from damacy._open.opening import array_or_image

if TYPE_CHECKING:
    import numpy

_OTHER_PICTURES = {".bmp", ".gif", ".jpeg", ".jpg", ".npy", ".pdf", ".svg", ".tif", ".tiff", ".webp"}


def command(
    uri: Uri,
    output: Annotated[pathlib.Path, typer.Option("--out", help="The PNG to write.")] = pathlib.Path("preview.png"),
    box: Annotated[str, typer.Option(help="The box of level 0 to show; default: the middle of a coarse level.")] = "",
    size: Annotated[int, typer.Option(min=1, help="The longest side, in pixels.")] = 1024,
    as_json: AsJson = False,
) -> None:
    """Write one plane as a grey PNG: the last two axes, at the middle of all others.

    Black and white are the 1st and the 99th percentile. For an image with levels, the coarsest level is used that is
    at least --size pixels wide or high.
    """
    if output.suffix.lower() in _OTHER_PICTURES:
        refuse(f"--out {output}: only PNG can be written: give a name that ends in .png", as_json)
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
