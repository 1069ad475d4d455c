"""The compatibility mode of file I/O: whether cuFile is required, not used, or used if available."""

from __future__ import annotations

import enum
import operator
from typing import Any


class CompatMode(enum.IntEnum):
    """ON: POSIX calls only. OFF: cuFile only. AUTO: cuFile if it is available, else POSIX calls.

    >>> CompatMode.coerce("yes"), CompatMode.coerce(False), CompatMode.coerce("Auto")
    (<CompatMode.ON: 1>, <CompatMode.OFF: 0>, <CompatMode.AUTO: 2>)
    """

    OFF = 0
    ON = 1
    AUTO = 2

    @classmethod
    def coerce(cls, value: Any) -> CompatMode:
        """Converts a mode, a bool, or text in any case: on, true, yes; off, false, no; auto; an integer (0 is off)."""
        if isinstance(value, cls):
            return value
        if isinstance(value, bool):
            return cls.ON if value else cls.OFF
        if isinstance(value, str):
            return cls._of_text(value)
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"expected a CompatMode, a bool or a str (got {type(value).__name__})") from None
        return cls(number)

    @classmethod
    def _of_text(cls, text: str) -> CompatMode:
        word = text.strip().lower()
        if word == "auto":
            return cls.AUTO
        if word in ("on", "true", "yes"):
            return cls.ON
        if word in ("off", "false", "no"):
            return cls.OFF
        try:
            return cls.ON if int(word) else cls.OFF
        except ValueError:
            raise ValueError(f"expected on, off, auto or an integer (got {text!r})") from None


CompatMode.__module__ = "damacy.cufile"
