"""Checks of arguments that several modules of file I/O share. Knows no settings."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any


def natural(name: str, value: Any) -> int:
    """The value as an integer of at least 0. Raises `TypeError` or `OverflowError`.

    >>> natural("offset", 4)
    4
    """
    number = operator.index(value)
    if number < 0:
        raise OverflowError(f"{name}: negative value {number}")
    return number


def values_to_set(*config: Any) -> dict[str, Any]:
    """The arguments of a function `set`, as KvikIO has them: a mapping, or a key and its value.

    >>> values_to_set({"task_size": 1}), values_to_set("task_size", 1)
    ({'task_size': 1}, {'task_size': 1})
    """
    if len(config) == 1 and isinstance(config[0], Mapping):
        return dict(config[0])
    if len(config) == 2 and isinstance(config[0], str):
        return {config[0]: config[1]}
    raise ValueError("expected set({key: value, ...}) or set(key, value)")
