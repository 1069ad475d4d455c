"""The numbers of `counter_rng` for many indices at once, as NumPy arrays of 64-bit integers.

All functions return exactly the values of the functions of the same name there; `evenly_shuffled` is only here."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from damacy._core import counter_rng

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

EVEN_BELOW = 4096  # so many elements are shuffled evenly

_GOLDEN = np.uint64(counter_rng.GOLDEN)
_LOW = np.uint64((1 << 32) - 1)
_HALF = np.uint64(32)


def extended(state: int | U64, numbers: npt.NDArray[Any]) -> U64:
    """For each number, which is below 2**63, the hash of a key that is extended by it.

    >>> extended(5, np.array([7])).item() == counter_rng.extended(5, 7)
    True
    """
    return _mix((np.asarray(state, np.uint64) ^ numbers.astype(np.uint64)) + _GOLDEN)


def draw_below(bound: int | U64, states: U64, purpose: int) -> I64:
    """For each state a number in [0, bound) for a purpose; a bound for each state, or one for all, at most 2**63.

    >>> draw_below(10, np.array([7], np.uint64), 3).item() == counter_rng.draw_below(10, 7, 3)
    True
    """
    offset = np.uint64(counter_rng.GOLDEN * (purpose + 1) & (1 << 64) - 1)
    return _high_product(_mix(states + offset), np.asarray(bound, np.uint64)).view(np.int64)


def shuffled(indices: I64, size: int, *key: int) -> I64:
    """For each index its position in a permutation of range(size) that depends on the key.

    >>> shuffled(np.arange(3), 3, 7).tolist() == [counter_rng.shuffled(k, 3, 7) for k in range(3)]
    True
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    of_turns = [counter_rng.extended(len(key) + 2, *key, turn) for turn in range(4)]
    found = indices.astype(np.uint64)
    outside: Any = slice(None)  # what is not in range(size) yet
    while True:
        left, right = found[outside] >> bits, found[outside] & mask
        for state in of_turns:
            left, right = right, left ^ (extended(state, right) & mask)
        found[outside] = left << bits | right
        outside = np.flatnonzero(found >= np.uint64(size))
        if not len(outside):
            return found.view(np.int64)


def evenly_shuffled(indices: I64, size: int, *key: int) -> I64:
    """As `shuffled`, with another permutation: below `EVEN_BELOW` elements all permutations are equally likely.

    >>> sorted(evenly_shuffled(np.arange(10), 10, 7).tolist()) == list(range(10))
    True
    """
    return _permutation(size, key)[indices] if size < EVEN_BELOW else shuffled(indices, size, *key)


@functools.lru_cache(maxsize=8)
def _permutation(size: int, key: tuple[int, ...]) -> I64:
    """The order of `size` random numbers, which are distinct."""
    steps = np.arange(1, size + 1).astype(np.uint64) * _GOLDEN
    return np.argsort(_mix(np.uint64(counter_rng.hash64(*key)) + steps)).astype(np.int64)


def _mix(bits: U64) -> U64:
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def _high_product(a: U64, b: U64) -> U64:
    """The upper 64 bits of a * b, for b up to 2**63."""
    low, high = a & _LOW, a >> _HALF
    if not b.size or int(b.max()) <= 1 << 32:
        short: U64 = (high * b + (low * b >> _HALF)) >> _HALF
        return short
    b_low, b_high = b & _LOW, b >> _HALF
    middle = high * b_low + (low * b_low >> _HALF)
    other = low * b_high + (middle & _LOW)
    product: U64 = high * b_high + (middle >> _HALF) + (other >> _HALF)
    return product
