"""The description of an array: the native library reads its metadata, and this module converts the result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from damacy._core import log
from damacy._core.errors import InvalidArgument
from damacy._pipeline.array_attributes import attributes_from, cf_from, element
from damacy._pipeline.info import ArrayInfo
from damacy._pipeline.opened_arrays import note_packed, zarr_group_uri
from damacy._pipeline.sample import uri_text
from damacy._stores.mounts import below

if TYPE_CHECKING:
    from damacy.typing import Source


def open(uri: Source) -> ArrayInfo:  # noqa: A001  for callers that import it under another name
    """Describe an array, or level 0 of an OME-NGFF image. Reads only metadata."""
    from damacy import _native

    name = opened_name(uri)
    with log.drained:
        found = _native.open_array(name)
    return ArrayInfo(**info_fields(found))


def open_each(uris: Iterable[str]) -> Iterator[ArrayInfo]:
    """As `open`, of many arrays together, in order. Raises the first error."""
    for found in opened_together([opened_name(uri) for uri in uris], arrays=True):
        if isinstance(found, Exception):
            raise found
        yield ArrayInfo(**info_fields(found))


def opened_together(names: list[str], *, arrays: bool = False) -> Iterator[Any]:
    """What the native library says of each node, or the exception; remote documents are asked for together.

    With `arrays` a node that is no array is refused, and what is said is that of `open`.
    """
    from damacy import _native

    opening = _native.OpeningNodes(names, arrays)
    with log.drained, contextlib.closing(opening):
        while found := opening.take():
            yield from found


def opened_name(uri: Any, store: Any = None) -> str:
    """A uri, or a path in `store`, as the native library takes it; `InvalidArgument` if it is no UTF-8 text."""
    name = uri_text(zarr_group_uri(uri)) if store is None else below(store, uri)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"uri {name!a} is no UTF-8 text, which open needs", what="open", reason="uri") from None
    return name


def info_fields(native: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `ArrayInfo` from the native dict."""
    found = dict(native)
    found.pop("place")
    fill, cf, problem = found.pop("fill"), found.pop("cf"), found.pop("cf_problem")
    attributes = attributes_from(found.pop("attributes"), found["zarr_format"])
    if cf is not None and found["zarr_format"] == 2:
        note_packed(found["uri"], cf)
    return found | {
        "why_not": found["why_not"] or None,
        "fill_value": None if fill is None else element(fill, found["dtype"]),
        "attrs": attributes,
        "cf": cf_from(cf, problem),
    }
