"""`Dtype` and `Status`: the integers, and the names that `coerce` accepts."""

import re

import numpy as np
import pytest

from damacy import Dtype, Status

NAMES = {
    "f32 float32": Dtype.F32,
    "bf16 bfloat16": Dtype.BF16,
    "f16 float16 half": Dtype.F16,
    "f64 float64 double": Dtype.F64,
    "u8 uint8": Dtype.U8,
    "i8 int8": Dtype.I8,
    "u16 uint16": Dtype.U16,
    "i16 int16": Dtype.I16,
    "u32 uint32": Dtype.U32,
    "i32 int32": Dtype.I32,
    "u64 uint64": Dtype.U64,
    "i64 int64": Dtype.I64,
    "bool bool_": Dtype.BOOL,
}


def test_the_integers_are_those_of_the_native_library():
    assert [(d.name, int(d)) for d in Dtype] == [
        ("F32", 0), ("BF16", 1), ("F16", 2), ("F64", 3), ("U8", 4), ("I8", 5), ("U16", 6), ("I16", 7), ("U32", 8),
        ("I32", 9), ("U64", 10), ("I64", 11), ("BOOL", 12),
    ]  # fmt: skip
    assert [(s.name, int(s)) for s in Status] == [
        ("OK", 0), ("AGAIN", 1), ("INVAL", 2), ("NOTFOUND", 3), ("DTYPE", 4), ("RANK", 5), ("IO", 6), ("DECODE", 7),
        ("CUDA", 8), ("OOM", 9), ("SHUTDOWN", 10),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for names, d in NAMES.items() for n in names.split()])
def test_every_name_is_known_in_any_case(name, dtype):
    assert Dtype.coerce(name) is Dtype.coerce(name.upper()) is Dtype.coerce(name.title()) is dtype


@pytest.mark.parametrize("dtype", Dtype)
def test_members_and_integers_give_the_member(dtype):
    assert Dtype.coerce(dtype) is dtype
    assert Dtype.coerce(int(dtype)) is dtype
    assert Dtype.coerce(np.uint8(dtype)) is dtype
    assert Dtype.coerce(np.str_(dtype.name)) is dtype


@pytest.mark.parametrize(
    "unknown",
    ["", "f4", "<u2", "|b1", "float", "int", " f32", "f32 ", "complex64", 13, -1, 2**70, True, False, np.True_, None]
    + [1.0, b"f32", np.float32, np.dtype("f4"), ["f32"], np.arange(3)],
    ids=repr,
)
def test_any_other_value_is_a_value_error_that_shows_it(unknown):
    with pytest.raises(ValueError, match=f"^{re.escape(f'unknown dtype: {unknown!r}')}$") as caught:
        Dtype.coerce(unknown)
    assert type(caught.value) is ValueError
    assert "f32 (float32), bf16 (bfloat16)" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [("f4", "f32"), ("<u2", "u16"), ("flaot32", "float32"), (np.float32, "float32"), (np.dtype("i8"), "int64")],
    ids=repr,
)
def test_the_cause_suggests_a_name(unknown, meant):
    with pytest.raises(ValueError) as caught:
        Dtype.coerce(unknown)
    assert str(caught.value.__cause__).endswith(f"; did you mean {meant!r}?")
