"""What samplers crop: the arrays of each sample, the cropped axes, their sizes, and where crops of all arrays of a
sample show the same place. Opens arrays whose shapes were not given; draws nothing."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from damacy._core.integers import as_int, elements
from damacy._core.log import logger
from damacy._open.arrays import Array
from damacy._pipeline.array_spec import check_name
from damacy._pipeline.opened_arrays import opened
from damacy._pipeline.same_place import EVERY, Scaled, Steps
from damacy._pipeline.sample import Sample, made_named_sample, made_sample, uri_text
from damacy._pipeline.sample_axes import Key, Member, Misfit, SharedAxis, first_axis, shared_axis
from damacy.typing import Source

# A mapping from arrays to their shapes, a list of arrays, or one array. For samples of several arrays a mapping from
# name to the arrays of all samples, or a list of mappings from name to the array of one sample.
Arrays = (
    Mapping[Any, Sequence[int]]
    | Mapping[str, Iterable[Source] | Source]
    | Iterable[Source | Mapping[str, Source]]
    | Source
)
# One number an axis, for the last axes; or for each name of an axis.
Extents = Sequence[int] | Mapping[str, int]

_OF_SPACE_AND_TIME = frozenset({"z", "y", "x", "t", "time"})

Box = tuple[tuple[int, int], ...]
# How an array's box is made of the crop's: for each of its axes the number of the crop's axis, that with another scale,
# or the whole axis.
Axes = tuple[int | Scaled | tuple[int, int], ...]
# What a crop is cut from: a uri whose axes are those of the crop; or for each array its name, its uri and its axes.
Origin = str | tuple[tuple[str, str, Axes], ...]


# For each array of a sample its name and the names of its axes; None for axes without a name.
Dims = tuple[tuple[str, tuple[str | None, ...]], ...]


class Unlike(NamedTuple):
    """An array on an axis on which the arrays of a sample have voxels of different sizes."""

    name: str
    keys: frozenset[Key]
    """How the axis may be called: by its name, and its number from the first and from the last one."""
    voxels: tuple[int, int]
    """So many voxels of the array are as large as so many of the first one."""


class Room(NamedTuple):
    """Where the crops of an origin may lie, in voxels of its first array; one number an axis."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    starts: tuple[Steps, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Cropped:
    """What a sampler crops."""

    extents: tuple[int, ...]
    """Of a crop, in the order of the axes of the (first) array."""
    from_last: tuple[int, ...]
    """For each axis of the crop its place in that array, counted from the last one, which is 1."""
    sizes: dict[Origin, tuple[int, ...]]
    """Of the cropped axes of each origin, in the given order."""
    keys: tuple[Key, ...]
    """The name of each axis of the crop, or its number, counted from the last one, which is -1."""
    rooms: dict[Origin, Room] = dataclasses.field(default_factory=dict)
    """Of origins whose arrays differ in size, scale or translation. In others crops lie and start anywhere."""
    misfit: dict[str, dict[Key, float]] = dataclasses.field(default_factory=dict)
    """By name and axis, how far voxels lie beside those of the first array, in voxels of the name; only if not 0."""
    dims: tuple[Dims, ...] = ()
    """Of the arrays of all samples, without repetition."""
    unlike: dict[Key, tuple[Unlike, ...]] = dataclasses.field(default_factory=dict)
    """By axis, if the arrays of a sample have voxels of different sizes there: all arrays that have the axis."""

    def room(self, origin: Origin) -> Room:
        """Where the crops of an origin may lie."""
        sizes = self.sizes[origin]
        return self.rooms.get(origin) or plain_room(sizes)

    def axis(self, origin: Origin, k: int) -> Key:
        """How errors call axis `k` of the crop: by its name, or its number in the (first) array of the origin."""
        key = self.keys[k]
        if isinstance(key, str) or isinstance(origin, str):
            return key if isinstance(key, str) else k
        _, _, axes = origin[0]
        return len(axes) + key


def plain_room(sizes: tuple[int, ...]) -> Room:
    """The whole of an array of these sizes."""
    return Room((0,) * len(sizes), sizes, (EVERY,) * len(sizes))


def cropped(arrays: Any, extents: Extents) -> Cropped:
    """What is cropped, and how large it is. `ValueError` if arrays and extents do not fit."""
    found = cut_axes(arrays, extents)
    check_sizes(found, (0,) * len(found.extents))
    return found


def check_sizes(found: Cropped, margins: tuple[int, ...], *, may_overhang: bool = False) -> None:
    """`ValueError` if an array is too small for a crop, which may overhang it by the margins. `may_overhang`: whether
    the caller could choose larger margins."""
    for origin in found.sizes:
        room = found.room(origin)
        for k, (extent, margin) in enumerate(zip(found.extents, margins)):
            size = max(room.high[k] - room.low[k], 0)  # negative where the arrays do not overlap
            if extent > size + 2 * margin:
                shared = "" if size == found.sizes[origin][k] else " in common with the other arrays"
                least = -(-(extent - size) // 2)
                overhang = f": margin={least} and ArraySpec(pad=...) let crops overhang"
                advice = overhang if may_overhang and not shared else ""
                axis = found.axis(origin, k)
                raise ValueError(
                    f"{first_uri(origin)}: axis {axis} has {elements(size)}{shared}, a crop needs {extent}{advice}"
                )


def cut_axes(arrays: Any, extents: Extents, name: str = "extents", *, first_only: bool = False) -> Cropped:
    """As `cropped`, for extents that may be larger than arrays; errors call them by `name`. `first_only`: without the
    places of the other arrays of a sample."""
    if isinstance(extents, Mapping):
        by_name = {axis: positive(n, f"{name}[{axis!r}]") for axis, n in extents.items()}
        found = _by_axis_name(arrays, by_name, first_only)
    else:
        numbers = tuple(positive(extent, f"{name}[{k}]") for k, extent in enumerate(extents))
        if _is_named(arrays):
            found = _by_number(arrays, numbers, first_only)
        else:
            from_last = tuple(range(len(numbers), 0, -1))
            keys = tuple(-place for place in from_last)
            sizes, dims = _sizes_by_uri(arrays, len(numbers))
            found = Cropped(numbers, from_last, sizes, keys, dims=dims)
    if not found.sizes:
        raise ValueError("arrays must name at least one array")
    return found


def first_uri(origin: Origin) -> str:
    """The uri of the (first) array."""
    return origin if isinstance(origin, str) else origin[0][1]


def first_uris(arrays: Any) -> list[str]:
    """The uri of the (first) array of each sample."""
    if _is_named(arrays):
        return [uri_text(next(iter(sources.values()))) for sources in _by_sample(arrays)]
    return list(map(uri_text, [arrays] if is_source(arrays) else arrays))


def least_axes(arrays: Any) -> int:
    """The least number of axes of all arrays of all samples."""
    if isinstance(arrays, Mapping) and not _is_named(arrays):
        return min(map(len, arrays.values()), default=0)
    if _is_named(arrays):
        looks = _nodes(_by_sample(arrays))
    else:
        looks = looked_at(first_uris(arrays))
    return min((len(look.shape) for look in looks.values()), default=0)


def sample_of(origin: Origin, box: Box, row_key: tuple[int, int]) -> Sample:
    """The sample of a crop."""
    if isinstance(origin, str):
        return made_sample(origin, box, row_key)
    boxes = (
        (name, (uri, tuple(box[axis] if isinstance(axis, int) else _interval(box, axis) for axis in axes)))
        for name, uri, axes in origin
    )
    if origin[0][0] == "":
        return made_sample(*next(boxes)[1], row_key)
    return made_named_sample(boxes, row_key)


def _interval(box: Box, axis: Scaled | tuple[int, int]) -> tuple[int, int]:
    return axis.interval(*box[axis.axis]) if isinstance(axis, Scaled) else axis


def samples_of(origins: Sequence[Origin], which: Any, boxes: Any, epoch: int, keys: Iterable[int]) -> list[Sample]:
    """The samples of many crops: for each the number of its origin, its box, and the index of its row. Arrays of shapes
    (n,) and (n, axes, 2)."""
    starts, stops = boxes[:, :, 0].T.tolist(), boxes[:, :, 1].T.tolist()
    by_sample = zip(*(zip(*axis) for axis in zip(starts, stops))) if starts else itertools.repeat(())
    rows = zip(which.tolist(), by_sample, keys)
    if all(isinstance(origin, str) for origin in origins):
        return [made_sample(cast(str, origins[k]), box, (epoch, key)) for k, box, key in rows]
    return [sample_of(origins[k], box, (epoch, key)) for k, box, key in rows]


def counted(origins: Iterable[Origin]) -> str:
    """ "1 array", "3 arrays", "2 samples of 'image' and 'label'"."""
    all_of_them = list(origins)
    first, s = all_of_them[0], "" if len(all_of_them) == 1 else "s"
    if isinstance(first, str) or first[0][0] == "":
        return f"{len(all_of_them)} array{s}"
    return f"{len(all_of_them)} sample{s} of {' and '.join(repr(name) for name, _, _ in first)}"


def positive(value: int, name: str) -> int:
    """An integer of 1 or more; `ValueError` for others."""
    number = as_int(value, name)
    if number < 1:
        raise ValueError(f"{name} must be >= 1 (got {number})")
    return number


def not_negative(value: int, name: str) -> int:
    """An integer of 0 or more; `ValueError` for others."""
    number = as_int(value, name)
    if number < 0:
        raise ValueError(f"{name} must be >= 0 (got {number})")
    return number


def _sizes_by_uri(arrays: Any, axes: int) -> tuple[dict[Origin, tuple[int, ...]], tuple[Dims, ...]]:
    """The shapes of arrays, and the names of their axes."""
    sources = [arrays] if is_source(arrays) else arrays
    found: dict[Origin, tuple[int, ...]]
    dims: dict[Dims, None] = {}
    if isinstance(sources, Mapping):
        found = {uri_text(uri): tuple(as_int(size, "shape") for size in shape) for uri, shape in sources.items()}
        dims[(("", (None,) * axes),)] = None
    else:
        looks = looked_at(map(uri_text, sources))
        found = {uri: look.shape for uri, look in looks.items()}
        dims = dict.fromkeys((("", tuple(look.dims) or (None,) * axes),) for look in looks.values())
    for uri, shape in found.items():
        if len(shape) != axes:
            more = ": crop by axis name, {'y': 96, 'x': 96}, to have other axes whole" if len(shape) > axes else ""
            raise ValueError(f"{uri}: the array has {len(shape)} axes, extents has {axes}{more}")
    return found, tuple(dims)


def is_source(value: Any) -> bool:
    """Whether it is one array: a uri, or an opened array."""
    return isinstance(value, (str, os.PathLike)) or opened(value) is not None


def looked_at(uris: Iterable[str]) -> dict[str, Any]:
    """The metadata of each array, in the order given; they are read together."""
    from damacy._pipeline.opening import open as look
    from damacy._pipeline.opening import open_each

    return _each_by(look, open_each, uris)


def _nodes(samples: Iterable[Mapping[str, Source]]) -> dict[str, Array]:
    """The arrays of these samples with their places in the world, by uri. Those that are open are not opened again."""
    from damacy._open.opening import array_or_image, arrays_or_images

    sources = [source for sample in samples for source in sample.values()]
    known = {source.uri: source for source in sources if isinstance(source, Array)}
    uris = (uri for uri in map(uri_text, sources) if uri not in known)
    return known | _each_by(array_or_image, arrays_or_images, uris)


def _each_by(
    look: Callable[[str], Any], look_together: Callable[[list[str]], Iterable[Any]], uris: Iterable[str]
) -> dict[str, Any]:
    distinct = list(dict.fromkeys(uris))
    if len(distinct) < 2:
        return {uri: look(uri) for uri in distinct}
    return dict(zip(distinct, look_together(distinct), strict=True))


def _is_named(arrays: Any) -> bool:
    """Whether samples have several arrays: a mapping to arrays, not to shapes, or a list of mappings."""
    if is_source(arrays):
        return False
    if isinstance(arrays, Mapping):
        return any(is_source(value) or not all(map(_is_number, value)) for value in arrays.values())
    if not isinstance(arrays, (list, tuple)) or len(arrays) == 0 or not isinstance(arrays[0], Mapping):
        return False
    return opened(arrays[0]) is None  # a group is a mapping, too, and is refused as one


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__")


def _by_sample(arrays: Any) -> list[dict[str, Source]]:
    """For each sample its arrays by name. One array of a name stands for every sample."""
    if isinstance(arrays, Mapping):
        lists = {name: [source] if is_source(source) else list(source) for name, source in arrays.items()}
        most = max(map(len, lists.values()))
        for name, sources in lists.items():
            if len(sources) not in (1, most):
                raise ValueError(f"arrays[{name!r}] has {len(sources)} arrays, another name has {most}")
        samples = [{name: sources[k % len(sources)] for name, sources in lists.items()} for k in range(most)]
    else:
        samples = list(arrays)
    for sample in samples:
        for name, source in sample.items():
            check_name(name)
            uri_text(source)  # refuses other values
    return samples


def _by_number(arrays: Any, extents: tuple[int, ...], first_only: bool) -> Cropped:
    """By numbers of axes, counted from the last one."""
    samples = _by_sample(arrays)
    nodes = _nodes(samples)
    for uri, node in nodes.items():
        if node.ndim < len(extents):
            raise ValueError(f"{uri}: the array has {node.ndim} axes, extents has {len(extents)}")
    members = [
        [Member(name, node, tuple(range(-node.ndim, 0))) for name, node in _named_nodes(sample, nodes)]
        for sample in samples
    ]
    keys = tuple(range(-len(extents), 0))
    return _cropped(members, dict(zip(keys, extents)), tuple(-key for key in keys), first_only)


def _named_nodes(sample: Mapping[str, Source], nodes: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, nodes[uri_text(source)]) for name, source in sample.items())


def _by_axis_name(arrays: Any, extents: dict[str, int], first_only: bool) -> Cropped:
    """Axes that are not in `extents` are whole. The first array of a sample must have all that are in it."""
    if isinstance(arrays, Mapping) and not _is_named(arrays):
        raise ValueError("extents by axis name need the names of the arrays' axes: give uris, not a mapping to shapes")
    looks: Mapping[str, Any]
    if _is_named(arrays):
        samples = _by_sample(arrays)
        looks = _nodes(samples)
    else:
        samples = [{"": uri_text(source)} for source in ([arrays] if is_source(arrays) else arrays)]
        looks = looked_at(uri_text(source) for sample in samples for source in sample.values())
    for uri, look in looks.items():
        _check_dims(uri, look.dims)
    places: set[tuple[tuple[str, int], ...]] = set()
    members = []
    for sample in samples:
        members.append([Member(name, look, look.dims) for name, look in _named_nodes(sample, looks)])
        first = members[-1][0].look
        for axis in extents:
            if axis not in first.dims:
                raise ValueError(f"extents: no axis {axis!r}; {first.uri} has {', '.join(map(repr, first.dims))}")
        order = [axis for axis in first.dims if axis in extents]
        places.add(tuple((axis, len(first.dims) - first.dims.index(axis)) for axis in order))
    if len(places) > 1:
        raise ValueError("extents by axis name: the arrays have their axes in different orders")
    (place,) = places or {()}
    cut: dict[str | int, int] = {axis: extents[axis] for axis, _ in place}
    return _cropped(members, cut, tuple(from_last for _, from_last in place), first_only)


def _check_dims(uri: str, dims: tuple[str | None, ...]) -> None:
    if None in dims or len(set(dims)) < len(dims):
        raise ValueError(f"{uri}: the axes of the array have no names, or the same ones: give extents as a sequence")


def _cropped(
    samples: Sequence[Sequence[Member]], extents: Mapping[Any, int], from_last: tuple[int, ...], first_only: bool
) -> Cropped:
    """The arrays of each sample, cut on the axes of `extents`, which are in the order of the first array."""
    sizes: dict[Origin, tuple[int, ...]] = {}
    rooms: dict[Origin, Room] = {}
    misfits: dict[tuple[str, Key], Misfit] = {}
    voxels: dict[
        tuple[str, Key], tuple[int | None, str]
    ] = {}  # of each name and axis in a crop, with the first uri of the name
    dims: dict[Dims, None] = {}
    unlike: dict[Key, tuple[Unlike, ...]] = {}
    whole: dict[tuple[str, str], tuple[int, str]] = {}  # by name and axis the size of a whole axis, with the first uri
    for number, members in enumerate(samples):
        if first_only:
            found = [first_axis(members, k, key) for k, key in enumerate(extents)]
        else:
            found = [shared_axis(members, k, key, extents[key], number) for k, key in enumerate(extents)]
        dims[tuple((member.name, member.dims) for member in members)] = None
        for key, axis in zip(extents, found):
            if any(isinstance(each, Scaled) and each.times != each.per for each in axis.axes):
                unlike.setdefault(key, _unlike(members, key, axis))
            for member, count in zip(members, axis.extents(extents[key])):
                known, uri = voxels.setdefault((member.name, key), (count, member.look.uri))
                if None not in (known, count) and known != count:
                    raise ValueError(
                        f"{member.look.uri}: a crop has {count} voxels of {member.name} on axis {key}, "
                        f"that of {uri} has {known}: all samples need the same ratio of scales"
                    )
            for misfit in axis.misfits:
                largest = misfits.setdefault((misfit.name, key), misfit)
                if abs(misfit.voxels) > abs(largest.voxels):
                    misfits[misfit.name, key] = misfit
        origin = tuple(
            (member.name, member.look.uri, _axes_of(member, {key: axis.axes[k] for key, axis in zip(extents, found)}))
            for k, member in enumerate(members)
        )
        if not first_only:
            _check_whole(members, origin, whole)
        sizes[origin] = tuple(members[0].size(key) for key in extents)
        room = Room(*(tuple(getattr(axis, name) for axis in found) for name in Room._fields))
        if room != plain_room(sizes[origin]):
            rooms[origin] = room
    if misfits:
        logger().info("%s: crops take the nearest voxel", "; ".join(misfit.text for misfit in misfits.values()))
    by_name: dict[str, dict[Key, float]] = {}
    for misfit in misfits.values():
        by_name.setdefault(misfit.name, {})[misfit.key] = misfit.voxels
    keys = tuple(extents)
    return Cropped(tuple(extents.values()), from_last, sizes, keys, rooms, by_name, tuple(dims), unlike)


def _check_whole(members: Sequence[Member], origin: Any, whole: dict[tuple[str, str], tuple[int, str]]) -> None:
    """`ValueError` if an axis of space or time is whole, and has another size than in another sample: rows of a batch
    have one shape. Other axes may be those of channels, of which a spec may take some."""
    for member, (name, uri, axes) in zip(members, origin):
        for dim, axis in zip(member.dims, axes):
            if dim not in _OF_SPACE_AND_TIME or not isinstance(axis, tuple):
                continue
            known, first = whole.setdefault((name, dim), (axis[1], uri))
            if known != axis[1]:
                raise ValueError(
                    f"{uri}: axis {dim} has {elements(axis[1])}, that of {first} has {known}, and crops have the whole "
                    f"axis: give {dim} an extent, so that all have the same shape"
                )


def _unlike(members: Sequence[Member], key: Key, shared: SharedAxis) -> tuple[Unlike, ...]:
    found = []
    for member, axis in zip(members, shared.axes):
        if axis is not None:
            place, ndim = member.keys.index(key), len(member.keys)
            names = {name for name in (member.dims[place],) if name is not None}
            voxels = (axis.times, axis.per) if isinstance(axis, Scaled) else (1, 1)
            found.append(Unlike(member.name, frozenset({place, place - ndim, *names}), voxels))
    return tuple(found)


def _axes_of(member: Member, cut: Mapping[Key, int | Scaled | None]) -> Axes:
    axes = (cut.get(key) for key in member.keys)
    return tuple((0, size) if axis is None else axis for axis, size in zip(axes, member.look.shape))
