"""What `Windows` reads: for each name its arrays, its offsets, and what a box takes of each axis. Draws nothing."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from damacy._core.integers import as_int, elements
from damacy._pipeline.array_spec import check_name
from damacy._pipeline.boxes import BoxAxis
from damacy._pipeline.cropped_arrays import Extents, looked_at, positive
from damacy._pipeline.opened_arrays import group_uri
from damacy._pipeline.sample import Part, uri_text
from damacy.typing import Source

if TYPE_CHECKING:
    from damacy import Group

# An array; several, which are stacked; or a group and the names of its arrays, which are stacked.
WindowSource = Union[Source, Sequence[Source], "tuple[str | os.PathLike[str] | Group, Sequence[str]]"]
Pairs = Iterable[tuple[int, int]]

TIME = -1


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One array of a name."""

    uri: str
    axes: tuple[int | tuple[int, int], ...]
    """For each of its axes `TIME`, the number of a cropped axis, or the whole axis."""


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """The windows of one name."""

    name: str
    is_stack: bool
    members: tuple[Member, ...]
    first: int
    """The offset of its first time step, in elements."""
    stop: int
    """The end of its offsets."""
    step: int
    """From one of its time steps to the next."""
    is_timed: bool = True
    """False: its arrays have no time axis and are the same in each sample; `first`, `stop` and `step` say nothing."""

    def entries(self, times: Sequence[int], crops: list[list[tuple[int, int]]]) -> Iterator[Any]:
        """For each sample what it stores of this name; from its time, and for each cropped axis its interval."""
        pairs: list[tuple[int, int] | range]
        if self.step == 1 or self.stop == self.first + 1:
            pairs = [(time + self.first, time + self.stop) for time in times]
        else:
            pairs = [range(time + self.first, time + self.stop, self.step) for time in times]
        parts = [self._parts(member, pairs, crops) for member in self.members]
        return zip(itertools.repeat(self.name), itertools.repeat(self.is_stack), zip(*parts))

    def _parts(self, member: Member, pairs: Iterable[BoxAxis], crops: Sequence[Pairs]) -> Iterator[Part]:
        columns: list[Iterable[BoxAxis]] = []
        for axis in member.axes:
            if isinstance(axis, tuple):
                columns.append(itertools.repeat(axis))
            else:
                columns.append(pairs if axis == TIME else crops[axis])
        return zip(itertools.repeat(member.uri), zip(*columns))


@dataclasses.dataclass(frozen=True, slots=True)
class WindowArrays:
    """All names, and the axes that windows cut: the time first, then those that are cropped."""

    names: tuple[Name, ...]
    extents: tuple[int, ...]
    """On the cropped axes, in the order of the first array."""
    sizes: tuple[int, ...]
    """Of the time and of the cropped axes."""
    from_last: tuple[int, ...]
    """Their places in the first array, counted from the last one, which is 1."""
    dim: str | None
    """The name of the time, if it has one."""

    @property
    def timed(self) -> list[Name]:
        """The names whose arrays have the time axis: at least one."""
        return [name for name in self.names if name.is_timed]

    @property
    def offsets(self) -> tuple[int, int]:
        """The first offset of all names, and the end of the last one."""
        return min(name.first for name in self.timed), max(name.stop for name in self.timed)


def window_arrays(arrays: Any, dim: str | int, extents: Extents | None, step: int = 1) -> WindowArrays:
    """`ValueError` or `TypeError` if they do not fit."""
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays must be a mapping from name to (source, (first, stop)) (got {type(arrays).__name__})")
    if not arrays:
        raise ValueError("arrays must name at least one array")
    given = {name: _given(name, value) for name, value in arrays.items()}
    looks = looked_at(uri for uris, *_ in given.values() for uri in uris)
    timed = [uris for uris, _, offsets in given.values() if offsets is not None]
    if not timed:
        raise ValueError("arrays: at least one name needs offsets (first, stop)")
    first = looks[timed[0][0]]
    crop = _crop(first, extents)
    time = _place(first, dim, "dim")
    if time in crop:
        raise ValueError(f"extents: the axis {dim!r} is dim, whose extents are the offsets")
    cut = (time, *crop)
    named = isinstance(extents, Mapping)
    labels = [named and first.dims[place] or place - first.ndim for place in crop]
    names = []
    for name, (uris, is_stack, offsets) in given.items():
        if offsets is None and (with_time := [uri for uri in uris if dim in looks[uri].dims]):
            raise ValueError(f"arrays[{name!r}]: {with_time[0]} has the axis {dim!r}: give (source, (first, stop))")
        members = tuple(Member(uri, _axes(looks[uri], dim, labels, offsets is not None)) for uri in uris)
        for uri, member in zip(uris, members):
            _check_sizes(first, cut, looks[uri], member)
        for k, uri in enumerate(uris[1:], 1):
            one, other = (_extents(looks[each], dim, offsets) for each in (uris[0], uri))
            if one != other:
                raise ValueError(f"arrays[{name!r}]: part {k} has extents {other}, part 0 {one}")
        start, stop = offsets or (0, 1)
        names.append(
            Name(name, is_stack, members, start * step, (stop - 1) * step + 1, step, is_timed=offsets is not None)
        )
    return WindowArrays(
        tuple(names),
        tuple(crop.values()),
        tuple(first.shape[place] for place in cut),
        tuple(first.ndim - place for place in cut),
        first.dims[time],
    )


def _is_group(value: Any) -> bool:
    return group_uri(value) is not value


def _given(name: Any, value: Any) -> tuple[list[str], bool, tuple[int, int] | None]:
    """The uris of a name, whether they are stacked, and the offsets; None for arrays without the time axis."""
    check_name(name)
    is_pair = isinstance(value, tuple) and len(value) == 2
    if not is_pair or not (value[1] is None or isinstance(value[1], (tuple, list)) and len(value[1]) == 2):
        raise TypeError(f"arrays[{name!r}]: expected (source, (first, stop)) (got {value!r})")
    source, offsets = value[0], None
    if value[1] is not None:
        start, stop = (as_int(k, f"arrays[{name!r}]: {what}") for k, what in zip(value[1], ("first", "stop")))
        if start >= stop:
            raise ValueError(f"arrays[{name!r}]: offsets must have first < stop (got {start} and {stop})")
        offsets = start, stop
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], (list, tuple)):
        group, variables = uri_text(group_uri(source[0])).rstrip("/"), source[1]
        uris, is_stack = [f"{group}/{variable}" for variable in variables], True
    elif isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], str) and _is_group(source[0]):
        variable = source[1]
        raise TypeError(f"arrays[{name!r}]: expected (group, [{variable!r}]), which stacks, or group[{variable!r}]")
    elif isinstance(source, (list, tuple)):
        uris, is_stack = [uri_text(each) for each in source], True
    else:
        uris, is_stack = [uri_text(source)], False
    if not uris:
        raise ValueError(f"arrays[{name!r}]: no arrays")
    return uris, is_stack, offsets


def _crop(first: Any, extents: Extents | None) -> dict[int, int]:
    """The extent of each cropped axis of the first array, by its place, ascending."""
    if extents is None:
        return {}
    if isinstance(extents, Mapping):
        found = {_place(first, axis, "extents"): positive(n, f"extents[{axis!r}]") for axis, n in extents.items()}
    else:
        numbers = [positive(n, f"extents[{k}]") for k, n in enumerate(extents)]
        if len(numbers) > first.ndim:
            raise ValueError(f"{first.uri}: the array has {first.ndim} axes, extents has {len(numbers)}")
        found = {first.ndim - len(numbers) + k: n for k, n in enumerate(numbers)}
    for place, extent in found.items():
        if extent > first.shape[place]:
            raise ValueError(f"{first.uri}: axis {place} has {elements(first.shape[place])}, a crop needs {extent}")
    return dict(sorted(found.items()))


def _place(look: Any, axis: Any, what: str) -> int:
    """The number of an axis, from its name or number; negative numbers count from the last."""
    if isinstance(axis, str):
        if axis not in look.dims:
            raise ValueError(f"{what}: no axis {axis!r}; {look.uri} has {', '.join(map(repr, look.dims))}")
        return int(look.dims.index(axis))
    number = as_int(axis, what)
    if not -look.ndim <= number < look.ndim:
        raise ValueError(f"{what}: no axis {number}; {look.uri} has {look.ndim} axes")
    return number % int(look.ndim)


def _axes(look: Any, dim: str | int, labels: Sequence[Any], is_timed: bool) -> tuple[int | tuple[int, int], ...]:
    """What a box takes of each axis. An array may lack cropped axes, if they have names."""
    axes: list[int | tuple[int, int]] = [(0, size) for size in look.shape]
    for k, label in enumerate(labels):
        if not isinstance(label, str) or label in look.dims:
            axes[_place(look, label, "extents")] = k
    if is_timed:
        if isinstance(dim, str) and dim not in look.dims:
            has = ", ".join(map(repr, look.dims))
            raise ValueError(f"dim: no axis {dim!r}; {look.uri} has {has}: say (source, None) for arrays without it")
        axes[_place(look, dim, "dim")] = TIME
    return tuple(axes)


def _check_sizes(first: Any, cut: tuple[int, ...], look: Any, member: Member) -> None:
    for place, axis in enumerate(member.axes):
        if not isinstance(axis, int):
            continue
        of_first = cut[axis + 1]
        size, expected = look.shape[place], first.shape[of_first]
        if size != expected:
            raise ValueError(
                f"{look.uri}: axis {place} has {elements(size)}, axis {of_first} of {first.uri} {expected}: "
                "the arrays of a window must have equal sizes on the axes that it cuts"
            )


def _extents(look: Any, dim: str | int, offsets: tuple[int, int] | None) -> tuple[int, ...]:
    """Of a window that is whole on other axes."""
    if offsets is None:
        return tuple(map(int, look.shape))
    time = _place(look, dim, "dim")
    return tuple(offsets[1] - offsets[0] if k == time else int(size) for k, size in enumerate(look.shape))
