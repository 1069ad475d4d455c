"""`Image`: an OME-NGFF multiscale image with its levels, axes, channels and labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from damacy._core.errors import DamacyError, InvalidArgument, NotFound
from damacy._open.arrays import Array, Transformation, child_uri


@dataclasses.dataclass(frozen=True, slots=True)
class ImageAxis:
    """An axis of an image; None for what the metadata do not say."""

    name: str | None
    type: str | None
    unit: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Channel:
    """A channel of an image: its label, its colour as `RRGGBB`, and the values shown as black and as full colour."""

    label: str | None
    color: str | None
    window: tuple[float, float] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """A level of an image as the metadata describe it."""

    path: str
    transformation: Transformation


@dataclasses.dataclass(frozen=True, slots=True)
class Multiscale:
    """The metadata of one multiscale image of a group."""

    name: str
    version: str | None
    has_transformations: bool
    axes: tuple[ImageAxis, ...]
    levels: tuple[Level, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """What the attributes of a group say of images."""

    images: tuple[Multiscale, ...] = ()
    channels: tuple[Channel, ...] = ()
    labels: tuple[str, ...] = ()
    label_source: str | None = None
    problems: tuple[str, ...] = ()


def description_from(native: Mapping[str, Any]) -> Description:
    """`Description` from the native dict."""
    images = tuple(
        Multiscale(
            name=image["name"],
            version=image["version"],
            has_transformations=image["has_transformations"],
            axes=tuple(ImageAxis(*axis) for axis in image["axes"]),
            levels=tuple(
                Level(path, Transformation(scale, translation, problem))
                for path, scale, translation, problem in image["levels"]
            ),
        )
        for image in native["images"]
    )
    return Description(
        images=images,
        channels=tuple(Channel(*channel) for channel in native["channels"]),
        labels=native["labels"],
        label_source=native["label_source"],
        problems=tuple(f"{pointer}: {message}" for pointer, message in native["problems"]),
    )


class Labels(Mapping[str, "Image"]):
    """The label images of an image, by name, in the order of the metadata. A label is opened when it is asked for."""

    __slots__ = ("_names", "_open", "_uri")

    def __init__(self, uri: str, names: tuple[str, ...], opener: Callable[[str], Any]) -> None:
        self._uri, self._names, self._open = uri, names, opener

    def __getitem__(self, name: str) -> Image:
        if name not in self._names:
            has = ", ".join(map(repr, self._names)) or "none"
            raise KeyError(f"no label {name!r}; there are {has}")
        return as_image(self._open(child_uri(self._uri, name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<labels {', '.join(self._names) or 'none'}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Image(Array):
    """An OME-NGFF image. As an `Array` it is its level 0.

    ::

        image = damacy.open_image("cell.zarr")
        coarse = image.level(2)
        coarse.read(coarse.box(center={"y": 120.0, "x": 80.0}, shape={"y": 256, "x": 256}))
        nuclei = image.labels["nuclei"]
    """

    _description: Description = dataclasses.field(default=Description(), repr=False)
    _index: int = dataclasses.field(default=0, repr=False)  # of this multiscale in its group
    _group_uri: str = dataclasses.field(default="", repr=False)
    _open: Callable[[str], Any] | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def _multiscale(self) -> Multiscale:
        return self._description.images[self._index]

    @property
    def version(self) -> str | None:
        """The version of NGFF, None if the metadata do not say."""
        return self._multiscale.version

    @property
    def name(self) -> str:
        """The name of the image in the metadata; may be empty."""
        return self._multiscale.name

    @property
    def axes(self) -> tuple[ImageAxis, ...]:
        """Name, type and unit of each axis; empty if the metadata have none."""
        return self._multiscale.axes

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels that `omero` describes."""
        return self._description.channels

    @property
    def problems(self) -> tuple[str, ...]:
        """Where the metadata violate the specification, one line each. Elements can be read all the same."""
        multiscale = self._multiscale
        if multiscale.axes and len(multiscale.axes) != self.ndim:
            line = f"/multiscales/{self._index}/axes: {len(multiscale.axes)} axes, the array has {self.ndim}"
            return (*self._description.problems, line)
        return self._description.problems

    @property
    def images(self) -> tuple[Image, ...]:
        """All multiscale images of the group; the first one is what `open_image` returns."""
        return tuple(
            self if index == self._index else self._image(index)
            for index, image in enumerate(self._description.images)
            if image.levels
        )

    @property
    def labels(self) -> Labels:
        """The label images of this image."""
        assert self._open is not None
        uri = child_uri(self._group_uri, "labels")
        return Labels(uri, tuple(name for name in self._label_names(uri) if self._is_source_of(uri, name)), self._open)

    def _label_names(self, uri: str) -> tuple[str, ...]:
        assert self._open is not None
        try:
            group = self._open(uri)
        except NotFound:
            return ()
        names: tuple[str, ...] = getattr(group, "_labels", ()) or tuple(group)
        return names

    def _is_source_of(self, uri: str, name: str) -> bool:
        """False if the label says that it belongs to another image."""
        assert self._open is not None
        try:
            label = self._open(child_uri(uri, name))
        except DamacyError:
            return True  # its error is raised when it is asked for
        source = getattr(label, "_description", Description()).label_source
        if source is None:
            return True
        return os.path.normpath(child_uri(child_uri(uri, name), source)) == os.path.normpath(self._group_uri)

    def level(self, level: int | str) -> Array:
        """A level by its number, 0 being the finest, or by its path. Its scale and translation are those of the image.

        Its uri is the path of the array, so a `Sample` of it does not need the image.
        """
        if isinstance(level, str):
            if level not in self.levels:
                raise KeyError(f"no level {level!r}; there are {', '.join(map(repr, self.levels))}")
            path = level
        else:
            if not -len(self.levels) <= level < len(self.levels):
                raise IndexError(f"no level {level}: the image has {len(self.levels)}")
            path = self.levels[level]
        return self._described(path)

    def _levels_described(self) -> tuple[Level, ...]:
        """Path and transformation of each level, as the metadata give them."""
        return self._multiscale.levels

    def _described(self, path: str) -> Array:
        array = self._array(path)
        fields = described_fields(self._multiscale, array, path, None if path == self.levels[0] else self.shape)
        return dataclasses.replace(array, **fields, _axes_of_image=axes_of_image(self._multiscale, array))

    def _array(self, path: str) -> Array:
        assert self._open is not None
        found = self._open(child_uri(self._group_uri, path))
        if not isinstance(found, Array):
            raise InvalidArgument(f"level {path!r} is a group, not an array", uri=self.uri, reason="group")
        return found

    def _image(self, index: int) -> Image:
        multiscale = self._description.images[index]
        path = multiscale.levels[0].path
        array = self._array(path)
        fields = {f.name: getattr(array, f.name) for f in dataclasses.fields(Array)}
        fields |= described_fields(multiscale, array, path, None)
        fields["levels"] = tuple(level.path for level in multiscale.levels)
        fields["_axes_of_image"] = axes_of_image(multiscale, array)
        return Image(**fields, **{name: getattr(self, name) for name in _OF_GROUP}, _index=index)


_OF_GROUP = ("_description", "_group_uri", "_open")


def described_fields(
    multiscale: Multiscale, array: Array, path: str, shape_of_first: tuple[int, ...] | None
) -> dict[str, Any]:
    """What the metadata of an image say of one of its levels. `shape_of_first`: of level 0, None for level 0 itself."""
    if len(multiscale.axes) != array.ndim:
        return {}
    transformation = next((level.transformation for level in multiscale.levels if level.path == path), Transformation())
    if not multiscale.has_transformations:
        shapes = zip(shape_of_first or array.shape, array.shape)
        transformation = Transformation(tuple(first / size if size else None for first, size in shapes))
    return {
        "dims": tuple(axis.name for axis in multiscale.axes),
        "units": tuple(axis.unit for axis in multiscale.axes),
        "_transformation": transformation,
    }


def axes_of_image(multiscale: Multiscale, array: Array) -> tuple[tuple[str, ...], int | None] | None:
    """`Array._axes_of_image` of a level; None if an axis has no name, or shares it."""
    names = tuple(axis.name for axis in multiscale.axes if axis.name)
    if len(names) != array.ndim or len(set(names)) != len(multiscale.axes):
        return None
    channels = [k for k, axis in enumerate(multiscale.axes) if axis.type == "channel"]
    return names, channels[0] if channels else None


def image_from(array: Array, native: Mapping[str, Any], opener: Callable[[str], Any]) -> Image:
    """An `Image` from its level 0 and the native dict of its group."""
    description = description_from(native)
    fields = {f.name: getattr(array, f.name) for f in dataclasses.fields(Array)}
    fields |= described_fields(description.images[0], array, array.levels[0] if array.levels else "", None)
    return Image(**fields, _description=description, _group_uri=array.uri, _open=opener)


def as_image(node: Any) -> Image:
    """The node; `InvalidArgument` if it is no image."""
    if isinstance(node, Image):
        return node
    kind = "an array" if isinstance(node, Array) else f"a {type(node).__name__.lower()}"
    raise InvalidArgument(f"is {kind}, not an image", what="open", uri=node.uri, reason="group")


# Pickles and tracebacks show damacy.Image.
Image.__module__ = "damacy"
