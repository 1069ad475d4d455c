"""`GDSStore`: one name, chosen by the zarr-python that is installed. Knows versions; the stores are in
`_gds_store_v2` and `_gds_store_v3`."""

from __future__ import annotations

from typing import Any


def _choose() -> Any:
    serves = "zarr-python 2.13 to 2.18 and 3.1 or later serve: pip install 'zarr>=3.1', or the extra damacy[zarr]"
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f"damacy.zarr.GDSStore needs zarr, which cannot be imported ({error}); {serves}") from error
    version = str(getattr(zarr, "__version__", "0"))
    numbers = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in (*version.split("."), "0")[:2])
    if numbers >= (3, 0):
        from damacy.zarr import _gds_store_v3

        return _gds_store_v3.GDSStore
    if numbers < (2, 13):
        raise ImportError(f"damacy.zarr.GDSStore needs a newer zarr than {version}; {serves}")
    from damacy.zarr import _gds_store_v2

    return _gds_store_v2.GDSStore


GDSStore = _choose()
GDSStore.__module__ = "damacy.zarr"
