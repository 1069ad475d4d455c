"""`damacy.open` and its variants: what node a uri names, and the object that describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from damacy._core import log
from damacy._open.arrays import Array
from damacy._pipeline.opening import info_fields, opened_name

if TYPE_CHECKING:
    from damacy.typing import Source


def open_array(uri: Source) -> Array:
    """Open an array, or level 0 of an OME-NGFF image. Reads only metadata. Refuses other groups."""
    from damacy import _native

    name = opened_name(uri)
    with log.drained():
        found = _native.open_array(name)
    return array_from(found)


def array_from(native: Any) -> Array:
    """An `Array` that is in no image, from the native dict."""
    fields = info_fields(native)
    units = fields["attrs"].get("units")
    return Array(**fields, units=units if isinstance(units, str) else None)


def open(uri: Source) -> Array:  # noqa: A001  damacy.open, never star-imported
    """Open an array, or level 0 of an OME-NGFF image. Reads only metadata."""
    return open_array(uri)
