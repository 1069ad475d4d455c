"""`damacy.open`: reads an array's metadata by the native library, and converts the result to an `ArrayInfo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from damacy._core import log
from damacy._core.errors import InvalidArgument
from damacy._pipeline.array_attributes import attributes_from, cf_from, element
from damacy._pipeline.info import ArrayInfo
from damacy._pipeline.sample import uri_text

if TYPE_CHECKING:
    from damacy.typing import Source


def open(uri: Source) -> ArrayInfo:  # noqa: A001  damacy.open, never star-imported
    """Describe an array, or level 0 of an OME-NGFF image. Reads only metadata."""
    from damacy import _native

    name = uri_text(uri)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"uri {name!a} is no UTF-8 text, which open needs", what="open", reason="uri") from None
    with log.drained():
        found = _native.open_array(name)
    fill, cf, problem = found.pop("fill"), found.pop("cf"), found.pop("cf_problem")
    attributes = attributes_from(found.pop("attributes"), found["zarr_format"])
    return ArrayInfo(
        **found | {"why_not": found["why_not"] or None},
        fill_value=None if fill is None else element(fill, found["dtype"]),
        attrs=attributes,
        cf=cf_from(cf, problem),
    )
