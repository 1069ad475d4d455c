"""Lets zarr-python read through this library: after `enable()`, `z[...]` is read by native code.

>>> import damacy.zarr
>>> sorted(damacy.zarr.__all__)[:3]
['CodecPipeline', 'GDSStore', 'Support']

Importing this module does not import zarr. The first use of a name imports the name's module, and with it zarr."""

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
    if name != "GDSStore":  # works with older versions of zarr too, and checks the version itself
        from damacy.zarr._versions import require_zarr

        require_zarr(name)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
