"""`ArraySpec`: what is wanted of one array of samples, and the mapping of them that a `Config` holds."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from damacy._pipeline.foreign_values import dtype_of

MAX_NAME = 64  # characters


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    """What is wanted of one array of samples: a value of `Config.arrays`.

    >>> ArraySpec(dtype="uint8").dtype
    <Dtype.U8: 4>
    """

    dtype: Any = None
    """The element type of its rows, as for `Config.dtype`; None: `Config.dtype`."""

    def __post_init__(self) -> None:
        if self.dtype is not None:
            object.__setattr__(self, "dtype", dtype_of(self.dtype))  # the dataclass is frozen


class ArraySpecs(Mapping[str, ArraySpec]):
    """An immutable, hashable mapping from the names of arrays to specs, in the order given."""

    __slots__ = ("_specs",)

    def __init__(self, specs: Mapping[str, ArraySpec]) -> None:
        self._specs = dict(specs)

    def __getitem__(self, name: str) -> ArraySpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __hash__(self) -> int:
        return hash(frozenset(self._specs.items()))

    def __repr__(self) -> str:
        return repr(self._specs)


def specs_of(arrays: Any) -> ArraySpecs | None:
    """`Config.arrays` as it is stored. A spec of the only array has the name `""`."""
    if arrays is None or isinstance(arrays, ArraySpecs):
        return arrays
    if isinstance(arrays, ArraySpec):
        return ArraySpecs({"": arrays})
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays must be an ArraySpec or a mapping from names to them (got {type(arrays).__name__})")
    if not arrays:
        raise ValueError("arrays must name at least one array")
    for name, spec in arrays.items():
        check_name(name)
        if not isinstance(spec, ArraySpec):
            raise TypeError(f"arrays[{name!r}] must be an ArraySpec (got {type(spec).__name__})")
    return ArraySpecs(arrays)


def check_name(name: Any) -> None:
    """`TypeError` or `ValueError` for what cannot name an array of a sample."""
    if not isinstance(name, str):
        raise TypeError(f"array names must be str (got {type(name).__name__})")
    if not 0 < len(name) <= MAX_NAME or any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise ValueError(f"array names must have 1 to {MAX_NAME} characters, no control characters (got {name!r})")
