"""Orders of elements, as NumPy's `order` arguments name them, and views of other shapes. Reads no element."""

from __future__ import annotations

from typing import Any

import numpy as np

from damacy._device.memory import Array

_RESHAPE_SAYS_WHEN_IT_COPIES = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def index_order(array: Array, order: str) -> str:
    """The order in which `reshape` takes the elements. "A" means "F" if the array is contiguous only in that order."""
    if order == "A":
        return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C', 'F' or 'A' (got {order!r})")
    return order


def lies_in(array: Array, order: str) -> bool:
    is_c, is_f = array.flags.c_contiguous, array.flags.f_contiguous
    return {"C": is_c, "F": is_f, "A": is_c or is_f}.get(order, True)


def reshaped_view(array: Array, shape: Any, order: Any) -> Array | None:
    """A view of that shape; None if it needs a copy or is impossible. Does not read the elements."""
    wanted = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    try:
        if _RESHAPE_SAYS_WHEN_IT_COPIES:
            return array.reshape(wanted, order=order, copy=False)
        view = array.T.view() if order == "F" else array.view()
        view.shape = wanted[::-1] if order == "F" else wanted
        return view.T if order == "F" else view
    except (AttributeError, ValueError):
        return None
