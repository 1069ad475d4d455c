"""Replaces the parts of rich that report.py uses if rich is not installed: the same calls, plain text."""

from __future__ import annotations

import re


class Table:
    def __init__(self, title: str = "", **_: object) -> None:
        self._title = title
        self._columns: list[str] = []
        self._rows: list[tuple[str, ...]] = []

    def add_column(self, name: str, **_: object) -> None:
        self._columns.append(name)

    def add_row(self, *cells: str) -> None:
        self._rows.append(cells)

    def add_section(self) -> None:
        self._rows.append(("",) * len(self._columns))

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        rows = [tuple(self._columns), *self._rows]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
        return "\n".join([self._title, *lines])


class Console:
    is_terminal = False

    def __init__(self, **_: object) -> None:
        pass

    def print(self, what: object, **_: object) -> None:
        print(re.sub(r"\[/?(?:bold |dim|red|yellow)[a-z ]*\]", "", str(what)), flush=True)
