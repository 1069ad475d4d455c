"""zarr-python through this library: `enable()`, and `z[...]` reads natively.

>>> import damacy.zarr
>>> sorted(damacy.zarr.__all__)[:3]
['CodecPipeline', 'GDSStore', 'Support']

This module is a table of contents. Importing it does not import zarr; its names do, when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "CodecPipeline": "damacy.zarr._pipeline",
    "GDSStore": "damacy.zarr._gds_store",
    "Support": "damacy.zarr._support",
    "disable": "damacy.zarr._switch",
    "enable": "damacy.zarr._switch",
    "reset_stats": "damacy.zarr._stats",
    "stats": "damacy.zarr._stats",
    "support": "damacy.zarr._support",
}

__all__ = ["CodecPipeline", "GDSStore", "Support", "disable", "enable", "reset_stats", "stats", "support"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "GDSStore":  # which serves older versions of zarr too, and looks for itself
        from damacy.zarr._versions import require_zarr

        require_zarr(name)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
