"""The command line's table of contents, and the commands `doctor` and `demo`, which show the results of `damacy.doctor`
and `damacy.demo`. The other commands have their own modules."""

from __future__ import annotations

import pathlib
from typing import Annotated

import rich.console
import rich.markup
import typer

import damacy
from damacy._cli import bench, bench_io, bench_remote, cache, cat, completion, info, ls, plan, preview, verify
from damacy._cli.console import AsJson, fields_table, out, print_json, refuse, report_failures
from damacy._cli.doctor import examine
from damacy._cli.remote import takes_remote

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


app.command("info")(takes_remote(info.command))
app.command("ls")(takes_remote(ls.command))


@app.command()
@takes_remote
def doctor(
    uri: Annotated[str, typer.Option(help="Also open this, and show each request with its times.")] = "",
    as_json: AsJson = False,
) -> None:
    """Check this machine: CUDA, cores, memory, limits, packages. Exit status 1 if damacy cannot work."""
    report = examine(uri)
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


app.command("cache")(cache.command)
app.command("completion")(completion.command)
app.command("verify")(takes_remote(verify.command))
app.command("plan")(takes_remote(plan.command))
app.command("cat")(takes_remote(cat.command))
app.command("preview")(takes_remote(preview.command))
completion.answer_shells()
bench.app.command("io")(bench_io.bench_io)
bench.app.command("remote")(takes_remote(bench_remote.command))
app.add_typer(bench.app, name="bench")
