"""Checks integers in arguments, and writes counts. Messages contain the name of the argument."""

from __future__ import annotations

import operator
from typing import Any


def as_int(value: Any, name: str) -> int:
    """`value` as an `int`; `TypeError` with `name` for a bool and for objects without `__index__`."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer (got {type(value).__name__})")


def shown(value: int) -> str:
    """`value` as text for a message, also if it has more digits than Python prints."""
    return str(value) if value.bit_length() < 4096 else f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"


def elements(count: int) -> str:
    """ "1 element", "3 elements"."""
    return f"{count} element{'' if count == 1 else 's'}"
