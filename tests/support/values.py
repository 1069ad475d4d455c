"""Content for arrays: compressible, noisy, and full of the values that conversions get wrong. All from a seed."""

import numpy as np

from support.element_types import FLOATS, bits_type, from_bits, size_of
from support.layout import FORMATS_BITS, Layout


def special_bits(dtype: str) -> list[int]:
    """Ends, signs, halves, subnormals, infinities, NaNs with and without payload."""
    width = 8 * size_of(dtype)
    if dtype == "bool":
        return [0, 1]
    top = 1 << (width - 1)
    if dtype not in FLOATS:
        near = [0, 1, 2, 127, 128, 255, 256, 2047, 2048, 2049, 4099, 65519, 65520, 65535, 65536, 2**24 + 1, 2**24 + 3]
        near += [2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 513, 2**63 - 1, 2**63]
        return sorted({v & (2 * top - 1) for n in near for v in (n, -n, top - n, top + n)})
    fraction_bits, infinity = FORMATS_BITS[dtype]
    positive = [0, 1, 2, (1 << fraction_bits) - 1, 1 << fraction_bits, infinity - 1, infinity]
    positive += [infinity | 1 << (fraction_bits - 1), infinity | 1, infinity | 3]
    numbers = [
        0.5,
        1.0,
        1.5,
        2.5,
        127.5,
        128.0,
        255.5,
        256.0,
        65504.0,
        65519.9,
        65520.0,
        2.0**31,
        2.0**32,
        2.0**63,
        2.0**64,
    ]
    with np.errstate(over="ignore"):
        typed = np.array(numbers).astype(from_bits(np.zeros(1, bits_type(dtype)), dtype).dtype)
    positive += [int(v) for v in typed.view(bits_type(dtype))]
    return sorted({p | sign for p in positive for sign in (0, top)})


def draw_bits(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """`kind`: noise (any bits), smooth (compressible), special (the list above), mixed."""
    if kind == "mixed":
        kind = str(rng.choice(["noise", "smooth", "special"]))
    size = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.uint8)
    if kind == "special":
        return rng.choice(np.array(special_bits(dtype), bits_type(dtype)), shape)
    if kind == "smooth":
        ramp = (np.arange(size) // 3 % 241 + 1).reshape(shape)
        return (
            np.ascontiguousarray(ramp.astype(from_bits(np.zeros(1, bits_type(dtype)), dtype).dtype))
            .reshape(shape)
            .view(bits_type(dtype))
        )
    return np.frombuffer(rng.bytes(size * size_of(dtype)), bits_type(dtype)).reshape(shape).copy()


def punch_holes(rng: np.random.Generator, bits: np.ndarray, layout: Layout) -> np.ndarray:
    """Sets some whole objects, and some whole inner chunks, to the fill, so that writers leave them out."""
    bits = bits.copy()
    for shape, share in ((layout.object_shape, 0.2), (layout.chunks, 0.2)):
        grid = tuple(-(-s // c) for s, c in zip(layout.shape, shape))
        for index in np.ndindex(*grid):
            if rng.random() < share:
                bits[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, shape))] = layout.fill_bits
    return bits


def fills(dtype: str) -> list[int]:
    """Fill values worth storing, as bits; the hex-only NaNs come last."""
    if dtype == "bool":
        return [0, 1]
    width = 8 * size_of(dtype)
    if dtype not in FLOATS:
        return [0, 7, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    fraction_bits, infinity = FORMATS_BITS[dtype]
    top = 1 << (width - 1)
    one_and_half = int(from_bits_of(1.5, dtype))
    quiet = infinity | 1 << (fraction_bits - 1)
    return [0, top, one_and_half, one_and_half | top, infinity, infinity | top, quiet, infinity | 1, quiet | top]


def from_bits_of(number: float, dtype: str) -> int:
    kind = from_bits(np.zeros(1, bits_type(dtype)), dtype).dtype
    return int(np.array([number]).astype(kind).view(bits_type(dtype))[0])
