"""The error for a device array that is asked to become a NumPy array. Knows which library asks, by the stack of the
call; not arrays."""

from __future__ import annotations

import sys
from types import FrameType

_BY_ITSELF = "a DeviceArray does not become a NumPy array by itself: call .numpy()"
_XARRAY = (
    "xarray needs NumPy arrays here, and damacy.zarr.enable(gpu=True) gives it device arrays. Open and read datasets "
    "without gpu=True: damacy.zarr.disable(), then damacy.zarr.enable(). To move values to a GPU: "
    "damacy.asarray(x.values, device='cuda:0')"
)


def error() -> TypeError:
    return TypeError(_XARRAY if xarray_asks() else _BY_ITSELF)


def xarray_asks() -> bool:
    """Whether a function of xarray is on the stack of this thread."""
    if "xarray" not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "xarray":
            return True
        frame = frame.f_back
    return False
