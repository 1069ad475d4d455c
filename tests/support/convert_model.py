"""Exact model of the conversions of a batch, on bits, in Python integers.

A finite number is (negative, m, e), meaning ±m·2^e, so only the final conversion rounds. Does not use NumPy's
arithmetic: NumPy arrays only hold the bits.
"""

import numpy as np

from support.element_types import bits_type, size_of

FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}  # exponent, fraction bits
NAN, INFINITE, FINITE = "nan", "infinite", "finite"


def convert_bits(bits: np.ndarray, source: str, target: str) -> np.ndarray:
    """Elements of `source`, as unsigned integers, to elements of `target`, as unsigned integers."""
    distinct, where = np.unique(bits, return_inverse=True)
    converted = [convert_one(int(b), source, target) for b in distinct]
    return np.array(converted, dtype=bits_type(target))[where].reshape(bits.shape)


def convert_one(bits: int, source: str, target: str) -> int:
    if source == target and source != "bool":
        return bits
    kind, negative, m, e = _decode(bits, source)
    if target == "bool":
        return int(kind != FINITE or m != 0)
    if target in FORMATS:
        return _encode_float(kind, negative, m, e, *FORMATS[target])
    return _encode_integer(kind, negative, m, e, target)


def _decode(bits: int, source: str) -> tuple[str, bool, int, int]:
    if source == "bool":
        return FINITE, False, int(bits != 0), 0
    width = 8 * size_of(source)
    if source not in FORMATS:
        negative = not source.startswith("u") and bool(bits >> (width - 1))
        return FINITE, negative, (1 << width) - bits if negative else bits, 0
    exponent_bits, fraction_bits = FORMATS[source]
    fraction = bits & ((1 << fraction_bits) - 1)
    exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1)
    negative = bool(bits >> (width - 1))
    if exponent == (1 << exponent_bits) - 1:
        return (NAN if fraction else INFINITE), negative, 0, 0
    smallest = 2 - (1 << (exponent_bits - 1)) - fraction_bits  # exponent of the last place of subnormals
    if exponent == 0:
        return FINITE, negative, fraction, smallest
    return FINITE, negative, fraction | 1 << fraction_bits, smallest + exponent - 1


def _encode_float(kind: str, negative: bool, m: int, e: int, exponent_bits: int, fraction_bits: int) -> int:
    sign = int(negative) << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if kind == NAN:
        return sign | infinity | 1 << (fraction_bits - 1)
    if kind == INFINITE:
        return sign | infinity
    if m == 0:
        return sign
    least = 2 - (1 << (exponent_bits - 1))  # exponent of the smallest normal number
    leading = max(m.bit_length() - 1 + e, least)
    last_place = _shift_to_nearest_even(m, e - (leading - fraction_bits))
    # Adding lets a normal number's leading bit, and a carry out of the fraction, increment the exponent field.
    return sign | min(((leading - least) << fraction_bits) + last_place, infinity)


def _shift_to_nearest_even(m: int, shift: int) -> int:
    if shift >= 0:
        return m << shift
    quotient, rest = m >> -shift, m & ((1 << -shift) - 1)
    half = 1 << (-shift - 1)
    return quotient + (rest > half or (rest == half and quotient & 1 == 1))


def _encode_integer(kind: str, negative: bool, m: int, e: int, target: str) -> int:
    width = 8 * size_of(target)
    signed = not target.startswith("u")
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if kind == NAN:
        return 0
    if kind == INFINITE:
        value = low if negative else high
    else:
        whole = m << e if e >= 0 else m >> -e  # of the magnitude: toward zero
        value = max(low, min(high, -whole if negative else whole))
    return value & ((1 << width) - 1)
