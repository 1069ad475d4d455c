"""What samplers crop: the arrays of each sample, the cropped axes, and their sizes. Opens arrays whose shapes were not
given; draws nothing."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from damacy._core.integers import as_int
from damacy._pipeline.array_spec import check_name
from damacy._pipeline.opened_arrays import opened
from damacy._pipeline.sample import Sample, made_named_sample, made_sample, uri_text
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

_LOOKS = 16  # so many arrays are looked at together

Box = tuple[tuple[int, int], ...]
# How an array's box is made of the crop's: for each of its axes the number of the crop's axis, or the whole axis.
Axes = tuple[int | tuple[int, int], ...]
# What a crop is cut from: a uri whose axes are those of the crop; or for each array its name, its uri and its axes.
Origin = str | tuple[tuple[str, str, Axes], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Cropped:
    """What a sampler crops."""

    extents: tuple[int, ...]
    """Of a crop, in the order of the axes of the (first) array."""
    from_last: tuple[int, ...]
    """For each axis of the crop its place in that array, counted from the last one, which is 1."""
    sizes: dict[Origin, tuple[int, ...]]
    """Of the cropped axes of each origin, in the given order."""


def cropped(arrays: Any, extents: Extents) -> Cropped:
    """What is cropped, and how large it is. `ValueError` if arrays and extents do not fit."""
    found = cut_axes(arrays, extents)
    check_sizes(found, (0,) * len(found.extents))
    return found


def check_sizes(found: Cropped, margins: tuple[int, ...]) -> None:
    """`ValueError` if an array is too small for a crop, which may overhang it by the margins."""
    for origin, available in found.sizes.items():
        for k, (size, extent, margin) in enumerate(zip(available, found.extents, margins)):
            if extent > size + 2 * margin:
                raise ValueError(f"{first_uri(origin)}: axis {k} has {size} elements, a crop needs {extent}")


def cut_axes(arrays: Any, extents: Extents, name: str = "extents") -> Cropped:
    """As `cropped`, for extents that may be larger than arrays; errors call them by `name`."""
    if isinstance(extents, Mapping):
        found = _by_axis_name(arrays, {axis: positive(n, f"{name}[{axis!r}]") for axis, n in extents.items()})
    else:
        numbers = tuple(positive(extent, f"{name}[{k}]") for k, extent in enumerate(extents))
        sizes = _named_sizes(arrays, len(numbers)) if _is_named(arrays) else _sizes_by_uri(arrays, len(numbers))
        found = Cropped(numbers, tuple(range(len(numbers), 0, -1)), sizes)
    if not found.sizes:
        raise ValueError("arrays must name at least one array")
    return found


def first_uri(origin: Origin) -> str:
    """The uri of the (first) array."""
    return origin if isinstance(origin, str) else origin[0][1]


def first_uris(arrays: Any) -> list[str]:
    """The uri of the (first) array of each sample."""
    if _is_named(arrays):
        return [next(iter(uris.values())) for uris in _by_sample(arrays)]
    return list(map(uri_text, [arrays] if is_source(arrays) else arrays))


def least_axes(arrays: Any) -> int:
    """The least number of axes of all arrays of all samples."""
    if isinstance(arrays, Mapping) and not _is_named(arrays):
        return min(map(len, arrays.values()), default=0)
    uris = (
        [uri for sample in _by_sample(arrays) for uri in sample.values()] if _is_named(arrays) else first_uris(arrays)
    )
    return min((len(look.shape) for look in looked_at(uris).values()), default=0)


def sample_of(origin: Origin, box: Box, row_key: tuple[int, int]) -> Sample:
    """The sample of a crop."""
    if isinstance(origin, str):
        return made_sample(origin, box, row_key)
    boxes = (
        (name, (uri, tuple(box[axis] if isinstance(axis, int) else axis for axis in axes)))
        for name, uri, axes in origin
    )
    if origin[0][0] == "":
        return made_sample(*next(boxes)[1], row_key)
    return made_named_sample(boxes, row_key)


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


def _sizes_by_uri(arrays: Any, axes: int) -> dict[Origin, tuple[int, ...]]:
    sources = [arrays] if is_source(arrays) else arrays
    found: dict[Origin, tuple[int, ...]]
    if isinstance(sources, Mapping):
        found = {uri_text(uri): tuple(as_int(size, "shape") for size in shape) for uri, shape in sources.items()}
    else:
        found = {uri: look.shape for uri, look in looked_at(map(uri_text, sources)).items()}
    for uri, shape in found.items():
        if len(shape) != axes:
            raise ValueError(f"{uri}: the array has {len(shape)} axes, extents has {axes}")
    return found


def is_source(value: Any) -> bool:
    """Whether it is one array: a uri, or an opened array."""
    return isinstance(value, (str, os.PathLike)) or opened(value) is not None


def looked_at(uris: Iterable[str]) -> dict[str, Any]:
    """The metadata of each array, in the order given; several are read at the same time."""
    from damacy._pipeline.opening import open as look

    distinct = list(dict.fromkeys(uris))
    if len(distinct) < 2:
        return {uri: look(uri) for uri in distinct}
    threads = min(len(distinct), _LOOKS)
    with concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="damacy-shapes") as pool:
        return dict(zip(distinct, pool.map(look, distinct)))


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


def _by_sample(arrays: Any) -> list[dict[str, str]]:
    """For each sample its uris by name. One array of a name stands for every sample."""
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
        for name in sample:
            check_name(name)
    return [{name: uri_text(source) for name, source in sample.items()} for sample in samples]


def _named_sizes(arrays: Any, axes: int) -> dict[Origin, tuple[int, ...]]:
    """By numbers of axes, counted from the last one."""
    found: dict[Origin, tuple[int, ...]] = {}
    samples = _by_sample(arrays)
    looks = looked_at(uri for uris in samples for uri in uris.values())
    shapes = {uri: look.shape for uri, look in looks.items()}
    for uris in samples:
        for uri in uris.values():
            if len(shapes[uri]) < axes:
                raise ValueError(f"{uri}: the array has {len(shapes[uri])} axes, extents has {axes}")
        origin = tuple((name, uri, (*_whole(shapes[uri], axes), *range(axes))) for name, uri in uris.items())
        last = {
            uri: {k - axes: size for k, size in enumerate(shapes[uri][len(shapes[uri]) - axes :])}
            for uri in uris.values()
        }
        found[origin] = _equal_sizes(uris, last)
    return found


def _whole(shape: tuple[int, ...], axes: int) -> Box:
    """The axes before the last `axes`."""
    return tuple((0, size) for size in shape[: len(shape) - axes])


def _by_axis_name(arrays: Any, extents: dict[str, int]) -> Cropped:
    """Axes that are not in `extents` are whole. The first array of a sample must have all that are in it."""
    if isinstance(arrays, Mapping) and not _is_named(arrays):
        raise ValueError("extents by axis name need the names of the arrays' axes: give uris, not a mapping to shapes")
    if _is_named(arrays):
        samples = _by_sample(arrays)
    else:
        samples = [{"": uri_text(source)} for source in ([arrays] if is_source(arrays) else arrays)]
    looks = looked_at(uri for uris in samples for uri in uris.values())
    for uri, look in looks.items():
        _check_dims(uri, look.dims)
    places: set[tuple[tuple[str, int], ...]] = set()
    sizes: dict[Origin, tuple[int, ...]] = {}
    for uris in samples:
        first = looks[next(iter(uris.values()))]
        for axis in extents:
            if axis not in first.dims:
                raise ValueError(f"extents: no axis {axis!r}; {first.uri} has {', '.join(map(repr, first.dims))}")
        order = [axis for axis in first.dims if axis in extents]
        places.add(tuple((axis, len(first.dims) - first.dims.index(axis)) for axis in order))
        origin = tuple((name, uri, _axes_of(looks[uri], order)) for name, uri in uris.items())
        sizes[origin] = _equal_sizes(
            uris,
            {
                uri: {axis: size for axis, size in zip(looks[uri].dims, looks[uri].shape) if axis in extents}
                for uri in uris.values()
            },
        )
    if len(places) > 1:
        raise ValueError("extents by axis name: the arrays have their axes in different orders")
    (place,) = places or {()}
    return Cropped(tuple(extents[axis] for axis, _ in place), tuple(from_last for _, from_last in place), sizes)


def _check_dims(uri: str, dims: tuple[str | None, ...]) -> None:
    if None in dims or len(set(dims)) < len(dims):
        raise ValueError(f"{uri}: the axes of the array have no names, or the same ones: give extents as a sequence")


def _axes_of(look: Any, order: list[str]) -> Axes:
    return tuple(
        order.index(axis) if axis in order else (0, size) for axis, size in zip(look.dims, look.shape, strict=True)
    )


def _equal_sizes(uris: Mapping[str, str], sizes: Mapping[str, Mapping[Any, int]]) -> tuple[int, ...]:
    """The sizes of the cropped axes of the first array, which the others have too, as far as they have these axes."""
    (first, uri), *others = uris.items()
    for name, other in others:
        for axis, size in sizes[other].items():
            if axis in sizes[uri] and size != sizes[uri][axis]:
                raise ValueError(
                    f"{other}: axis {axis!r} of {name!r} has {size} elements, that of {first!r} {sizes[uri][axis]}: "
                    "the cropped axes of one sample's arrays must have equal sizes"
                )
    return tuple(sizes[uri].values())
