"""Sizes as integers or as text with a unit."""

import numpy as np
import pytest

from damacy._core.sizes import as_bytes

POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


@pytest.mark.parametrize("letter", POWERS)
def test_a_unit_counts_in_thousands_or_with_an_i_in_1024(letter):
    for text in (f"3{letter}b", f"3 {letter.upper()}B", f" 3{letter}B "):
        assert as_bytes(text, "size") == 3 * 1000 ** POWERS[letter]
    for text in (f"3{letter}ib", f"3 {letter.upper()}iB"):
        assert as_bytes(text, "size") == 3 * 1024 ** POWERS[letter]


def test_fractions_are_exact_and_a_part_of_a_byte_is_left_out():
    assert as_bytes("0.1GB", "size") == 100_000_000
    assert as_bytes("1.5GiB", "size") == 3 << 29
    assert as_bytes("1.9", "size") == 1
    assert as_bytes("0.3KiB", "size") == 307


def test_integers_and_integer_likes_are_returned_unchanged():
    for value in (0, 7, 2**63 - 1, np.int64(9)):
        assert as_bytes(value, "size") == value and type(as_bytes(value, "size")) is int
    assert as_bytes("12", "size") == as_bytes("12B", "size") == 12


@pytest.mark.parametrize(
    "text", ["", "forty", "GiB", "1e9", "2 Gi", "1,5GB", "0x10", "inf", "nan", "1GiBB", "2GiB 1", "١GB"]
)
def test_other_text_is_refused_with_the_forms(text):
    with pytest.raises(ValueError) as caught:
        as_bytes(text, "keep_bytes")
    assert str(caught.value) == (
        f"keep_bytes must be an int of bytes, or text such as '2GiB', '512 MiB' or '1.5GB' (got {text!r})"
    )


@pytest.mark.parametrize("value", [1.0, True, None, [1], b"2GiB"], ids=repr)
def test_other_types_are_refused_with_the_forms(value):
    with pytest.raises(TypeError, match=r"^keep_bytes must be an int of bytes, or text such as .* \(got \w+\)$"):
        as_bytes(value, "keep_bytes")


@pytest.mark.parametrize("value", [-1, "-1GiB", "-0.5B"])
def test_a_size_is_not_negative(value):
    with pytest.raises(ValueError, match=r"^keep_bytes must be >= 0 \(got "):
        as_bytes(value, "keep_bytes")


@pytest.mark.parametrize("value", [1 << 63, "8388608TiB", 10**6000], ids=["int", "text", "long"])
def test_a_size_fits_63_bits(value):
    with pytest.raises(ValueError, match=r"^keep_bytes must be < 2\*\*63 \(got "):
        as_bytes(value, "keep_bytes")
