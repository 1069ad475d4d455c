"""Element types by meaning: NumPy's, CuPy's and torch's spellings as one number. Imports none but NumPy."""

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
    """The number of an element type; TypeError for others, NotImplementedError for foreign order."""
    text = str(dtype)
    if text.startswith("torch."):
        name = text[6:]
    elif text in CODES:
        name = text
    else:
        try:
            known = np.dtype("none" if dtype is None else dtype)  # None alone is float64 to NumPy
        except TypeError:
            raise DtypeMismatch(f"dtype {dtype!r} is no element type of a halo exchange") from None
        if known.byteorder == (">" if sys.byteorder == "little" else "<"):
            raise Unsupported(f"dtype {dtype!r} is in foreign byte order")
        name = known.name
    if name not in CODES:
        raise DtypeMismatch(f"dtype {dtype!r} is no element type of a halo exchange")
    return CODES[name]
