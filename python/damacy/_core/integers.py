"""What counts as an integer in arguments. Knows messages that name the argument; knows no argument by name."""

from __future__ import annotations

import operator
from typing import Any


def as_int(value: Any, name: str) -> int:
    """`value` as an `int`; `TypeError` naming `name` for a bool and for what has no `__index__`."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer (got {type(value).__name__})")


def shown(value: int) -> str:
    """`value` for a message, also where it has more digits than Python agrees to print."""
    return str(value) if value.bit_length() < 4096 else f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"
