"""Output of the commands: tables, errors, JSON, progress bars, exit statuses. Knows typer and rich; no command.

Exit statuses: 0 success; 1 something is wrong with the data or the machine, or an array cannot be read; 2 the command
line is wrong or a package is missing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import rich.console
import rich.markup
import rich.progress
import rich.table
import typer

import damacy
from damacy._open.describe import extents as extents

out = rich.console.Console(emoji=False)
errors = rich.console.Console(stderr=True, emoji=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, nothing else.")]
Uri = Annotated[str, typer.Argument(help="Path or uri of an array or an image.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads; 0 is one for each core.")]


def fail(error: damacy.DamacyError, as_json: bool) -> NoReturn:
    """Prints the error and exits with status 1."""
    if as_json:
        print_json({"error": type(error).__name__, "reason": error.reason, "message": str(error)})
    else:
        errors.print(f"[red]{type(error).__name__}[/]: {rich.markup.escape(str(error))}", soft_wrap=True)
    raise typer.Exit(1)


def fail_to_write(path: object, error: OSError, as_json: bool) -> NoReturn:
    """Prints why an output was not written and exits with status 1."""
    message = f"{path}: {error.strerror or error}"
    if as_json:
        print_json({"error": type(error).__name__, "reason": "output", "message": message})
    else:
        errors.print(rich.markup.escape(message), soft_wrap=True)
    raise typer.Exit(1)


@contextlib.contextmanager
def report_failures(folder: object, as_json: bool) -> Iterator[None]:
    """For work that reads and writes below a folder: prints a failure and exits with status 1."""
    try:
        yield
    except damacy.DamacyError as error:
        fail(error, as_json)
    except OSError as error:
        fail_to_write(error.filename or folder, error, as_json)


def plain(name: str) -> str:
    """A file name made safe to print: rich's markup and bytes that are not text are escaped."""
    return rich.markup.escape(name.encode(errors="backslashreplace").decode())


def refuse(message: str, as_json: bool = False) -> NoReturn:
    """Prints what is wrong with the command line and exits with status 2."""
    if as_json:
        print_json({"error": "Usage", "reason": "arguments", "message": message})
    else:
        errors.print(rich.markup.escape(message), soft_wrap=True)
    raise typer.Exit(2)


def fields_table() -> rich.table.Table:
    """A table of two columns: names in bold, and their values."""
    table = rich.table.Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def progress_bar(as_json: bool) -> rich.progress.Progress:
    """A progress bar on stderr, so that output can be piped; hidden if stderr is not a terminal."""
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.TaskProgressColumn(),
        rich.progress.TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=as_json or not errors.is_terminal,
    )


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))
