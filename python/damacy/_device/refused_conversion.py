"""The error for an implicit conversion of a device array to a NumPy array. Its text depends on the library that
converts, which is found on the call stack."""

from __future__ import annotations

import sys
from types import FrameType

_BY_ITSELF = "a DeviceArray is not converted to a NumPy array implicitly: call .numpy()"
_XARRAY = (
    "xarray needs NumPy arrays here, and damacy.zarr.enable(gpu=True) gives it device arrays. Open and read datasets "
    "without gpu=True: damacy.zarr.disable(), then damacy.zarr.enable(). To move values to a GPU: "
    "damacy.asarray(x.values, device='cuda:0')"
)


def error() -> TypeError:
    return TypeError(_XARRAY if is_called_by_xarray() else _BY_ITSELF)


def is_called_by_xarray() -> bool:
    """Whether a function of xarray is on the call stack of this thread."""
    if "xarray" not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "xarray":
            return True
        frame = frame.f_back
    return False
