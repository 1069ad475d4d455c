"""`damacy ls`: the names directly below a group, or the name of an array, one a line."""

from __future__ import annotations

from typing import Any

import rich.markup

import damacy
from damacy._cli.console import AsJson, Uri, fail, fields_table, out, print_json


def command(uri: Uri, as_json: AsJson = False) -> None:
    """List the arrays and groups directly below a path or uri."""
    try:
        found = damacy.open(uri)
        members = {"": found} if isinstance(found, damacy.Array) else {name: found[name] for name in found}
    except damacy.DamacyError as error:
        fail(error, as_json)
    if as_json:
        print_json({"uri": found.uri, "members": {name: _as_json(node) for name, node in members.items()}})
        return
    table = fields_table()
    for name, node in members.items():
        table.add_row(rich.markup.escape(name or found.uri), rich.markup.escape(_text(node)))
    out.print(table)


def _text(node: Any) -> str:
    if isinstance(node, damacy.Array):
        return f"array {node.dtype} {tuple(node.shape)}"
    return type(node).__name__.lower()


def _as_json(node: Any) -> dict[str, Any]:
    if isinstance(node, damacy.Array):
        return {"kind": "array", "dtype": str(node.dtype), "shape": list(node.shape)}
    return {"kind": type(node).__name__.lower()}
