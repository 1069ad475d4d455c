"""Arrays as HTML for notebooks, and tables of other nodes: self-contained, escaped, and at most 64 KiB. Knows the texts
of `describe`."""

from __future__ import annotations

import html
from typing import Any

from damacy._open import describe

MAX_BYTES = 64 << 10
CELL_CHARACTERS = 2000  # of a cell; the rest is cut off

Cells = tuple[str, ...]


class Page:
    """Rows of tables that together stay below a number of bytes; what does not fit is counted."""

    def __init__(self, title: str, limit: int = MAX_BYTES) -> None:
        self._parts = [f"<div><b>{_cell(title)}</b>"]
        self._limit = limit
        self._used = _bytes(self._parts[0]) + _bytes("</div>")

    def table(self, rows: list[Cells], summary: str | None = None) -> None:
        """A table; with a summary it is folded."""
        if not rows:
            return
        head = "<table>" if summary is None else f"<details><summary>{_cell(summary)}</summary><table>"
        tail = "</table>" if summary is None else "</table></details>"
        more = f"<tr><td>… (+{len(rows)} more)</td></tr>"
        room = self._limit - self._used - sum(map(_bytes, (head, tail, more)))
        kept: list[str] = []
        for row in rows:
            text = "<tr>" + "".join(f"<td style='text-align:left'>{_cell(cell)}</td>" for cell in row) + "</tr>"
            if _bytes(text) > room:
                break
            room -= _bytes(text)
            kept.append(text)
        if not kept:
            return
        if len(kept) < len(rows):
            kept.append(f"<tr><td>… (+{len(rows) - len(kept)} more)</td></tr>")
        part = head + "".join(kept) + tail
        self._parts.append(part)
        self._used += _bytes(part)

    def text(self) -> str:
        """The page."""
        return "".join(self._parts) + "</div>"


def _cell(text: str) -> str:
    cut = text if len(text) <= CELL_CHARACTERS else f"{text[:CELL_CHARACTERS]}…"
    return html.escape(cut.encode(errors="backslashreplace").decode())


def _bytes(text: str) -> int:
    return len(text.encode())


def html_of_array(array: Any) -> str:
    """An array or image: its description, its levels, and its attributes folded."""
    page = Page(f"damacy.{type(array).__name__}")
    page.table([*describe.rows(array), ("readable", describe.readable(array))])
    if hasattr(array, "channels") and array.levels:
        page.table(describe.level_rows(array), "levels")
    page.table([(name, text) for name, text in describe.attribute_cells(array)], "attributes")
    return page.text()
