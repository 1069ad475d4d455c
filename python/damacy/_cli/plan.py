"""`damacy plan`: the reads that a box needs, computed by the pipeline's planner, or how large whole arrays are. Reads
shard indices, but no chunks."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

import rich.markup
import rich.table
import typer

import damacy
from damacy._cli import network
from damacy._cli.box import Box, box_extents, box_text, parse_box
from damacy._cli.console import AsJson, Uri, extents, fail, fields_table, out, print_json, refuse
from damacy._core import log
from damacy._core.sizes import size_text
from damacy._open.arrays import Array
from damacy._open.opening import array_or_image

_BOX_HELP = (
    "Slices as in NumPy, such as '0:64,:,-256:'; ':' is a whole axis. Put -- before a box that begins with a minus."
)
BoxText = Annotated[str, typer.Argument(help=_BOX_HELP)]
OptionalBoxText = Annotated[
    str | None, typer.Argument(help=f"{_BOX_HELP} Without it, the sizes of all arrays at or below URI are shown.")
]
Also = Annotated[list[str] | None, typer.Option("--also", help="Another array or group to add up; only without a box.")]


@dataclasses.dataclass(frozen=True)
class Read:
    """One request: `bytes` at `offset` of the object `key`, for the chunks at these coordinates.

    `wanted_bytes` of them belong to these chunks; the rest are gaps. With `at_most`, fewer bytes may be read: the
    chunk's header decides.
    """

    key: str
    offset: int
    bytes: int
    wanted_bytes: int
    at_most: bool
    chunks: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The reads of one box.

    `box_bytes` is the size of its elements, `decoded_bytes` and `stored_bytes` the size of its chunks decoded and as
    stored, `read_bytes` the total of all requests. `buffer_bytes` is the least that each buffer of a pipeline needs.
    """

    uri: str
    box: Box
    store: str
    dtype: str
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    objects: int
    chunks: int
    missing_chunks: int
    box_bytes: int
    decoded_bytes: int
    stored_bytes: int
    read_bytes: int
    buffer_bytes: int
    reads: tuple[Read, ...]

    @property
    def decode_amplification(self) -> float:
        """Decoded bytes for each byte of the box."""
        return self.decoded_bytes / self.box_bytes

    @property
    def read_amplification(self) -> float:
        """Bytes read for each byte of the box; below 1 where compression saves more than the box's edges cost."""
        return self.read_bytes / self.box_bytes


def plan_reads(uri: str, box: Box) -> Plan:
    """Plans one box. Raises the errors of `push` for such a sample, and those of reading shard indices."""
    from damacy import _native

    with log.drained:
        found = _native.plan_reads(uri, [list(axis) for axis in box])
    reads = tuple(Read(**{**read, "chunks": tuple(read["chunks"])}) for read in found.pop("reads"))
    return Plan(uri=uri, box=box, reads=reads, **found)


@dataclasses.dataclass(frozen=True)
class ArraySize:
    """The chunks of an array that are there: what caches of encoded or decoded chunks would hold."""

    uri: str
    dtype: str
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    objects: int
    chunks: int
    missing_chunks: int
    stored_bytes: int
    decoded_bytes: int


def size_of_array(uri: str, shape: tuple[int, ...]) -> ArraySize:
    """Opens every object of the array. Raises the errors of `push` for a sample of all of it."""
    from damacy import _native

    if 0 in shape:
        return ArraySize(uri, "", shape, (), 0, 0, 0, 0, 0)
    with log.drained:
        found = _native.plan_reads(uri, [[0, size] for size in shape], list_reads=False)
    fields = {field.name for field in dataclasses.fields(ArraySize)} - {"uri"}
    return ArraySize(uri=uri, **{name: value for name, value in found.items() if name in fields})


def arrays_at(uri: str) -> list[Array]:
    """The array or image there, or all below a group."""
    node = damacy.open(uri)
    return [node] if isinstance(node, Array) else list(node.arrays().values())


def box_of(uri: str, text: str, as_json: bool) -> Box:
    """A box from the command line; exits if the array cannot be opened or the text is wrong."""
    try:
        return parse_box(text, array_or_image(uri).shape)
    except damacy.DamacyError as error:
        fail(error, as_json)
    except ValueError as error:
        refuse(str(error), as_json)


def command(
    uri: Uri,
    box: OptionalBoxText = None,
    also: Also = None,
    rtt: network.RoundTrip = None,
    rate: network.Rate = None,
    as_json: AsJson = False,
) -> None:
    """Show which objects, byte ranges and requests a box needs, and how many bytes are read and decoded for it.

    With --rtt and --rate: how many requests and round trips that is for a remote array, and how long it takes.
    Without a box: how large arrays are, encoded and decoded, which is what caches of all of them would hold.
    """
    link = network.link_of(rtt, rate, as_json)
    if link and box is None:
        refuse("--rtt and --rate are for the reads of a box: name one", as_json)
    if box is None:
        _show_sizes([uri, *(also or [])], as_json)
        return
    if also:
        refuse("--also adds whole arrays: leave the box out", as_json)
    asked = box_of(uri, box, as_json)
    try:
        plan = plan_reads(uri, asked)
        is_sharded = link is not None and array_or_image(uri).shards is not None
    except damacy.DamacyError as error:
        fail(error, as_json)
    trips = network.trips_of([read.bytes for read in plan.reads], plan.objects if is_sharded else 0)
    if as_json:
        amplification = {
            "decode_amplification": plan.decode_amplification,
            "read_amplification": plan.read_amplification,
        }
        remote = {"network": network.as_json(trips, link)} if link else {}
        print_json(dataclasses.asdict(plan) | amplification | remote)
    else:
        _show(plan, network.text(trips, link) if link else "")


def _show(plan: Plan, remote: str) -> None:
    out.print(_reads_table(plan))
    table = fields_table()
    table.add_row(
        "box", f"{box_text(plan.box)}: {extents(box_extents(plan.box))} of {plan.dtype}, {size_text(plan.box_bytes)}"
    )
    missing = f", {plan.missing_chunks:,} of them not stored (fill value)" if plan.missing_chunks else ""
    table.add_row(
        "chunks",
        f"{plan.chunks:,}{missing}; {size_text(plan.stored_bytes)} stored, {size_text(plan.decoded_bytes)} decoded",
    )
    table.add_row("requests", f"{len(plan.reads):,} to {plan.objects:,} objects, {size_text(plan.read_bytes)}")
    table.add_row(
        "memory",
        f"host_buffer_bytes and device_buffer_bytes of at least {plan.buffer_bytes:,}; "
        f"{size_text(4 * math.prod(box_extents(plan.box)))} of a slot in f32",
    )
    table.add_row("read", f"{plan.read_amplification:.2f} bytes for each byte of the box")
    table.add_row("decoded", f"{plan.decode_amplification:.2f} bytes for each byte of the box")
    if remote:
        table.add_row("remote", remote)
    out.print(table)


def _show_sizes(uris: list[str], as_json: bool) -> None:
    try:
        arrays = {array.uri: array.shape for uri in uris for array in arrays_at(uri)}
        sizes = [size_of_array(uri, shape) for uri, shape in arrays.items()]
    except damacy.DamacyError as error:
        fail(error, as_json)
    totals = {name: sum(getattr(each, name) for each in sizes) for name in ("chunks", "stored_bytes", "decoded_bytes")}
    if as_json:
        print_json({"arrays": [dataclasses.asdict(each) for each in sizes]} | totals)
        return
    table = rich.table.Table()
    table.add_column("array", overflow="fold")
    for name in ("shape", "chunks", "not stored", "encoded", "decoded"):
        table.add_column(name, justify="right")
    for each in sizes:
        counts = f"{each.chunks:,}", f"{each.missing_chunks:,}" if each.missing_chunks else ""
        table.add_row(
            rich.markup.escape(each.uri),
            extents(each.shape),
            *counts,
            size_text(each.stored_bytes),
            size_text(each.decoded_bytes),
        )
    if len(sizes) != 1:
        table.add_section()
        total = size_text(totals["stored_bytes"]), size_text(totals["decoded_bytes"])
        table.add_row(f"{len(sizes):,} arrays", "", f"{totals['chunks']:,}", "", *total)
    out.print(table)


def _reads_table(plan: Plan) -> rich.table.Table:
    table = rich.table.Table(title=rich.markup.escape(plan.store), title_justify="left")
    table.add_column("object", overflow="fold")
    for name in ("from byte", "to byte", "bytes", "gaps", "chunks"):
        table.add_column(name, justify="right")
    for read in plan.reads:
        table.add_row(
            rich.markup.escape(read.key),
            f"{read.offset:,}",
            f"{read.offset + read.bytes:,}",
            ("≤ " if read.at_most else "") + size_text(read.bytes),
            size_text(read.bytes - read.wanted_bytes),
            _chunks_text(read.chunks),
        )
    return table


def _chunks_text(chunks: tuple[tuple[int, ...], ...]) -> str:
    if len(chunks) == 1:
        return str(chunks[0])
    return f"{len(chunks)}: {chunks[0]} … {chunks[-1]}"
