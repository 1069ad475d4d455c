"""The command line's table of contents, and the commands `info`, `doctor` and `demo`, which show the results of
`damacy.open`, `damacy.doctor` and `damacy.demo`. The other commands have their own modules."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Annotated, Any

import rich.console
import rich.markup
import typer

import damacy
from damacy._cli import bench, bench_io, cat, completion, plan, preview, verify
from damacy._cli.console import AsJson, Uri, extents, fail, fields_table, out, print_json, refuse, report_failures
from damacy._cli.doctor import examine
from damacy._pipeline.array_attributes import in_json

_ATTRIBUTE_CHARACTERS = 300  # an attribute's text is cut off after so many

app = typer.Typer(
    name="damacy",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"damacy {damacy.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def damacy_itself(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Crops of chunked, compressed arrays, streamed into batches."""


@app.command()
def info(uri: Uri, as_json: AsJson = False) -> None:
    """Show an array's shape, type, chunks, codecs, levels and attributes, and whether damacy can read it."""
    try:
        found = damacy.open(uri)
    except damacy.DamacyError as error:
        fail(error, as_json)
    if as_json:
        print_json(in_json(dataclasses.asdict(found) | {"fill_value": _plain(found.fill_value)}))
        return
    table = fields_table()
    table.add_row("uri", rich.markup.escape(found.uri))
    table.add_row("shape", extents(found.shape))
    if any(found.dims):
        table.add_row("dims", rich.markup.escape(", ".join(name or "–" for name in found.dims)))
    table.add_row("type", found.dtype)
    table.add_row("chunks", extents(found.chunks))
    table.add_row("shards", "none" if found.shards is None else extents(found.shards))
    table.add_row("zarr format", str(found.zarr_format))
    table.add_row("codecs", ", ".join(found.codecs))
    if found.fill_value is not None:
        table.add_row("fill value", str(found.fill_value))
    if found.levels:
        table.add_row("levels", rich.markup.escape(", ".join(found.levels)))
    if found.cf is not None:
        note = " (batches hold stored values)" if found.cf.is_packed else ""
        table.add_row("packed", rich.markup.escape(f"{found.cf}{note}"))
    for name, value in found.attrs.items():
        table.add_row("attribute", rich.markup.escape(f"{name} = {_shortened(value)}"))
    table.add_row("readable", _readable(found))
    out.print(table)


def _plain(element: Any) -> Any:
    """Converts a NumPy scalar to a Python value."""
    return None if element is None else element.item()


def _shortened(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _ATTRIBUTE_CHARACTERS else f"{text[:_ATTRIBUTE_CHARACTERS]}… (--json has all of it)"


def _readable(found: damacy.ArrayInfo) -> str:
    if not found.supported:
        return f"[red]no[/]: {rich.markup.escape(found.why_not or '')}"
    return "[green]yes[/]"


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine: CUDA, cores, memory, limits, packages. Exit status 1 if damacy cannot work."""
    report = examine()
    if as_json:
        print_json(report.as_dict())
    else:
        table = fields_table()
        for line in report.lines:
            mark = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[red]✗[/]"}[line.verdict]
            table.add_row(f"{mark} {line.name}", rich.markup.escape(line.text))
        out.print(table)
    if not report.usable:
        raise typer.Exit(1)


@app.command()
def demo(
    folder: Annotated[pathlib.Path, typer.Option(help="Where the arrays are kept between runs.")] = pathlib.Path(
        "damacy-demo"
    ),
    picture: Annotated[pathlib.Path, typer.Option(help="The montage of crops to write.")] = pathlib.Path("demo.png"),
    threads: Annotated[int, typer.Option(min=0, help="Reader threads; 0 is one for each core.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write two real arrays, stream random crops of them, and check the crops against zarr-python.

    Exit status 1 if any element differs.
    """
    try:
        from damacy import demo as job
    except ModuleNotFoundError as missing:
        message = f"the demo needs the package {missing.name}: pip install {missing.name}"
        refuse(message, as_json)
    console = rich.console.Console(stderr=True, emoji=False) if as_json else out
    with report_failures(folder, as_json):
        outcome = job.run(folder, picture, threads, console)
    if as_json:
        print_json(outcome.as_dict())
    if outcome.mismatches:
        raise typer.Exit(1)


app.command("completion")(completion.command)
app.command("verify")(verify.command)
app.command("plan")(plan.command)
app.command("cat")(cat.command)
app.command("preview")(preview.command)
completion.answer_shells()
bench.app.command("io")(bench_io.bench_io)
app.add_typer(bench.app, name="bench")
