"""Sizes in bytes, as integers or as text with a unit. Knows no settings."""

from __future__ import annotations

import re

from damacy._core.integers import as_int, shown

FORMS = "an int of bytes, or text such as '2GiB', '512 MiB' or '1.5GB'"

_UNITS = {
    unit: 1000**power if "i" not in unit else 1024**power
    for power, units in enumerate((("", "b"), ("kb", "kib"), ("mb", "mib"), ("gb", "gib"), ("tb", "tib")))
    for unit in units
}
_TEXT = re.compile(r"(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([a-z]*)")


def as_bytes(value: object, name: str) -> int:
    """`value` as a number of bytes from 0 to 2**63 - 1, rounded down. The `ValueError` lists the accepted forms.

    >>> as_bytes("2GiB", "keep_bytes"), as_bytes("1.5 kb", "keep_bytes"), as_bytes(7, "keep_bytes")
    (2147483648, 1500, 7)
    >>> as_bytes("forty", "keep_bytes")
    Traceback (most recent call last):
    ValueError: keep_bytes must be an int of bytes, or text such as '2GiB', '512 MiB' or '1.5GB' (got 'forty')
    """
    if isinstance(value, str):
        found = _TEXT.fullmatch(value.strip().lower())
        if found is None or found[2] not in _UNITS:
            raise ValueError(f"{name} must be {FORMS} (got {value!r})")
        import fractions  # loads slowly, and `import damacy` does not need it

        size, given = fractions.Fraction(found[1]) * _UNITS[found[2]], repr(value)
    else:
        try:
            size = as_int(value, name)
        except TypeError:
            raise TypeError(f"{name} must be {FORMS} (got {type(value).__name__})") from None
        given = shown(size)
    if size < 0:
        raise ValueError(f"{name} must be >= 0 (got {given})")
    if size >= 1 << 63:
        raise ValueError(f"{name} must be < 2**63 (got {given})")
    return int(size)


def size_text(number: float) -> str:
    """A number of bytes as people read it; the same text as `core/size_text.h` of the library.

    >>> size_text(999), size_text(262400), size_text(5 << 30)
    ('999 B', '256.2 KiB', '5.0 GiB')
    """
    if number < 1024:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1023.95:  # else the text would be 1024.0
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"
