"""`Sample`: boxes in one or several arrays, and how they are turned. `push` checks that the arrays exist and contain
them."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from damacy._core.integers import as_int
from damacy._pipeline.array_spec import axis_keys, channel_numbers, check_name
from damacy._pipeline.boxes import BoxAxis, box_of, closed
from damacy._pipeline.opened_arrays import opened

if TYPE_CHECKING:
    from damacy.typing import ArrayBoxes, Axis, Box, Source

    Numbers = float | Iterable[float] | Mapping[str, float | Iterable[float]] | None

MAX_ARRAYS, MAX_PARTS = 64, 4096

Part = tuple[str, tuple[BoxAxis, ...]]
"""A uri and a box."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A box of an array: `aabb` is half-open, in level-0 voxels, one axis per axis of the array in stored order.

    An axis is a `slice`, a tuple or list `(start, stop)`, a `range` with a step, or `Take([i, ...])`, single indices.
    An integer array of shape (n, 2) is also a box. All spellings of a box compare equal. The shape of a uri is not
    looked up, so a slice needs its stop. Negative numbers do not count from the end: they lie before the array, where
    only `ArraySpec.pad` puts elements.

    Instead of a uri, an opened array can be passed: a `damacy.ArrayInfo`, a `zarr.Array`, or an `xarray.DataArray` that
    is a whole such array (`TypeError` for any other). Its shape is known: slices may omit their stop, and axes in `...`
    or omitted at the end are whole. Its store is mounted unless it is on a local disk.

    A sample of several arrays is made from a mapping from name to `(uri, box)`. A list of such pairs is a stack: its
    boxes, of equal extents, become index 0, 1, ... of a new first axis. All arrays of a sample are read, delivered or
    refused together. `uri` and `aabb` are then those of the first box.

    Args:
        uri: the array, or the mapping.
        aabb: the box.
        flip: axes of the row that are reversed; of several arrays in all that have them.
        transpose: distinct axes of the row. Where the i-th of these axes stands, axis i of `transpose` comes to stand,
            under that place's name; `flip` then reverses axes of the result. So `numpy.rot90` by 1, 2 and 3 over (y, x)
            is `transpose=("x", "y"), flip=("y",)`, `flip=("y", "x")`, and `transpose=("x", "y"), flip=("x",)`.
        scale, offset: in place of those of the `ArraySpec`: a number, one for each channel, or a mapping from the name
            of an array to such.
        store: a store of zarr-python or obstore, in which `uri`, or each uri of the mapping, is a path. The sample
            holds no store: its uri is `damacy.mount(store) + uri`.
        row_key: see below.

    `row_key` is `(epoch, index)` if a sampler made the sample, else None; equality and hash ignore it.

    >>> a = Sample(uri="cell.zarr", aabb=[(0, 64), (0, 256), (0, 256)])
    >>> b = Sample(uri="cell.zarr", aabb=[slice(None, 64), slice(0, 256), slice(0, 256)])
    >>> a == b, hash(a) == hash(b), a.aabb
    (True, True, ((0, 64), (0, 256), (0, 256)))
    >>> pair = Sample({"image": ("cell.zarr", [(0, 64), (0, 256)]), "label": ("mask.zarr", [(0, 64), (0, 256)])})
    >>> pair.arrays["label"]
    (('mask.zarr', ((0, 64), (0, 256))),)
    >>> Sample(uri="cell.zarr", aabb=[64, 256, 256])
    Traceback (most recent call last):
    TypeError: aabb axis 0: expected slice or (start, stop) tuple; got int
    >>> Sample(uri="cell.zarr", aabb=slice(0, 64))
    Traceback (most recent call last):
    TypeError: aabb must be an iterable of slices or (start, stop) tuples (got slice; of one axis: [(start, stop)])
    """

    uri: str
    aabb: tuple[BoxAxis, ...]
    row_key: tuple[int, int] | None = None
    # Of a sample of named arrays for each: its name, whether it is a stack, and its parts.
    _named: tuple[tuple[str, bool, tuple[Part, ...]], ...] | None = None
    # flip, transpose, scale and offset; None where there are none of them.
    _turns: Turns | None = None

    @overload
    def __init__(
        self,
        uri: Source,
        aabb: Box,
        *,
        flip: Axis | Iterable[Axis] = (),
        transpose: Iterable[Axis] | None = None,
        scale: Numbers = None,
        offset: Numbers = None,
        store: Any = None,
        row_key: tuple[int, int] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        uri: Mapping[str, ArrayBoxes],
        *,
        flip: Axis | Iterable[Axis] = (),
        transpose: Iterable[Axis] | None = None,
        scale: Numbers = None,
        offset: Numbers = None,
        store: Any = None,
        row_key: tuple[int, int] | None = None,
    ) -> None: ...

    # The fields have the stored types; the parameters accept more. dataclasses.replace passes `_named` and `_turns`.
    def __init__(
        self,
        uri: Any,
        aabb: Any = None,
        *,
        flip: Any = None,
        transpose: Any = None,
        scale: Any = None,
        offset: Any = None,
        store: Any = None,
        row_key: Any = None,
        _named: Any = None,
        _turns: Any = None,
    ) -> None:
        if store is not None:
            uri = _in_store(uri, store)
        if type(uri) is not str and isinstance(uri, Mapping):  # looking for a base class takes longer than all else
            if aabb is not None:
                opened(uri)  # a group is a mapping, too, and is refused as one
                raise TypeError("a sample of several arrays takes one mapping from name to (uri, box), and no aabb")
            _named = _named_parts(uri)
            uri, aabb = _named[0][2][0]
        elif _named is not None and (uri, aabb) != _named[0][2][0]:
            raise TypeError("replace: a sample of several arrays has no uri and aabb of its own: make a new one")
        elif aabb is None:
            raise TypeError("a sample needs a uri and an aabb, or a mapping from name to (uri, box)")
        if _named is None:
            uri, aabb = _part(uri, aabb)
        object.__setattr__(self, "uri", uri)
        object.__setattr__(self, "aabb", aabb)
        object.__setattr__(self, "row_key", None if row_key is None else _pair_of_ints(row_key))
        object.__setattr__(self, "_named", _named)
        object.__setattr__(self, "_turns", _turns_of(flip, transpose, scale, offset, _turns))

    @property
    def flip(self) -> tuple[str | int, ...]:
        """The axes that are reversed."""
        return () if self._turns is None else self._turns[0]

    @property
    def transpose(self) -> tuple[str | int, ...] | None:
        """The axes that change places."""
        return None if self._turns is None else self._turns[1] or None

    @property
    def scale(self) -> Mapping[str, float | tuple[float, ...]] | float | tuple[float, ...] | None:
        """What replaces `ArraySpec.scale`."""
        return None if self._turns is None else _shown_numbers(self._turns[2])

    @property
    def offset(self) -> Mapping[str, float | tuple[float, ...]] | float | tuple[float, ...] | None:
        """What replaces `ArraySpec.offset`."""
        return None if self._turns is None else _shown_numbers(self._turns[3])

    @property
    def arrays(self) -> Mapping[str, tuple[Part, ...]]:
        """For each array its `(uri, box)`, or those of its stack. One array without a name has the name `""`."""
        if self._named is None:
            return MappingProxyType({"": ((self.uri, self.aabb),)})
        return MappingProxyType({name: parts for name, _, parts in self._named})

    def _content(self) -> object:
        boxes = (self.uri, self.aabb) if self._named is None else frozenset(self._named)
        return boxes if self._turns is None else (boxes, self._turns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sample) or type(other) is not type(self):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __repr__(self) -> str:
        key = "".join(
            f", {name}={value!r}"
            for name, value, default in (
                ("flip", self.flip, ()),
                ("transpose", self.transpose, None),
                ("scale", self.scale, None),
                ("offset", self.offset, None),
                ("row_key", self.row_key, None),
            )
            if value != default
        )
        if self._named is None:
            return f"{type(self).__qualname__}(uri={_without_secrets(self.uri)!r}, aabb={self.aabb!r}{key})"
        arrays = ", ".join(f"{name!r}: {_shown_parts(stacked, parts)}" for name, stacked, parts in self._named)
        return f"{type(self).__qualname__}({{{arrays}}}{key})"


_Numbers = tuple[tuple[str, float | tuple[float, ...]], ...]
Turns = tuple[tuple[str | int, ...], tuple[str | int, ...], _Numbers, _Numbers]


def _turns_of(flip: Any, transpose: Any, scale: Any, offset: Any, before: Turns | None) -> Turns | None:
    """What is None is as before."""
    if flip is None and transpose is None and scale is None and offset is None:
        return before
    kept = before or ((), (), (), ())
    turns = (
        kept[0] if flip is None else axis_keys(flip, "flip"),
        kept[1] if transpose is None else axis_keys(transpose, "transpose"),
        kept[2] if scale is None else _numbers_by_name(scale, "scale"),
        kept[3] if offset is None else _numbers_by_name(offset, "offset"),
    )
    return turns if any(turns) else None


def _numbers_by_name(numbers: Any, name: str) -> _Numbers:
    """For each array; the name "" stands for all."""
    if not isinstance(numbers, Mapping):
        return (("", channel_numbers(numbers, name)),)
    for array in numbers:
        check_name(array)
    return tuple((array, channel_numbers(each, f"{name}[{array!r}]")) for array, each in sorted(numbers.items()))


def _shown_numbers(numbers: _Numbers) -> Any:
    if not numbers:
        return None
    return numbers[0][1] if numbers[0][0] == "" else dict(numbers)


def made_sample(uri: str, aabb: tuple[BoxAxis, ...], row_key: tuple[int, int]) -> Sample:
    """A `Sample` of values that already have the types of its fields; does not check them."""
    sample = object.__new__(Sample)
    object.__setattr__(sample, "uri", uri)
    object.__setattr__(sample, "aabb", aabb)
    object.__setattr__(sample, "row_key", row_key)
    object.__setattr__(sample, "_named", None)
    object.__setattr__(sample, "_turns", None)
    return sample


def made_named_sample(named: Iterable[tuple[str, Part]], row_key: tuple[int, int]) -> Sample:
    """The same of several arrays, of one box each."""
    arrays = tuple((name, False, (part,)) for name, part in named)
    return made_stacked_sample(arrays, row_key)


def made_stacked_sample(arrays: tuple[tuple[str, bool, tuple[Part, ...]], ...], row_key: tuple[int, int]) -> Sample:
    """The same of arrays that are given as a sample stores them: name, whether it is a stack, and parts."""
    sample = made_sample(*arrays[0][2][0], row_key)
    object.__setattr__(sample, "_named", arrays)
    return sample


def with_turns(sample: Sample, turns: Turns | None) -> Sample:
    """Sets the turns of a sample that was just made, and returns it."""
    object.__setattr__(sample, "_turns", turns)
    return sample


def with_row_key(sample: Any, row_key: tuple[int, int]) -> Any:
    """The sample if it has that key, else a copy with it. Other objects are returned unchanged; push refuses them."""
    if not isinstance(sample, Sample) or sample.row_key == row_key:
        return sample
    copied = copy.copy(sample)
    object.__setattr__(copied, "row_key", row_key)
    return copied


def _part(uri: Any, aabb: Any, *, steps: bool = False) -> Part:
    array = None if isinstance(uri, str) else opened(uri)  # a sampler makes many samples of one uri
    if array is None:
        return uri_text(uri), box_of(aabb, steps=steps)
    return array.uri, box_of(closed(aabb, array.shape), steps=True)


def _named_parts(arrays: Mapping[Any, Any]) -> tuple[tuple[str, bool, tuple[Part, ...]], ...]:
    if not arrays:
        raise ValueError("a sample needs at least one array")
    if len(arrays) > MAX_ARRAYS:
        raise ValueError(f"a sample has at most {MAX_ARRAYS} arrays (got {len(arrays)})")
    named = tuple(_named_array(name, value) for name, value in arrays.items())
    if (parts := sum(len(parts) for _, _, parts in named)) > MAX_PARTS:
        raise ValueError(f"a sample has at most {MAX_PARTS} boxes (got {parts})")
    return named


def _named_array(name: Any, value: Any) -> tuple[str, bool, tuple[Part, ...]]:
    check_name(name)
    stacked = isinstance(value, list)
    pairs = value if stacked else [value]
    for pair in pairs or [value]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            got = "an empty list" if value == [] else type(pair).__name__
            raise TypeError(f"arrays[{name!r}]: expected (uri, box) or a list of them (got {got})")
    try:
        parts = tuple(_part(uri, box, steps=True) for uri, box in pairs)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"arrays[{name!r}]: {error}") from None
    return str.__str__(name), stacked, parts


def _in_store(uri: Any, store: Any) -> Any:
    """A path, or each path of a mapping of arrays, as a uri in a store."""
    from damacy._stores.mounts import below

    if not isinstance(uri, Mapping):
        return below(store, uri)

    def part(pair: Any) -> Any:  # _named_parts refuses what is no pair
        return (below(store, pair[0]), *pair[1:]) if isinstance(pair, tuple) and pair else pair

    return {
        name: [part(each) for each in value] if isinstance(value, list) else part(value) for name, value in uri.items()
    }


def _shown_parts(stacked: bool, parts: tuple[Part, ...]) -> str:
    shown = [f"({_without_secrets(uri)!r}, {box!r})" for uri, box in parts]
    return f"[{', '.join(shown)}]" if stacked else shown[0]


def _pair_of_ints(row_key: Any) -> tuple[int, int]:
    if not isinstance(row_key, (tuple, list)) or len(row_key) != 2:
        raise TypeError(f"row_key must be (epoch, index) or None (got {row_key!r})")
    return as_int(row_key[0], "row_key[0]"), as_int(row_key[1], "row_key[1]")


def uri_text(uri: Any) -> str:
    """A uri as plain `str`, also of an opened array; `TypeError` for other objects."""
    if type(uri) is str:
        return uri
    if not isinstance(uri, str) and (array := opened(uri)) is not None:
        return array.uri
    path = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(path, str):
        raise TypeError(f"uri must be a str or an os.PathLike of str (got {type(uri).__name__})")
    return str.__str__(path)


def _without_secrets(uri: str) -> str:
    if "://" not in uri:
        return uri
    from damacy import _native

    return str(_native.without_secrets(uri))
