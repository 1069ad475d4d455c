"""Element types of batches and their names. Does not use NumPy, although its names are the same."""

from __future__ import annotations

import enum
import operator
import re
from typing import Any


class Dtype(enum.IntEnum):
    """Element type of a batch. The integers are those of the native library.

    >>> Dtype.coerce("BFloat16") is Dtype.BF16
    True
    """

    F32 = 0
    BF16 = 1
    F16 = 2
    F64 = 3
    U8 = 4
    I8 = 5
    U16 = 6
    I16 = 7
    U32 = 8
    I32 = 9
    U64 = 10
    I64 = 11
    BOOL = 12

    @classmethod
    def coerce(cls, x: object) -> Dtype:
        """The member that `x` names: a member, its integer, or a name such as `"bf16"` or `"float32"` in any case.

        Names count bits, so `u8` is `uint8`. NumPy's codes, which count bytes, and its types are not accepted: pass
        their `.name`. The cause of the `ValueError` for any other value lists the names and suggests one.

        >>> Dtype.coerce("u8"), Dtype.coerce(6)
        (<Dtype.U8: 4>, <Dtype.U16: 6>)
        >>> Dtype.coerce("<u2")
        Traceback (most recent call last):
        ValueError: unknown dtype: '<u2'
        """
        if isinstance(x, cls):
            return x
        found = _BY_NAME.get(x.lower()) if isinstance(x, str) else _by_number(x)
        if found is None:
            raise ValueError(f"unknown dtype: {x!r}") from LookupError(known_names(repr(x)))
        return found


_BY_NAME: dict[str, Dtype] = {
    name: dtype
    for dtype, names in {
        Dtype.F32: "f32 float32",
        Dtype.BF16: "bf16 bfloat16",
        Dtype.F16: "f16 float16 half",
        Dtype.F64: "f64 float64 double",
        Dtype.U8: "u8 uint8",
        Dtype.I8: "i8 int8",
        Dtype.U16: "u16 uint16",
        Dtype.I16: "i16 int16",
        Dtype.U32: "u32 uint32",
        Dtype.I32: "i32 int32",
        Dtype.U64: "u64 uint64",
        Dtype.I64: "i64 int64",
        Dtype.BOOL: "bool bool_",
    }.items()
    for name in names.split()
}
_BY_NUMBER: dict[int, Dtype] = {int(dtype): dtype for dtype in Dtype}


def _by_number(x: Any) -> Dtype | None:
    if isinstance(x, bool):
        return None
    try:
        return _BY_NUMBER.get(operator.index(x))
    except TypeError:  # no __index__, or one that refuses (an array of many elements)
        return None


def known_names(shown: str) -> str:
    """Text for an error: all names, and the one that is most similar to the given one.

    >>> known_names("dtype('float32')").partition("; ")[2]
    "did you mean 'float32'?"
    >>> known_names("'<u2'").endswith("'u16'?"), known_names("'flaot32'").endswith("'float32'?")
    (True, True)
    """
    names = ", ".join(f"{dtype.name.lower()} ({array_name(dtype)})" for dtype in Dtype)
    near = _near(shown.lower())
    return f"elements of batches are {names}" + (f"; did you mean {near!r}?" if near else "")


def _near(shown: str) -> str | None:
    import difflib

    words = re.findall(r"\w+", shown)
    counted_bytes = re.fullmatch(r"'?[<>=|]?([fiu])([1248])'?", shown)
    if counted_bytes:
        words.append(f"{counted_bytes[1]}{8 * int(counted_bytes[2])}")
    named = [word for word in words if word in _BY_NAME]
    return next(iter(named or difflib.get_close_matches("".join(words[-1:]), _BY_NAME, 1)), None)


def array_name(dtype: Dtype) -> str:
    """The name of an element type as in `damacy.open(uri).dtype` and in the documents of arrays.

    >>> array_name(Dtype.U16), array_name(Dtype.BOOL)
    ('uint16', 'bool')
    """
    spelled = ("float", "bfloat", "int", "uint", "bool")
    return next(name for name, named in _BY_NAME.items() if named is dtype and name.startswith(spelled))
