"""Binds the name `GDSStore` to the class for the installed version of zarr-python: `_gds_store_v2` or
`_gds_store_v3`."""

from __future__ import annotations

from typing import Any

from damacy.zarr import _versions


def _choose() -> Any:
    serves = "zarr-python 2.13 to 2.18, and 3.1 or later, work: pip install 'zarr>=3.1', or the extra damacy[zarr]"
    numbers = _versions.zarr_version("GDSStore", serves)
    if numbers < (2, 13) or (3, 0) <= numbers < _versions.OLDEST:
        raise _versions.too_old("GDSStore", serves)
    if numbers < (3, 0):
        from damacy.zarr import _gds_store_v2

        return _gds_store_v2.GDSStore
    from damacy.zarr import _gds_store_v3

    return _gds_store_v3.GDSStore


GDSStore = _choose()
GDSStore.__module__ = "damacy.zarr"
