"""`damacy ls`: the names directly below a group or a folder, or the name of an array, one a line."""

from __future__ import annotations

from typing import Any

import rich.markup

import damacy
from damacy._cli.console import AsJson, Uri, fail, fields_table, out, print_json
from damacy._open import tree
from damacy._open.plain_folder import open_node_or_folder


def command(uri: Uri, as_json: AsJson = False) -> None:
    """List the arrays and groups directly below a path or uri, also in a folder that is no group."""
    try:
        found = open_node_or_folder(uri)
        if isinstance(found, damacy.Array):
            members = [tree.Entry("", "", 1, found, None)]
        else:
            members = tree.members(found)
    except damacy.DamacyError as error:
        fail(error, as_json)
    if as_json:
        print_json({"uri": found.uri, "members": {entry.name: _as_json(entry) for entry in members}})
        return
    table = fields_table()
    for entry in members:
        table.add_row(rich.markup.escape(entry.name or found.uri), rich.markup.escape(_text(entry)))
    out.print(table)


def _text(entry: tree.Entry) -> str:
    if entry.error is not None:
        return f"cannot be opened: {entry.error}"
    if isinstance(entry.node, damacy.Array):
        return f"array {entry.node.dtype} {tuple(entry.node.shape)}"
    return type(entry.node).__name__.lower()


def _as_json(entry: tree.Entry) -> dict[str, Any]:
    if entry.error is not None:
        return {"error": entry.error}
    if isinstance(entry.node, damacy.Array):
        return {"kind": "array", "dtype": str(entry.node.dtype), "shape": list(entry.node.shape)}
    return {"kind": type(entry.node).__name__.lower()}
