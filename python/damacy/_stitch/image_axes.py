"""Axes, scale and chunks of the image that windows are cut from, and those of the output. Reads metadata only."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from damacy._core.errors import DamacyError, NotFound
from damacy._open.arrays import Array
from damacy._open.images import Image
from damacy._open.opening import array_or_image
from damacy._open.opening import open as open_node

CHANNEL_NAMES = ("c", "channel", "band", "variable")
_MOST_LEVELS_UP = 3  # a level's path in its image has at most so many parts
_ORDER = ("time", "channel", "space")  # of the types of axes, in NGFF


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an image; None for what its metadata do not say."""

    size: int
    name: str | None = None
    type: str | None = None
    unit: str | None = None
    scale: float | None = None
    translation: float | None = None
    chunk: int | None = None

    @property
    def is_channel(self) -> bool:
        return self.type == "channel" or (self.type is None and self.name in CHANNEL_NAMES)


def axes_of(uri: str) -> tuple[Axis, ...] | None:
    """The axes of an array, or of level 0 of an image. An array that is a level of an image has the image's axes.

    None if there is no such array.
    """
    try:
        array = array_or_image(uri)
    except NotFound:
        return None
    image = array if isinstance(array, Image) else None
    if image is None and (found := _level_of_image(uri)) is not None:
        image, array = found
    types = [axis.type for axis in image.axes] if image is not None and len(image.axes) == array.ndim else []
    dims = array.dims or (None,) * array.ndim
    units = array.units if isinstance(array.units, tuple) and len(array.units) == array.ndim else (None,) * array.ndim
    return tuple(
        Axis(
            size,
            name=dims[k],
            type=types[k] if types else None,
            unit=units[k],
            scale=array.scale[k],
            translation=array.translation[k],
            chunk=array.chunks[k],
        )
        for k, size in enumerate(array.shape)
    )


def _level_of_image(uri: str) -> tuple[Image, Array] | None:
    """The image of which an array is a level, and the level."""
    parent, path = uri.rstrip("/"), ""
    for _ in range(_MOST_LEVELS_UP):
        parent, name = os.path.split(parent)
        if not parent or not name:
            return None
        path = f"{name}/{path}" if path else name
        try:
            node = open_node(parent)
        except DamacyError:
            continue
        if isinstance(node, Image):
            return next(((image, image.level(path)) for image in node.images if path in image.levels), None)
    return None


def multiscales(axes: Sequence[Axis], name: str, path: str) -> dict[str, Any] | None:
    """The attribute `ome` of an NGFF 0.5 image with one level. None if NGFF cannot describe these axes, or if the scale
    of one in space or time is unknown."""
    types = [axis.type for axis in axes]
    places = [_ORDER.index(kind) for kind in types if kind in _ORDER]
    names = [axis.name for axis in axes]
    if (
        len(places) < len(types)
        or places != sorted(places)
        or not 2 <= types.count("space") <= 3
        or types.count("time") > 1
        or types.count("channel") > 1
        or None in names
        or len(set(names)) < len(names)
        or any(axis.scale is None and not axis.is_channel for axis in axes)
    ):
        return None
    described = [
        {"name": axis.name, "type": axis.type} | ({"unit": axis.unit} if axis.unit is not None else {}) for axis in axes
    ]
    transformations: list[dict[str, Any]] = [
        {"type": "scale", "scale": [1.0 if axis.scale is None else axis.scale for axis in axes]}
    ]
    if any(axis.translation for axis in axes):
        transformations.append({"type": "translation", "translation": [axis.translation or 0.0 for axis in axes]})
    dataset = {"path": path, "coordinateTransformations": transformations}
    return {"version": "0.5", "multiscales": [{"name": name, "axes": described, "datasets": [dataset]}]}
