"""Checks the version of zarr-python. Features are not decided by version; they are probed where they are used."""

from __future__ import annotations

OLDEST = (3, 1)
NEWEST = (3, 4)


def zarr_version(what: str, serves: str) -> tuple[int, int]:
    """Imports zarr and returns its major and minor version. If that fails, `ImportError` holds `what` and `serves`."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f"damacy.zarr.{what} needs zarr, which cannot be imported ({error}); {serves}") from error
    major, minor, *_ = (*str(getattr(zarr, "__version__", "0")).split("."), "0", "0")
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def too_old(what: str, serves: str) -> ImportError:
    """The error for a zarr that is installed and too old."""
    import zarr

    return ImportError(f"damacy.zarr.{what} needs a newer zarr than {getattr(zarr, '__version__', '0')}; {serves}")


def require_zarr(what: str) -> tuple[int, int]:
    """The version of zarr. Raises `ImportError`, which names `what`, if zarr is missing or too old."""
    serves = "zarr-python 3.1 to 3.4 works: pip install 'zarr>=3.1', or the extra damacy[zarr]"
    numbers = zarr_version(what, serves)
    if numbers < OLDEST:
        raise too_old(what, serves)
    return numbers
