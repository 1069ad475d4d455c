"""The exceptions of the halo package: each is a builtin, so that code for NDSL catches it, and a DamacyError."""

from __future__ import annotations

from damacy._errors import DamacyError, DtypeMismatch, InvalidArgument


class HaloError(DamacyError):
    """A call at the wrong time, or with the wrong number of things (RuntimeError)."""


class Unsupported(DamacyError, NotImplementedError):
    """Well-formed, and not implemented."""


class OutsideAllocation(DamacyError, IndexError):
    """A box that leaves its allocation."""


__all__ = ["DtypeMismatch", "HaloError", "InvalidArgument", "OutsideAllocation", "Unsupported"]
