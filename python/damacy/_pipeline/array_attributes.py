"""The fill value, attributes and packing of an array, from its metadata documents.

The native library has checked and parsed the documents; this module converts its bytes to values. Imports NumPy only
for elements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NoReturn


class Attributes(dict[str, Any]):
    """A read-only dict. Lists and dicts inside it are not read-only."""

    def _refuse(self, *arguments: Any, **names: Any) -> NoReturn:
        raise TypeError("attributes of an array are read only")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = _refuse
    __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Attributes, (dict(self),)


@dataclasses.dataclass(frozen=True, slots=True)
class Cf:
    """Packing by the Climate and Forecast conventions: an element `x` stands for `x * scale_factor + add_offset`.

    A missing attribute has its neutral value, 1 or 0, so the expression can be used for every array. `missing` are the
    elements, in the stored type, that stand for missing values. `unsigned` is True or False if integers must be read as
    unsigned or signed integers of their size, else None. `problem` says why attributes cannot be used, or is None; if
    it is set, the other fields have their defaults. Batches hold stored elements.
    """

    __module__ = "damacy"

    scale_factor: float = 1.0
    add_offset: float = 0.0
    missing: tuple[Any, ...] = ()
    unsigned: bool | None = None
    problem: str | None = None

    def __str__(self) -> str:
        if self.problem:
            return f"unusable: {self.problem}"
        others = []
        if self.unsigned is not None:
            others.append(f"unsigned {self.unsigned}")
        if self.missing:
            others.append("missing " + ", ".join(map(str, self.missing)))
        is_shown = self.is_packed or not others
        packing = [f"scale_factor {self.scale_factor}", f"add_offset {self.add_offset}"] if is_shown else []
        return "; ".join(packing + others)

    @property
    def is_packed(self) -> bool:
        """True if stored elements differ from the values that they represent."""
        return (self.scale_factor, self.add_offset) != (1.0, 0.0)


def cf_from(native: Mapping[str, Any] | None, problem: str) -> Cf | None:
    """`Cf` from the native dict; None if the array has no such attributes."""
    if native is None:
        return Cf(problem=problem) if problem else None
    elements = (element(raw, native["missing_type"]).item() for raw in native["missing"])
    missing = tuple(math.nan if value != value else value for value in elements)  # one NaN object: tuples compare equal
    scale, offset = native["scale_factor"], native["add_offset"]
    return Cf(1.0 if scale is None else scale, 0.0 if offset is None else offset, missing, native["unsigned"])


def element(raw: bytes, dtype: str) -> Any:
    """A NumPy scalar from the bytes of one element. bfloat16, which NumPy lacks, becomes float32.

    >>> element(b"\\x01\\x02", "uint16"), element(b"\\xc0\\x3f", "bfloat16")
    (np.uint16(513), np.float32(1.5))
    """
    import numpy

    if dtype == "bfloat16":
        raw, dtype = b"\0\0" + raw, "float32"
    if dtype.startswith("numpy."):  # times: their unit is unknown
        dtype = "int64"
    return numpy.frombuffer(raw, dtype)[0]


def attributes_from(document: bytes, zarr_format: int) -> Attributes:
    """The attributes of a node: for v3 from a member of its document, for v2 from a document of their own. Empty if
    that is no object: elements can be read all the same."""
    if not document:
        return Attributes()
    import json  # loads slowly, and `import damacy` does not need it

    found = json.loads(document, parse_int=_integer)
    if zarr_format == 3:
        found = found.get("attributes")
    return Attributes(found if isinstance(found, dict) else {})


def in_json(value: Any) -> Any:
    """A value that JSON can hold, as in zarr's documents: NaN and infinities as text, complex numbers as pairs.

    >>> in_json({"a": [1, float("nan")], "b": 1j})
    {'a': [1, 'NaN'], 'b': [0.0, 1.0]}
    """
    if isinstance(value, Mapping):
        return {name: in_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_json(item) for item in value]
    if isinstance(value, complex):
        return in_json([value.real, value.imag])
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads
        return float(digits)
