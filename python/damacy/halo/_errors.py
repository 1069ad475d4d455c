"""The exceptions of the halo package. Each is a DamacyError and a built-in exception, so that code written for NDSL
catches it. Also validates environment variables."""

from __future__ import annotations

import os

from damacy._core.errors import CLASS_BY_REASON, DamacyError, DtypeMismatch, InvalidArgument


class HaloError(DamacyError):
    """A call in the wrong order, or with the wrong number of arrays or specs (RuntimeError)."""


class Unsupported(DamacyError, NotImplementedError):
    """A valid request that is not implemented."""


class NcclError(HaloError):
    """A call of NCCL that failed. The text has the call, NCCL's own text and the rank."""


class OutsideAllocation(DamacyError, IndexError):
    """A box that extends beyond its allocation."""


# By the reason codes of src/damacy/halo/spec.h.
CLASS_BY_REASON["outside-allocation"] = OutsideAllocation
CLASS_BY_REASON["halo-misuse"] = HaloError
CLASS_BY_REASON["halo-unsupported"] = Unsupported
CLASS_BY_REASON["no-nccl"] = Unsupported
CLASS_BY_REASON["nccl"] = NcclError


def number_from_environment(name: str, default: int, least: int) -> int:
    """The number in an environment variable. ValueError, with its name, if it is not a number or less than `least`."""
    text = os.environ.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < least:
        raise InvalidArgument(f"environment variable {name}={text!r}: expected a number, at least {least}")
    return int(text)


__all__ = [
    "DtypeMismatch",
    "HaloError",
    "InvalidArgument",
    "NcclError",
    "OutsideAllocation",
    "Unsupported",
    "number_from_environment",
]
