"""The nodes below a group as lines of text and as HTML. Opens nodes; knows a line of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from damacy._core.errors import DamacyError
from damacy._open.arrays import Array
from damacy._open.describe import attribute_cells
from damacy._open.html import Cells, Page
from damacy._open.images import Image

MAX_DEPTH, MAX_ENTRIES = 4, 1000
HTML_ENTRIES = 200
_LABELS = "labels"
_ALL = "*"


class Entry(NamedTuple):
    """A node below a group: its path, how deep it lies, and the node or why it cannot be opened. The name `*` stands
    for nodes that cannot be listed."""

    path: str
    name: str  # the path below its parent
    depth: int
    node: Any
    error: str | None


def entries(group: Any, limit: int = MAX_ENTRIES) -> tuple[list[Entry], int]:
    """The nodes below a group in depth-first order, and how many more were seen but left out."""
    found: list[Entry] = []
    rest = 0
    stack: list[tuple[Any, str, int, Iterator[str]]] = [(group, "", 1, _names(group))]
    while stack:
        parent, above, depth, names = stack[-1]
        try:
            name = next(names, None)
        except DamacyError as error:
            stack.pop()
            found.append(Entry(above + _ALL, _ALL, depth, None, error.message))
            continue
        if name is None:
            stack.pop()
            continue
        if len(found) == limit:
            rest += 1
            continue
        entry = _entry(parent, name, above + name, depth)
        found.append(entry)
        if entry.node is not None and depth < MAX_DEPTH:
            stack.append((entry.node, f"{above}{name}/", depth + 1, _names(entry.node)))
    return found, rest


def members(group: Any) -> list[Entry]:
    """The nodes directly below a group."""
    return [_entry(group, name, name, 1) for name in _names(group)]


def _names(node: Any) -> Iterator[str]:
    """The members of a group; levels and labels of an image."""
    if isinstance(node, Image):
        yield from node.levels
        try:
            names = tuple(node.labels)
        except DamacyError:
            yield _LABELS  # opening them fails again, and its error is shown
        else:
            yield from (f"{_LABELS}/{name}" for name in names)
    elif not isinstance(node, Array):
        yield from node


def _child(parent: Any, name: str) -> Any:
    if not isinstance(parent, Image):
        return parent[name]
    if name in parent.levels:
        return parent.level(name)
    labels = parent.labels
    return labels[name.removeprefix(f"{_LABELS}/")]


def _entry(parent: Any, name: str, path: str, depth: int) -> Entry:
    try:
        return Entry(path, name, depth, _child(parent, name), None)
    except DamacyError as error:
        return Entry(path, name, depth, None, error.message)
    except KeyError as error:
        return Entry(path, name, depth, None, str(error.args[0]))


def line_of(node: Any) -> str:
    """A node in one line.

    >>> line_of(None)
    ''
    """
    if not isinstance(node, Array):
        return "" if node is None else type(node).__name__.lower()
    axes = [f"{name}={size}" if name else str(size) for name, size in zip(node.dims, node.shape)]
    levels = f", {len(node.levels)} levels" if isinstance(node, Image) else ""
    return f"{node.dtype} ({', '.join(axes)}) chunks {node.chunks}{levels}"


def _about(entry: Entry) -> str:
    if entry.error is None:
        return line_of(entry.node)
    return entry.error if entry.name == _ALL else f"cannot be opened: {entry.error}"


def tree_text(group: Any) -> str:
    """The tree of a group as text."""
    found, rest = entries(group)
    lines = [f"{group.uri} ({type(group).__name__.lower()})"]
    for entry in found:
        lines.append(f"{'  ' * entry.depth}{entry.name}  {_about(entry)}".rstrip())
    if rest:
        lines.append(f"… (+{rest} more)")
    return "\n".join(lines)


def html_of_group(group: Any) -> str:
    """A group: its nodes, and its attributes folded."""
    page = Page(f"damacy.{type(group).__name__} {group.uri}")
    found, rest = entries(group, HTML_ENTRIES)
    rows: list[Cells] = [(entry.path, _about(entry)) for entry in found]
    page.table(rows + ([(f"… (+{rest} more)", "")] if rest else []))
    page.table([(name, text) for name, text in attribute_cells(group)], "attributes")
    return page.text()
