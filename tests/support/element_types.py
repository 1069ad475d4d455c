"""The element types of docs/formats.md, by their zarr v3 names: sizes, NumPy types, spellings elsewhere.

Knows no values; `values.py` draws those.
"""

import ml_dtypes
import numpy as np

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")
ALL = ("bool", *INTEGERS, *FLOATS)

# The names of damacy's batch types.
OUTPUT = {
    "bool": "bool",
    **{name: name.replace("uint", "u").replace("int", "i") for name in INTEGERS},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}


def numpy_type(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def size_of(name: str) -> int:
    return numpy_type(name).itemsize


def bits_type(name: str) -> np.dtype:
    """The unsigned integer that holds one element's bits."""
    return np.dtype(f"uint{8 * size_of(name)}")


def as_bits(array: np.ndarray, name: str) -> np.ndarray:
    """The same elements as native unsigned integers, so that NaN payloads and -0.0 compare."""
    array = np.ascontiguousarray(array).reshape(array.shape)  # NumPy makes a 0-d array 1-d there
    return array.view(bits_type(name))


def from_bits(bits: np.ndarray, name: str) -> np.ndarray:
    return np.ascontiguousarray(bits).reshape(bits.shape).view(numpy_type(name))


def v2_name(name: str, endian: str) -> str:
    """`|u1`, `>f4`: how `.zarray` spells the type. bfloat16 has no v2 name."""
    if name == "bfloat16":
        raise ValueError("bfloat16 has no zarr v2 name")
    plain = np.dtype(name)
    prefix = "|" if plain.itemsize == 1 else {"little": "<", "big": ">"}[endian]
    return prefix + plain.str[1:]
