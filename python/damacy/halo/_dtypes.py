"""Maps element types of NumPy, CuPy and torch to the numbers of the native library. Imports only NumPy."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from damacy import _native
from damacy.halo._errors import DtypeMismatch, Unsupported

_KNOWN = _native.halo_dtypes()
CODES = {name: code for code, (name, _) in enumerate(_KNOWN)}
NAMES = {code: name for name, code in CODES.items()}
ITEMSIZE = {code: itemsize for code, (_, itemsize) in enumerate(_KNOWN)}


@functools.lru_cache(maxsize=256)
def code_of(dtype: Any) -> int:
    """The number of an element type. TypeError for unsupported types, NotImplementedError for foreign byte order."""
    text = str(dtype)
    if text.startswith("torch."):
        name = text[6:]
    elif text in CODES:
        name = text
    else:
        try:
            known = np.dtype("none" if dtype is None else dtype)  # NumPy takes None for float64
        except TypeError:
            raise DtypeMismatch(f"dtype {dtype!r} is not supported in halo exchanges") from None
        if known.byteorder == (">" if sys.byteorder == "little" else "<"):
            raise Unsupported(f"dtype {dtype!r} has foreign byte order, which halo exchanges do not support")
        name = known.name
    if name not in CODES:
        raise DtypeMismatch(f"dtype {dtype!r} is not supported in halo exchanges")
    return CODES[name]
