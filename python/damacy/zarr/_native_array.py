"""Decides whether the native reader can read an array, and converts the array's metadata for it. Knows metadata objects
of zarr-python; reads no store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

_HOMES = ("zarr.", "numcodecs.")


def codecs_of(metadata: Any) -> Iterator[Any]:
    """All codec objects, including those inside shards."""
    if metadata.zarr_format == 2:
        yield from metadata.filters or ()
        if metadata.compressor is not None:
            yield metadata.compressor
        return
    waiting = list(metadata.codecs)
    while waiting:
        codec = waiting.pop()
        yield codec
        if hasattr(codec, "index_codecs"):
            waiting += [*codec.codecs, *codec.index_codecs]


def _neutral_fill(data_type: Any) -> Any:
    """A valid fill value for the document. Each read passes the real one as bytes; JSON cannot hold all bits."""
    name = data_type if isinstance(data_type, str) else data_type.get("name", "")
    if name == "bool":
        return False
    return [0.0, 0.0] if name.startswith("complex") else 0


def document_of(metadata: Any) -> bytes:
    """The array's document for the native parser, without attributes, which can be large."""
    from zarr.core.buffer import cpu

    documents = metadata.to_buffer_dict(cpu.buffer_prototype)
    document = json.loads(documents["zarr.json" if metadata.zarr_format == 3 else ".zarray"].to_bytes())
    document.pop("attributes", None)
    document["fill_value"] = None if metadata.zarr_format == 2 else _neutral_fill(document["data_type"])
    return json.dumps(document).encode()


def dtype_of(metadata: Any) -> np.dtype[Any]:
    """The element type in this machine's byte order."""
    data_type = metadata.dtype if metadata.zarr_format == 2 else metadata.data_type
    stored: np.dtype[Any] = np.dtype(data_type.to_native_dtype())
    return stored.newbyteorder("=")


def _why_not(codec: Any) -> str | None:
    """Why a codec object cannot be read natively whatever its name: its class is neither zarr's nor damacy's."""
    kind = type(codec)
    if kind.__module__.startswith(_HOMES):
        return None
    return f"the codec class {kind.__module__}.{kind.__qualname__} is neither zarr's nor damacy's"


def native_array(metadata: Any, uri: str) -> tuple[Any, str | None]:
    """The native array and None; or None and the reason why the array cannot be read natively."""
    from damacy import DamacyError, _native

    reason = next(filter(None, map(_why_not, codecs_of(metadata))), None)
    if reason is not None:
        return None, reason
    try:
        array = _native.stored_array(uri, document_of(metadata), metadata.zarr_format)
        dtype = dtype_of(metadata)
    except DamacyError as error:
        return None, error.message
    except Exception as error:  # metadata of an unknown form: zarr's own pipeline reads the array or refuses it
        return None, f"{type(error).__name__}: {error}"
    if dtype.itemsize != array.itemsize or dtype.hasobject:
        return None, f"elements of type {dtype}"
    return array, None


def fill_bytes(spec: Any) -> bytes:
    """The bytes of the fill value, in this machine's byte order."""
    fill = spec.dtype.default_scalar() if spec.fill_value is None else spec.fill_value
    return np.asarray(fill, np.dtype(spec.dtype.to_native_dtype()).newbyteorder("=")).tobytes()
