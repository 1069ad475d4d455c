"""A zarr array read the plain way, for comparison: JSON, numcodecs, one chunk at a time. Shares no code with damacy.

Knows v2 and v3, sharding (either end, nested), every codec the first release reads. Checks checksums, little else.
"""

import json
import math
import pathlib

import google_crc32c
import numcodecs
import numpy as np

from support.element_types import bits_type, numpy_type, size_of

MISSING = 2**64 - 1
FILTERS = (
    "crc32",
    "adler32",
    "fletcher32",
    "jenkins_lookup3",
    "lzma",
    "packbits",
    "shuffle",
    "delta",
    "fixedscaleoffset",
    "quantize",
    "astype",
    "bitround",
)


def read(path) -> np.ndarray:
    """The whole array as native elements, NaN payloads kept."""
    root = pathlib.Path(path)
    v3 = (root / "zarr.json").exists()
    meta = _from_v3(json.loads((root / "zarr.json").read_text())) if v3 else _from_v2(root)
    shape, chunk, key, type_name, fill, codecs = meta
    out = np.full(shape, fill, bits_type(type_name))
    for index in np.ndindex(*(math.ceil(s / c) for s, c in zip(shape, chunk))):
        if (root / key(index)).exists():
            raw = (root / key(index)).read_bytes()
            _place(out, index, chunk, _decode(raw, codecs, chunk, type_name, fill))
    return out.view(numpy_type(type_name))


def _place(out, index, chunk, values):
    inside = tuple(slice(i * c, min((i + 1) * c, s)) for i, c, s in zip(index, chunk, out.shape))
    out[inside] = values[tuple(slice(0, s.stop - s.start) for s in inside)]


def _decode(raw, codecs, shape, type_name, fill):
    orders = [_order(c, len(shape)) for c in codecs if c["name"] == "transpose"]
    encoded_shape = shape
    for order in orders:
        encoded_shape = tuple(encoded_shape[k] for k in order)
    for codec in reversed([c for c in codecs if c["name"] != "transpose"]):
        name, options = codec["name"].removeprefix("numcodecs."), codec.get("configuration", {})
        if name in FILTERS:
            codec = {**codec, "filter": options}
        if name == "sharding_indexed":
            values = _shard(raw, options, encoded_shape, type_name, fill)
        elif name == "bytes":
            little = options.get("endian", "little") == "little"
            stored = bits_type(type_name).newbyteorder("<" if little else ">")
            values = np.frombuffer(raw, stored).astype(bits_type(type_name)).reshape(encoded_shape)
        elif name == "crc32c":
            raw, stored_sum = raw[:-4], int.from_bytes(raw[-4:], "little")
            assert google_crc32c.value(raw) == stored_sum
        else:
            raw = np.asarray(numcodecs.get_codec({"id": name, **codec.get("filter", {})}).decode(raw)).tobytes()
    for order in reversed(orders):
        values = values.transpose(np.argsort(order))
    return values


def _shard(raw, options, shape, type_name, fill):
    inner = tuple(options["chunk_shape"])
    grid = tuple(s // c for s, c in zip(shape, inner))
    index_bytes = 16 * math.prod(grid) + 4 * sum(c["name"] == "crc32c" for c in options["index_codecs"])
    at_start = options.get("index_location", "end") == "start"
    packed = raw[:index_bytes] if at_start else raw[len(raw) - index_bytes :]
    entries = _decode(packed, options["index_codecs"], (*grid, 2), "uint64", 0)
    values = np.full(shape, fill, bits_type(type_name))
    for index in np.ndindex(*grid):
        offset, size = (int(v) for v in entries[index])
        if (offset, size) != (MISSING, MISSING):
            _place(
                values, index, inner, _decode(raw[offset : offset + size], options["codecs"], inner, type_name, fill)
            )
    return values


def _from_v3(meta):
    name = meta["data_type"]
    codecs = [c if isinstance(c, dict) else {"name": c} for c in meta["codecs"]]
    encoding = meta["chunk_key_encoding"]
    default = encoding["name"] == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if default else ".")
    parts = ["c"] if default else []
    shape, chunk = tuple(meta["shape"]), tuple(meta["chunk_grid"]["configuration"]["chunk_shape"])
    return shape, chunk, lambda i: separator.join([*parts, *map(str, i)]) or "0", name, _fill(meta, name), codecs


def _from_v2(root):
    meta = json.loads((root / ".zarray").read_text())
    name = np.dtype(meta["dtype"]).name
    codecs = [{"name": "transpose", "configuration": {"order": "F"}}] if meta["order"] == "F" else []
    codecs.append({"name": "bytes", "configuration": {"endian": "big" if meta["dtype"][0] == ">" else "little"}})
    for one in meta["filters"] or []:
        codecs.append({"name": one["id"], "configuration": {k: v for k, v in one.items() if k != "id"}})
    if meta["compressor"]:
        codecs.append({"name": meta["compressor"]["id"]})
    separator = meta.get("dimension_separator") or "."
    shape, chunk = tuple(meta["shape"]), tuple(meta["chunks"])
    return shape, chunk, lambda i: separator.join(map(str, i)) or "0", name, _fill(meta, name), codecs


def _order(codec, rank):
    order = codec["configuration"]["order"]
    return {"C": tuple(range(rank)), "F": tuple(reversed(range(rank)))}.get(order) if isinstance(order, str) else order


def _fill(meta, name):
    """The fill's bits as one integer."""
    value = meta["fill_value"]
    if isinstance(value, str) and value.startswith("0x"):
        return int(value, 16)
    typed = np.array(0 if value is None else float(value) if isinstance(value, str) else value).astype(numpy_type(name))
    if value == "NaN":  # the format's NaN: quiet, positive, no payload
        return {2: 0x7FC0 if name == "bfloat16" else 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}[size_of(name)]
    return int(typed.view(bits_type(name)))
