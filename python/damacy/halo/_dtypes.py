"""Maps element types of NumPy, CuPy and torch to the numbers of the native library. Imports only NumPy."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from damacy.halo._errors import DtypeMismatch, Unsupported

# The integers of the native library's Dtype.
CODES = {
    "float32": 0,
    "bfloat16": 1,
    "float16": 2,
    "float64": 3,
    "uint8": 4,
    "int8": 5,
    "uint16": 6,
    "int16": 7,
    "uint32": 8,
    "int32": 9,
    "uint64": 10,
    "int64": 11,
    "bool": 12,
    "complex64": 13,
    "complex128": 14,
}
NAMES = {code: name for name, code in CODES.items()}
_BYTES = {"bfloat16": 2, "bool": 1}
ITEMSIZE = {code: _BYTES.get(name) or np.dtype(name).itemsize for name, code in CODES.items()}
UNSIGNED_NAMES = frozenset(("uint8", "uint16", "uint32", "uint64", "bool"))
UNSIGNED = frozenset(CODES[name] for name in UNSIGNED_NAMES)


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
