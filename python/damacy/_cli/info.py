"""`damacy info`: prints what `damacy.open` returns, an array as a table and a group as a tree."""

from __future__ import annotations

from typing import Any

import rich.markup

import damacy
from damacy._cli import verify
from damacy._cli.console import AsJson, Uri, fail, fields_table, out, print_json
from damacy._open import describe, folders, tree
from damacy._open.groups import Group
from damacy._open.plain_folder import open_node_or_folder
from damacy._pipeline.array_attributes import in_json


def command(uri: Uri, as_json: AsJson = False) -> None:
    """Show an array's shape, type, chunks, codecs, levels and attributes, or the tree of a group or folder.

    The tree has at most 4 levels and 1,000 nodes.
    """
    try:
        found = open_node_or_folder(uri)
        if isinstance(found, damacy.Array):
            _show_array(found, as_json)
        else:
            _show_group(found, as_json)
    except damacy.DamacyError as error:
        fail(error, as_json)


def _show_array(array: damacy.Array, as_json: bool) -> None:
    stray = folders.stray_file(array.uri) if array.supported else None
    if as_json:
        print_json(describe.as_json(array) | ({} if stray is None else {"stray": stray}))
        return
    table = fields_table()
    for name, text in describe.rows(array) + describe.attribute_rows(array):
        table.add_row(name, rich.markup.escape(text))
    table.add_row("readable", _readable(array))
    if stray is not None:
        table.add_row("stored", f"[yellow]no chunk is stored; {verify.stray_text(stray)}[/]")
    out.print(table)


def _readable(array: damacy.Array) -> str:
    if not array.supported:
        return f"[red]no[/]: {rich.markup.escape(array.why_not or '')}"
    return "[green]yes[/]"


def _show_group(group: Group, as_json: bool) -> None:
    if not as_json:
        out.print(rich.markup.escape(group.tree()), highlight=False, soft_wrap=True)
        return
    entries, more = tree.entries(group)
    print_json(
        {
            "uri": group.uri,
            "kind": type(group).__name__.lower(),
            "zarr_format": group.zarr_format or None,
            "attrs": in_json(group.attrs),
            "nodes": {entry.path: _node(entry) for entry in entries},
            "more": more,
        }
    )


def _node(entry: tree.Entry) -> dict[str, Any]:
    if entry.error is not None:
        return {"error": entry.error}
    kind = {"kind": type(entry.node).__name__.lower()}
    if isinstance(entry.node, damacy.Array):
        return kind | describe.as_json(entry.node)
    return kind | {"attrs": in_json(entry.node.attrs)}
