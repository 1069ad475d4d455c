"""The exceptions of the halo package: each is a builtin, so that code for NDSL catches it, and a DamacyError. What the
environment says is checked here, too."""

from __future__ import annotations

import os

from damacy._core.errors import DamacyError, DtypeMismatch, InvalidArgument


class HaloError(DamacyError):
    """A call at the wrong time, or with the wrong number of things (RuntimeError)."""


class Unsupported(DamacyError, NotImplementedError):
    """Well-formed, and not implemented."""


class OutsideAllocation(DamacyError, IndexError):
    """A box that leaves its allocation."""


def number_from_environment(name: str, default: int, least: int) -> int:
    """The number in an environment variable; ValueError that names it if it is none, or too small."""
    text = os.environ.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < least:
        raise InvalidArgument(f"{name}={text!r}: expected a number, {least} or more")
    return int(text)


__all__ = [
    "DtypeMismatch",
    "HaloError",
    "InvalidArgument",
    "OutsideAllocation",
    "Unsupported",
    "number_from_environment",
]
