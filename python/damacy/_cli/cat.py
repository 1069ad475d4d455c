"""`damacy cat`: writes the elements of a box, raw or as a .npy file. Cuts a large box into slabs that a pipeline
delivers one after the other, so that memory stays bounded."""

from __future__ import annotations

import contextlib
import ctypes
import math
import pathlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal

import rich.markup
import typer

import damacy
from damacy._cli.box import Box, box_extents
from damacy._cli.console import AsJson, Uri, errors, extents, fail, fail_to_write, print_json, refuse
from damacy._cli.output import written_whole
from damacy._cli.plan import BoxText, box_of
from damacy._core.dtype import array_name
from damacy._core.integers import shown
from damacy._core.sizes import size_text
from damacy._open.opening import array_or_image

_SLAB_BYTES = 64 << 20  # size of one slab, about
_JSON_ELEMENTS = 1 << 16
_NPY_NAMES = {
    "F32": "<f4",
    "F16": "<f2",
    "F64": "<f8",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "BOOL": "|b1",
}

Format = Literal["raw", "npy"]


def command(
    uri: Uri,
    box: BoxText = "...",
    output: Annotated[pathlib.Path | None, typer.Option("--out", help="The file to write; default: stdout.")] = None,
    format: Annotated[  # noqa: A002
        Format | None, typer.Option(help="Default: npy if --out ends in .npy, else raw.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Convert to this type, such as float32; default: no conversion.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write the elements of a box, little-endian and row-major, to a file or to stdout.

    With --json and without --out, the JSON document holds the elements as one flat list of at most 65,536.
    """
    asked = box_of(uri, box, as_json)
    chosen = format or ("npy" if output is not None and output.suffix == ".npy" else "raw")
    name = dtype or array_or_image(uri).dtype
    try:
        element = damacy.Dtype.coerce(name)
    except ValueError as error:
        refuse(f"batches cannot hold elements of type {name!r}; choose one with --dtype: {error.__cause__}", as_json)
    if chosen == "npy" and element.name not in _NPY_NAMES:
        refuse(f"npy files cannot hold {element.name.lower()}: choose --format raw, or another --dtype", as_json)
    if output is None and not as_json and sys.stdout.isatty():
        refuse("stdout is a terminal: pipe it, or name a file with --out", as_json)
    try:
        _run(uri, asked, element, chosen, output, as_json)
    except damacy.DamacyError as error:
        fail(error, as_json)
    except BrokenPipeError:  # `damacy cat ... | head`
        sys.stderr.close()
        raise typer.Exit(1) from None
    except OSError as error:
        fail_to_write(output or "stdout", error, as_json)


def _run(uri: str, box: Box, element: damacy.Dtype, chosen: Format, output: pathlib.Path | None, as_json: bool) -> None:
    if output is None and as_json:
        _print_elements(uri, box, element)
        return
    written = 0
    with written_whole(output) if output is not None else contextlib.nullcontext(sys.stdout.buffer) as file:
        if chosen == "npy":
            _write_npy_header(file, box_extents(box), element)
        for block in blocks(uri, box, element):
            written += file.write(block)
        file.flush()
    if as_json:
        shape = list(box_extents(box))
        print_json(
            {
                "uri": uri,
                "box": box,
                "shape": shape,
                "dtype": array_name(element),
                "bytes": written,
                "file": str(output),
            }
        )
    elif output is not None:
        what = f"{extents(box_extents(box))} of {array_name(element)}, {size_text(written)}"
        errors.print(f"{rich.markup.escape(str(output))}: {what}", soft_wrap=True)


def blocks(uri: str, box: Box, element: damacy.Dtype) -> Iterator[memoryview]:
    """Yields the bytes of a box in row-major order; each block is valid until the next one is taken."""
    info = array_or_image(uri)
    for k, ((start, stop), size_of_axis) in enumerate(zip(box, info.shape)):
        if not 0 <= start <= stop <= size_of_axis:  # checked here because a box without elements is never pushed
            raise damacy.InvalidArgument(
                f"aabb axis {k}: expected 0 <= start <= stop <= {size_of_axis}, got {shown(start)} and {shown(stop)}",
                uri=uri,
                reason="aabb",
            )
    if len(box) == len(info.shape) and math.prod(box_extents(box)) > 0:
        for run in _runs(box, info.chunks, _item_bytes(element)):
            yield from _blocks_of_run(uri, run, element)


def _blocks_of_run(uri: str, slabs: list[Box], element: damacy.Dtype) -> Iterator[memoryview]:
    config = damacy.Config(batch_size=1, dtype=element, device="cpu", device_buffer_bytes=1 << 30)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(damacy.Sample(uri, slab) for slab in slabs)
        for batch in pipeline.batches(len(slabs)):
            with batch:
                yield _memory(batch, element)


def _memory(batch: damacy.Batch, element: damacy.Dtype) -> memoryview:
    """The memory of a host batch. Does not use NumPy, which lacks some element types."""
    length = math.prod(batch.info.shape) * _item_bytes(element)
    return memoryview((ctypes.c_ubyte * length).from_address(batch.info.device_ptr))


def _runs(box: Box, chunks: tuple[int, ...], item_bytes: int) -> list[list[Box]]:
    """Cuts the box into slabs along its first axis of more than one element. The slabs of a run have the same shape.

    If slabs stay small that way, their borders are chunk borders, so that no chunk is decoded twice.

    >>> _runs(((0, 3),), (2,), 1)
    [[((0, 3),)]]
    """
    axis = next((k for k, (start, stop) in enumerate(box) if stop - start > 1), None)
    if axis is None:
        return [[box]]
    start, stop = box[axis]
    bytes_of_one = math.prod(box_extents(box)) // (stop - start) * item_bytes
    thickness = max(1, _SLAB_BYTES // bytes_of_one)
    if thickness >= stop - start:
        return [[box]]
    if thickness >= chunks[axis]:
        thickness -= thickness % chunks[axis]
    first = min(stop, start + thickness - start % thickness)
    count = (stop - first) // thickness
    cuts = [[(start, first)], [(first + k * thickness, first + (k + 1) * thickness) for k in range(count)]]
    cuts.append([(first + count * thickness, stop)])
    return [[(*box[:axis], cut, *box[axis + 1 :]) for cut in run if cut[0] < cut[1]] for run in cuts]


def _item_bytes(element: damacy.Dtype) -> int:
    name = element.name
    return 1 if name == "BOOL" else int(name.lstrip("BFUI")) // 8


def _write_npy_header(file: BinaryIO, shape: tuple[int, ...], element: damacy.Dtype) -> None:
    import numpy

    described: dict[str, Any] = {"descr": _NPY_NAMES[element.name], "fortran_order": False, "shape": shape}
    numpy.lib.format.write_array_header_1_0(file, described)


def _print_elements(uri: str, box: Box, element: damacy.Dtype) -> None:
    shape = box_extents(box)
    if math.prod(shape) > _JSON_ELEMENTS:
        refuse(f"--json prints at most {_JSON_ELEMENTS:,} elements; name a file with --out", as_json=True)
    if element.name not in _NPY_NAMES:
        refuse(f"--json cannot print {element.name.lower()}: choose another --dtype", as_json=True)
    import numpy

    data = b"".join(bytes(block) for block in blocks(uri, box, element))
    values = numpy.frombuffer(data, _NPY_NAMES[element.name]).tolist()
    print_json(
        {
            "uri": uri,
            "box": box,
            "shape": list(shape),
            "dtype": array_name(element),
            "values": [value if math.isfinite(value) else _word(value) for value in values],
        }
    )


def _word(value: float) -> str:
    """NaN and the infinities, spelled as in zarr documents; JSON has no numbers for them."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
