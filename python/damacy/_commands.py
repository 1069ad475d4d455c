"""The commands `info`, `doctor` and `demo`, with typer and rich. Knows how to ask and how to show; what is shown comes
from `damacy.open`, `damacy.doctor` and `damacy.demo`."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Annotated, Any

import rich.console
import rich.markup
import rich.table
import typer

import damacy
from damacy import _doctor

app = typer.Typer(
    name="damacy",
    help="Crops of chunked, compressed arrays, streamed into batches.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = rich.console.Console()
_errors = rich.console.Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, nothing else.")]


@app.command()
def info(
    uri: Annotated[str, typer.Argument(help="Path or file:// uri of an array or an image.")], as_json: AsJson = False
) -> None:
    """Show what an array is: shape, type, chunks, codecs, levels, and whether damacy reads it."""
    try:
        found = damacy.open(uri)
    except damacy.DamacyError as error:
        _fail(error, as_json)
    if as_json:
        _print_json(dataclasses.asdict(found))
        return
    table = _fields_table()
    table.add_row("uri", rich.markup.escape(found.uri))
    table.add_row("shape", _extents(found.shape))
    table.add_row("type", found.dtype)
    table.add_row("chunks", _extents(found.chunks))
    table.add_row("shards", "none" if found.shards is None else _extents(found.shards))
    table.add_row("zarr format", str(found.zarr_format))
    table.add_row("codecs", ", ".join(found.codecs))
    if found.levels:
        table.add_row("levels", rich.markup.escape(", ".join(found.levels)))
    why_not = rich.markup.escape(found.why_not or "")
    table.add_row("readable", "[green]yes[/]" if found.supported else f"[red]no[/]: {why_not}")
    _out.print(table)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Show what this machine offers damacy, and what is amiss. Exit status 1 if damacy cannot work."""
    report = _doctor.examine()
    if as_json:
        _print_json(report.as_dict())
    else:
        table = _fields_table()
        for line in report.lines:
            mark = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[red]✗[/]"}[line.verdict]
            table.add_row(f"{mark} {line.name}", rich.markup.escape(line.text))
        _out.print(table)
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
        message = f"the demo needs the package {missing.name}: pip install 'damacy[demo]'"
        _errors.print(rich.markup.escape(message))
        raise typer.Exit(2) from None
    console = rich.console.Console(stderr=True) if as_json else _out
    outcome = job.run(folder, picture, threads, console)
    if as_json:
        _print_json(outcome.as_dict())
    if outcome.mismatches:
        raise typer.Exit(1)


def _fail(error: damacy.DamacyError, as_json: bool) -> None:
    if as_json:
        _print_json({"error": type(error).__name__, "reason": error.reason, "message": str(error)})
    else:
        _errors.print(f"[red]{type(error).__name__}[/]: {rich.markup.escape(str(error))}", soft_wrap=True)
    raise typer.Exit(1)


def _fields_table() -> rich.table.Table:
    table = rich.table.Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _extents(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "0-d"


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))
