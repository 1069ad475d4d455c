"""The elements of the arrays: three kinds of content, each a function of a seed, and the digests that pin them.

Does not know chunks, codecs or files.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

_MICRO_BLOCK = (64, 512, 512)

# SHA-256 of the raw values in C order. The e50 digests hold on all machines. micro uses an FFT: rounding may vary
KNOWN_DIGESTS = {
    ("e50", 42, (512, 512, 512)): "5e397cc81e4522e2851f6645d72f9922e676e04c1cdcd2e7f247f18d9d3162a7",
    ("e50", 42, (64, 1024, 1024)): "acea29e4b629b30e248ca6757faaed5d8e0f791b003a995a674da17df04811a5",
    ("micro", 0, (512, 512, 512)): "a4ab7d177a4870d47231645d9818ace5df79f263fb624008b2b42225f37b8aaf",
}


def make(content: str, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return {"e50": e50, "micro": micro, "climate": climate}[content](seed, shape)


def e50(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Half zeros, half uniform random 16-bit values, which cannot be compressed."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 16, size=math.prod(shape), dtype=np.uint16)
    step = 1 << 22  # random bits are drawn in portions of this size; the order of draws determines the content
    for start in range(0, values.size, step):
        piece = values[start : start + step]
        piece *= rng.random(piece.size) < 0.5
    return values.reshape(shape)


def micro(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Like a fluorescence stack: bright smooth structures on a dark field, with photon noise and camera noise.

    Blocks are drawn one by one, so that a volume needs little memory; block b of volume i has the seed 1000 i + b.
    """
    block = tuple(min(n, limit) for n, limit in zip(shape, _MICRO_BLOCK))
    volume = np.empty(shape, np.uint16)
    corners = itertools.product(*(range(0, n, step) for n, step in zip(shape, block)))
    for number, corner in enumerate(corners):
        where = tuple(slice(a, a + n) for a, n in zip(corner, block))
        volume[where] = _micro_block(1000 * seed + number, block)
    return volume


def _micro_block(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    smooth = _smooth_field(rng, shape, -1.6)
    photons = np.where(smooth > 1.0, (smooth - 1.0) * 120, 0) + 3.0
    electrons = rng.poisson(photons).astype(np.float32)
    electrons += 1.6 * rng.standard_normal(shape, dtype=np.float32)
    return np.clip(electrons * 2.17 + 100, 0, 65535).round().astype(np.uint16)


def climate(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Like surface temperature in kelvin on a grid of latitude and longitude, rounded to 9 bits of mantissa."""
    rng = np.random.default_rng(seed)
    latitude = np.linspace(-90.0, 90.0, shape[-2], dtype=np.float32)
    field = _smooth_field(rng, shape, -1.6)
    field *= 6.0
    field += (288.0 - 0.006 * latitude**2)[:, None]
    return _round_mantissa(field, bits=9)


def _smooth_field(rng: np.random.Generator, shape: tuple[int, ...], power: float) -> np.ndarray:
    """White noise filtered to a power law of the frequency, with mean 0 and deviation 1."""
    spectrum = np.fft.rfftn(rng.standard_normal(shape, dtype=np.float32))
    spectrum *= _power_law(shape, power)
    field = np.fft.irfftn(spectrum, s=shape, axes=tuple(range(len(shape)))).astype(np.float32)
    return (field - field.mean()) / field.std()


@functools.lru_cache(maxsize=2)
def _power_law(shape: tuple[int, ...], power: float) -> np.ndarray:
    squares = [np.fft.fftfreq(n) ** 2 for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1]) ** 2]
    total = functools.reduce(np.add.outer, squares)
    frequency = np.sqrt(total, out=total)
    origin = (0,) * len(shape)
    frequency[origin] = 1.0
    gain = (frequency**power).astype(np.float32)
    gain[origin] = 0.0  # no offset
    return gain


def _round_mantissa(values: np.ndarray, bits: int) -> np.ndarray:
    """Round to nearest even at `bits` bits of mantissa, on the bit patterns."""
    drop = 23 - bits
    pattern = values.view(np.uint32)
    pattern += np.uint32((1 << (drop - 1)) - 1) + (pattern >> np.uint32(drop) & np.uint32(1))
    pattern &= np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)
    return values
