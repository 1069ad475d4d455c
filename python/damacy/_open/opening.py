"""`damacy.open` and its variants: what node a uri names, and the object that describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from damacy._core import log
from damacy._core.errors import InvalidArgument
from damacy._open.arrays import Array
from damacy._open.groups import Group, Plate
from damacy._open.images import Image, as_image, image_from
from damacy._pipeline.array_attributes import attributes_from
from damacy._pipeline.opening import info_fields, opened_name, opened_together

if TYPE_CHECKING:
    from damacy.typing import Source


def open(  # noqa: A001  damacy.open, never star-imported
    uri: Source, *, store: Any = None
) -> Array | Image | Group | Plate:
    """Open an array, an OME-NGFF image or plate, or another group. Reads only metadata.

    Args:
        uri: a path or another uri, or an array or group that another library has open.
        store: a store of zarr-python or obstore, in which `uri` is a path; `""` is its root. It is mounted.
    """
    from damacy import _native

    name = opened_name(uri, store)
    with log.drained:
        found = _native.open_node(name)
    return _node_from(name, found)


def open_many(uris: Iterable[Source], *, store: Any = None) -> list[Array | Image | Group | Plate | Exception]:
    """Open many nodes together, as `open` opens each: of remote stores many at a time.

    Returns them in the order of the uris. Where one cannot be opened, its exception is in its place.
    """
    names = [opened_name(uri, store) for uri in uris]
    if not names:
        return []

    def node(name: str, found: Mapping[str, Any] | Exception) -> Array | Image | Group | Plate | Exception:
        try:
            return found if isinstance(found, Exception) else _node_from(name, found)
        except Exception as error:
            return error

    return list(map(node, names, opened_together(names)))


def _node_from(uri: str, native: Mapping[str, Any]) -> Array | Image | Group | Plate:
    if native["kind"] == "array":
        return array_from(native["array"])
    if native["kind"] == "image":
        return image_from(array_from(native["array"]), native["ngff"], open)
    kind = Plate if native["kind"] == "plate" else Group
    attributes = attributes_from(native["attributes"], native["zarr_format"])
    return kind(uri, native["zarr_format"], attributes, native["ngff"], open)


def open_array(uri: Source, *, store: Any = None) -> Array:
    """Open an array. Refuses groups, also those that are images; the error lists the arrays inside."""
    found = array_or_image(uri, store=store)
    if isinstance(found, Image):
        _refuse_group(found._group_uri)
    return found


def array_or_image(uri: Source, *, store: Any = None) -> Array:
    """Open what a `Sample` takes: an array, or an `Image`, which stands for its level 0. Refuses other groups."""
    found = open(uri, store=store)
    if not isinstance(found, Array):
        _refuse_group(found.uri)
    return found


def arrays_or_images(uris: Iterable[Source]) -> Iterator[Array]:
    """As `array_or_image`, of many uris together, in order. Raises the first error."""
    names = [opened_name(uri) for uri in uris]
    for name, found in zip(names, opened_together(names), strict=True):
        if isinstance(found, Exception):
            raise found
        node = _node_from(name, found)
        if not isinstance(node, Array):
            _refuse_group(node.uri)
        yield node


def _refuse_group(uri: str) -> NoReturn:
    """Raises the error that lists the arrays inside."""
    from damacy import _native

    with log.drained:
        _native.refuse_group(uri)
    raise AssertionError(uri)


def open_image(uri: Source, *, store: Any = None) -> Image:
    """Open an OME-NGFF image. Refuses arrays and other groups."""
    return as_image(open(uri, store=store))


def open_group(uri: Source, *, store: Any = None) -> Group:
    """Open a group, or a plate. Refuses arrays and images."""
    found = open(uri, store=store)
    if not isinstance(found, Group):
        kind = "an image" if isinstance(found, Image) else "an array"
        raise InvalidArgument(f"is {kind}, not a group", what="open", uri=found.uri, reason="group")
    return found


def array_from(native: Mapping[str, Any]) -> Array:
    """An `Array` that is in no image, from the native dict."""
    fields = info_fields(native)
    units = fields["attrs"].get("units")
    return Array(**fields, units=units if isinstance(units, str) else None, _opened=native["place"])


# Pickles and tracebacks show damacy.open.
open.__module__ = "damacy"
open_array.__module__ = "damacy"
open_group.__module__ = "damacy"
open_image.__module__ = "damacy"
open_many.__module__ = "damacy"
