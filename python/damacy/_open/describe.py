"""What people see of a node: rows of a table for an array, a tree for a group, and both as JSON values. Knows the
attributes of nodes by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from damacy._core.errors import DamacyError
from damacy._pipeline.array_attributes import Cf, in_json
from damacy._pipeline.info import ArrayInfo

ATTRIBUTE_CHARACTERS = 300  # an attribute's text is cut off after so many

Row = tuple[str, str]


def text_of(array: Any) -> str:
    """The description of an array as lines of text."""
    found = [*rows(array), *attribute_rows(array), ("readable", readable(array))]
    width = max(len(name) for name, _ in found)
    return "\n".join(f"{name:{width}}  {text}" for name, text in found)


def rows(array: Any) -> list[Row]:
    """The description of an array or image as names and texts, attributes last."""
    found = [("uri", array.uri), ("shape", extents(array.shape))]
    if any(array.dims):
        found.append(("dims", ", ".join(name or "–" for name in array.dims)))
    found += [("type", array.dtype), ("chunks", extents(array.chunks))]
    found.append(("shards", "none" if array.shards is None else extents(array.shards)))
    found += [("zarr format", str(array.zarr_format)), ("codecs", ", ".join(array.codecs))]
    if array.fill_value is not None:
        found.append(("fill value", str(array.fill_value)))
    found += _rows_of_world(array)
    if array.levels:
        found.append(("levels", ", ".join(array.levels)))
    found += _rows_of_image(array)
    if array.cf is not None:
        found.append(_row_of_cf(array.cf))
    return found


def _row_of_cf(cf: Cf) -> Row:
    if cf.missing and not cf.is_packed and cf.unsigned is None:
        return "missing values", ", ".join(map(str, cf.missing))
    note = " (batches hold stored values unless ArraySpec(cf=True) unpacks them)" if cf.is_packed else ""
    return "packed", f"{cf}{note}"


def _rows_of_world(array: Any) -> list[Row]:
    found = []
    try:
        for name, numbers in (("scale", array.scale), ("translation", array.translation)):
            if any(number is not None for number in numbers):
                found.append((name, ", ".join("–" if number is None else f"{number:g}" for number in numbers)))
    except DamacyError as error:
        found.append(("scale", f"unusable: {error.pointer}: {error.message}"))
    if isinstance(array.units, tuple) and any(array.units):
        found.append(("units", ", ".join(unit or "–" for unit in array.units)))
    return found


def _rows_of_image(image: Any) -> list[Row]:
    if not hasattr(image, "channels"):
        return []
    found = []
    if image.version:
        found.append(("NGFF version", image.version))
    if image.channels:
        found.append(("channels", ", ".join(channel.label or "–" for channel in image.channels)))
    try:
        if labels := tuple(image.labels):
            found.append(("labels", ", ".join(labels)))
    except DamacyError as error:
        found.append(("labels", f"cannot be opened: {error.message}"))
    return found + [("problem", line) for line in image.problems]


def level_rows(image: Any) -> list[tuple[str, ...]]:
    """Path, scale and translation of each level, from the metadata of the image."""

    def numbers(values: tuple[float | None, ...]) -> str:
        return ", ".join("–" if value is None else f"{value:g}" for value in values) or "–"

    return [
        (level.path, f"scale {numbers(level.transformation.scale)}")
        + (f"translation {numbers(level.transformation.translation)}",)
        for level in image._levels_described()
    ]


def attribute_rows(node: Any) -> list[Row]:
    """The attributes of a node, shortened."""
    return [("attribute", f"{name} = {text}") for name, text in attribute_cells(node)]


def attribute_cells(node: Any) -> list[Row]:
    """Name and value of each attribute, shortened."""
    return [(name, _shortened(value)) for name, value in node.attrs.items()]


def readable(array: Any) -> str:
    """Whether batches can be made of the array."""
    return "yes" if array.supported else f"no: {array.why_not or ''}"


def _shortened(value: object) -> str:
    import json  # loads slowly, and `import damacy` does not need it

    text = json.dumps(value)
    return text if len(text) <= ATTRIBUTE_CHARACTERS else f"{text[:ATTRIBUTE_CHARACTERS]}… (--json has all of it)"


def extents(shape: tuple[int, ...]) -> str:
    """
    >>> extents((8, 20)), extents(())
    ('8 × 20', '0-d')
    """
    return " × ".join(map(str, shape)) or "0-d"


def as_json(array: Any) -> dict[str, Any]:
    """All that is known of an array or image, as values that JSON can hold."""
    found = {field.name: getattr(array, field.name) for field in dataclasses.fields(ArrayInfo)}
    found["cf"] = None if array.cf is None else dataclasses.asdict(array.cf)
    found["fill_value"] = None if array.fill_value is None else array.fill_value.item()
    found["units"] = array.units
    try:
        found |= {"scale": array.scale, "translation": array.translation}
    except DamacyError as error:
        found["scale_problem"] = f"{error.pointer}: {error.message}"
    if hasattr(array, "channels"):
        found |= {
            "version": array.version,
            "axes": [dataclasses.asdict(axis) for axis in array.axes],
            "channels": [dataclasses.asdict(channel) for channel in array.channels],
            "problems": array.problems,
        }
        try:
            found["labels"] = tuple(array.labels)
        except DamacyError as error:
            found["labels_problem"] = error.message
    values: dict[str, Any] = in_json(found)
    return values
