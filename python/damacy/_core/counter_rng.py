"""Random numbers as functions of a key: without state, the same in every process.

Mixes a key of integers with splitmix64's finaliser; good enough to draw crops, no cryptography."""

from __future__ import annotations

from collections.abc import Iterator

_MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def hash64(*key: int) -> int:
    """64 bits that depend on every bit of every integer of the key, and on their order.

    >>> hash64(1, 2) == hash64(1, 2), hash64(1, 2) == hash64(2, 1), hash64(0) < 1 << 64
    (True, False, True)
    """
    return extended(len(key), *key)


def extended(state: int, *key: int) -> int:
    """The hash of a key that is extended by further integers, from the hash of its beginning.

    >>> extended(extended(3, 5, 6), 7) == hash64(5, 6, 7)  # it begins with the length of the whole key
    True
    """
    for number in key:
        state = _mix((state ^ (number & _MASK)) + GOLDEN & _MASK)
        for high in _words_above_64(number):
            state = _mix((state ^ high) + GOLDEN & _MASK)
    return state


def draw_below(bound: int, state: int, purpose: int) -> int:
    """A number in [0, bound) for one of the purposes of a key that `hash64` made into `state`.

    Numbers for different purposes are independent. The distribution is uniform to within bound / 2**64.

    >>> [draw_below(10, hash64(1, 2), purpose) for purpose in range(4)]
    [0, 6, 8, 2]
    """
    bits = state + GOLDEN * (purpose + 1) & _MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK  # as _mix, without a call: samplers draw a lot
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return (bits ^ bits >> 31) * bound >> 64


def below(bits: int, bound: int) -> int:
    """A number in [0, bound) from 64 random bits; uniform to within bound / 2**64.

    >>> [below(bits, 10) for bits in (0, (1 << 63), (1 << 64) - 1)]
    [0, 5, 9]
    """
    return bits * bound >> 64


def shuffled(index: int, size: int, *key: int) -> int:
    """The position of `index` in a permutation of range(size) that depends on the key.

    Four Feistel rounds over the next even power of two, repeated while the result is outside of range(size). For few
    elements some permutations are far more frequent than others; `counter_rng_many.evenly_shuffled` has no such bias.

    >>> sorted(shuffled(k, 10, 7) for k in range(10)) == list(range(10))
    True
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, left ^ (hash64(*key, turn, right) & mask)
        index = left << half | right
        if index < size:
            return index


def _mix(bits: int) -> int:
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31


def _words_above_64(number: int) -> Iterator[int]:
    number >>= 64
    while number not in (0, -1):
        yield number & _MASK
        number >>= 64
