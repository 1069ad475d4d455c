"""`damacy cache`: what a disk cache holds, by uri, whether its entries are whole, and removing them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import rich.markup
import rich.table
import typer

import damacy
from damacy._cli.console import AsJson, fail, fields_table, out, plain, print_json, progress_bar, refuse
from damacy._core import log
from damacy._core.sizes import size_text

Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="The directory of Config.disk_cache or DAMACY_DISK_CACHE.")
]
Prefix = Annotated[str | None, typer.Argument(metavar="PREFIX", help="Only entries of this uri, and of uris below it.")]
Verify = Annotated[bool, typer.Option("--verify", help="Read the entries and check their checksums.")]
Clear = Annotated[bool, typer.Option("--clear", help="Remove what the cache holds, or what it holds below PREFIX.")]

STORES_SHOWN = 20
USES_A_SEGMENT = 16  # a use is counted for so much of a segment


def command(
    directory: Directory,
    prefix: Prefix = None,
    verify: Verify = False,
    clear: Clear = False,
    as_json: AsJson = False,
) -> None:
    """Show what a disk cache holds, by uri. Exit status 1 if --verify finds damaged entries.

    Damaged entries are read from the remote store again. Programs may use the cache meanwhile.
    """
    if verify and clear:
        refuse("--verify and --clear exclude each other", as_json)
    if prefix is not None and "://" not in prefix:
        refuse(f"PREFIX must be a uri such as s3://bucket/data (got {prefix!r})", as_json)
    try:
        if clear:
            _clear(directory, prefix, as_json)
        else:
            _look(directory, prefix, verify, as_json)
    except damacy.DamacyError as error:
        fail(error, as_json)


def _clear(directory: str, prefix: str | None, as_json: bool) -> None:
    from damacy import _native

    with log.drained, _bar(as_json) as progress:
        segments, entries, freed = _native.clear_disk_cache(directory, prefix or "", progress)
    if as_json:
        print_json({"segments": segments, "bytes": freed} | ({} if prefix is None else {"entries": entries}))
    elif prefix is None:
        out.print(f"removed {segments:,} files, {size_text(freed)}")
    else:
        out.print(f"removed {entries:,} entries, {size_text(freed)} on disk")


def _look(directory: str, prefix: str | None, verify: bool, as_json: bool) -> None:
    from damacy import _native

    with log.drained, _bar(as_json) as progress:
        found = _native.look_at_disk_cache(directory, prefix or "", verify, progress)
    if as_json:
        print_json(found)
    else:
        _show(found, verify)
        _show_stores(found)
    if found["damaged"]:
        raise typer.Exit(1)


@contextlib.contextmanager
def _bar(as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal: a function of how many files are done, and of how many."""
    with progress_bar(as_json) as progress:
        task = progress.add_task("files", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _show_stores(found: dict[str, Any]) -> None:
    stores = sorted(found["stores"], key=lambda store: -store["entry_bytes"])
    table = rich.table.Table(box=None, pad_edge=False)
    for name in ("bytes", "entries", "read, about"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("uri", overflow="fold")
    for store in stores[:STORES_SHOWN]:
        read = size_text(store["uses"] * found["segment_bytes"] / USES_A_SEGMENT)
        table.add_row(size_text(store["entry_bytes"]), f"{store['entries']:,}", read, plain(store["uri"]))
    if stores:
        out.print(table)
    if len(stores) > STORES_SHOWN:
        out.print(f"and {len(stores) - STORES_SHOWN:,} more: --json lists all")
    if found["unnamed"]:
        out.print(f"{found['unnamed']:,} entries have no uri: an earlier version kept them, or their name is damaged")


def _show(found: dict[str, Any], verify: bool) -> None:
    table = fields_table()
    table.add_row("directory", rich.markup.escape(found["path"]))
    table.add_row("on disk", f"{size_text(found['file_bytes'])} in {found['segments']:,} files of entries and an index")
    table.add_row("entries", f"{found['entries']:,}, {size_text(found['entry_bytes'])}")
    table.add_row("index", f"room for {found['hints']:,} entries")
    table.add_row(
        "uses",
        f"{found['uses']:,}, each for {size_text(found['segment_bytes'] / USES_A_SEGMENT)} that was read from a file",
    )
    if verify:
        damaged = f"[red]{found['damaged']:,} damaged[/]" if found["damaged"] else "all whole"
        table.add_row("checked", f"{found['checked']:,} entries: {damaged}")
    out.print(table)
