"""Which zarr-python serves. Knows version numbers for messages only: features are probed where they are used."""

from __future__ import annotations

OLDEST = (3, 1)
NEWEST = (3, 4)


def _numbers(version: str) -> tuple[int, int]:
    major, minor, *_ = (*version.split("."), "0", "0")
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def require_zarr(what: str) -> tuple[int, int]:
    """Imports zarr and gives its major and minor version; `ImportError` naming `what` if there is none that serves."""
    serves = "zarr-python 3.1 to 3.4 serves: pip install 'zarr>=3.1', or the extra damacy[zarr]"
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f"damacy.zarr.{what} needs zarr, which cannot be imported ({error}); {serves}") from error
    version = str(getattr(zarr, "__version__", "0"))
    numbers = _numbers(version)
    if numbers < OLDEST:
        raise ImportError(f"damacy.zarr.{what} needs a newer zarr than {version}; {serves}")
    return numbers
