"""Arrays written by three independent writers: zarr-python, tensorstore, and by hand over numcodecs.

Each takes a `Layout` and the whole array; objects that hold nothing but the fill are left out. `Writer.can` says what a
writer has no way to express. Damacy is not imported here.
"""

import dataclasses
import json
import pathlib
import random
from collections.abc import Callable

import google_crc32c
import numcodecs
import numcodecs.blosc
import numpy as np

try:  # machines that only test may lack the others: what is written by hand needs neither
    import tensorstore
    import zarr
    import zarr.codecs
    import zarr.codecs.numcodecs
except ImportError:
    tensorstore = zarr = None

from support.element_types import as_bits, bits_type, numpy_type, size_of
from support.layout import LEVEL_OPTIONS, Layout, document_v2, document_v3, fill_to_json

numcodecs.blosc.use_threads = False


@dataclasses.dataclass(frozen=True)
class Writer:
    name: str
    can: Callable[[Layout], bool]
    write: Callable[[Layout, np.ndarray, pathlib.Path], None]
    read: Callable[[pathlib.Path, Layout], np.ndarray] | None  # its own reader


# --- by hand ---------------------------------------------------------------------------------------------------------


def write_by_hand(layout: Layout, data: np.ndarray, path: pathlib.Path, *, seed: int = 0, gap: bytes = b"") -> None:
    """`seed` other than 0 shuffles the payload of shards; `gap` is dead space before each inner chunk."""
    path = pathlib.Path(path)
    path.mkdir(parents=True)
    name, document = (".zarray", document_v2(layout)) if layout.zarr_format == 2 else ("zarr.json", document_v3(layout))
    (path / name).write_text(json.dumps(document))
    bits = as_bits(data, layout.dtype)
    for index in layout.object_indices():
        block = _cut(bits, index, layout.object_shape, layout.fill_bits)
        encode = _encode_shard if layout.shards else _encode_chunk
        if (block != layout.fill_bits).any():
            target = path / layout.key(index)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(encode(layout, block, seed, gap))


def _cut(bits: np.ndarray, index, shape, fill) -> np.ndarray:
    block = np.full(shape, fill, bits.dtype)
    part = bits[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, shape))]
    block[tuple(slice(0, n) for n in part.shape)] = part
    return block


def _encode_chunk(layout: Layout, block: np.ndarray, _seed: int = 0, _gap: bytes = b"") -> bytes:
    if layout.order:
        block = block.transpose(layout.order)
    raw = block.astype(block.dtype.newbyteorder("<" if layout.endian == "little" else ">")).tobytes("C")
    raw = apply_filters(layout.filters, raw)
    if layout.compressor:
        raw = compress(layout.compressor, raw, size_of(layout.dtype))
    if layout.crc32c:
        raw += google_crc32c.value(raw).to_bytes(4, "little")
    return apply_filters(layout.checksums, raw)


def apply_filters(filters, raw: bytes) -> bytes:
    for options in filters:
        raw = np.asarray(numcodecs.get_codec(options).encode(np.frombuffer(raw, np.uint8))).tobytes()
    return raw


def compress(compressor, raw: bytes, element_size: int) -> bytes:
    c = compressor
    if c.id == "blosc":
        source = np.frombuffer(raw, np.uint8)
        return numcodecs.blosc.compress(
            source, c.cname.encode(), c.level, c.shuffle, c.blocksize, c.typesize or element_size
        )
    options = {LEVEL_OPTIONS.get(c.id, "level"): c.level}
    return bytes(numcodecs.get_codec({"id": c.id, **options}).encode(raw))


def _encode_shard(layout: Layout, block: np.ndarray, seed: int, gap: bytes, level: int = 0) -> bytes:
    shard, inner_shape, index_location = layout.shard_levels[level]
    is_innermost = level + 1 == len(layout.shard_levels)
    grid = tuple(s // c for s, c in zip(shard, inner_shape))
    entries = np.full((*grid, 2), 2**64 - 1, "<u8")
    index_bytes = entries.nbytes + 4 * layout.index_crc32c
    payload, base = b"", index_bytes if index_location == "start" else 0
    indices = list(np.ndindex(*grid))
    random.Random(seed).shuffle(indices) if seed else None
    for index in indices:
        inner = _cut(block, index, inner_shape, layout.fill_bits)
        if (inner != layout.fill_bits).any():
            encoded = (
                _encode_chunk(layout, inner) if is_innermost else _encode_shard(layout, inner, seed, gap, level + 1)
            )
            payload += gap
            entries[index] = base + len(payload), len(encoded)
            payload += encoded
    packed = entries.tobytes()
    if layout.index_crc32c:
        packed += google_crc32c.value(packed).to_bytes(4, "little")
    whole = packed + payload if index_location == "start" else payload + packed
    return _encode_whole_shard(layout, whole) if level == 0 else whole


def _encode_whole_shard(layout: Layout, whole: bytes) -> bytes:
    """What codecs behind the outermost sharding codec make of it."""
    if layout.shard_compressor:
        whole = compress(layout.shard_compressor, whole, 1)
    return whole + google_crc32c.value(whole).to_bytes(4, "little") if layout.shard_crc32c else whole


# --- zarr-python -----------------------------------------------------------------------------------------------------


def write_with_zarr(layout: Layout, data: np.ndarray, path: pathlib.Path) -> None:
    v2 = layout.zarr_format == 2
    kind = numpy_type(layout.dtype).newbyteorder("<" if layout.endian == "little" else ">")
    shards = {"shape": layout.shards, "index_location": layout.index_location} if layout.shards else None
    options = {"order": "F" if layout.order else "C"} if v2 else _zarr_v3_options(layout)
    fill = layout.fill_array()
    usual = {"chunks": layout.chunks, "shards": shards, "compressors": _zarr_compressors(layout)}
    usual["filters"] = [numcodecs.get_codec(f) for f in layout.filters] or None
    array = zarr.create_array(
        store=str(path),
        shape=layout.shape,
        dtype=kind,
        zarr_format=layout.zarr_format,
        fill_value=fill.astype(kind)[()],
        chunk_key_encoding={"name": "v2" if v2 else layout.key_encoding, "separator": layout.separator},
        config={"write_empty_chunks": bool(np.isnan(fill))},  # else it takes any NaN for the fill, whatever its payload
        **{**usual, **options},
    )
    array[...] = data


def _zarr_v3_options(layout: Layout) -> dict:
    filters = [zarr.codecs.TransposeCodec(order=layout.order)] if layout.order else None
    endian = layout.endian if size_of(layout.dtype) > 1 else None
    serializer = zarr.codecs.BytesCodec(endian=endian)
    if not (layout.inner_shards or layout.encodes_shards):
        return {"filters": filters, "serializer": serializer}
    codecs = [*(filters or []), serializer, *(_zarr_compressors(layout) or [])]
    index_codecs = [zarr.codecs.BytesCodec(), zarr.codecs.Crc32cCodec()]
    for _, inner, location in reversed(layout.shard_levels):
        sharding = zarr.codecs.ShardingCodec(
            chunk_shape=inner, codecs=codecs, index_codecs=index_codecs, index_location=location
        )
        codecs = [sharding]
    after = dataclasses.replace(layout, compressor=layout.shard_compressor, crc32c=layout.shard_crc32c, dtype="uint8")
    whole = {"chunks": layout.shards, "shards": None, "compressors": _zarr_compressors(after)}
    return {"filters": None, "serializer": codecs[0], **whole}


def _zarr_compressors(layout: Layout):
    c = layout.compressor
    if layout.zarr_format == 2:
        return None if c is None else numcodecs.get_codec(document_v2(layout)["compressor"])
    codecs = []
    if c and c.id == "zstd":
        codecs.append(zarr.codecs.ZstdCodec(level=c.level))
    elif c and c.id == "gzip":
        codecs.append(zarr.codecs.GzipCodec(level=c.level))
    elif c and c.id == "blosc":
        shuffle = ("noshuffle", "shuffle", "bitshuffle")[c.shuffle]
        typesize = c.typesize or size_of(layout.dtype)
        options = {
            "cname": c.cname,
            "clevel": c.level,
            "shuffle": shuffle,
            "typesize": typesize,
            "blocksize": c.blocksize,
        }
        codecs.append(zarr.codecs.BloscCodec(**options))
    elif c and c.id == "zlib":
        codecs.append(zarr.codecs.numcodecs.Zlib(level=c.level))
    elif c and c.id == "lz4":
        codecs.append(zarr.codecs.numcodecs.LZ4(acceleration=c.level))
    elif c and c.id == "bz2":
        codecs.append(zarr.codecs.numcodecs.BZ2(level=c.level))
    elif c and c.id == "lzma":
        codecs.append(zarr.codecs.numcodecs.LZMA(preset=c.level))
    return codecs + [zarr.codecs.Crc32cCodec()] * layout.crc32c or None


def _zarr_can(layout: Layout) -> bool:
    if layout.dtype == "bfloat16" or not layout.index_crc32c or layout.numcodecs_names:
        return False
    if _has_payload(layout) or 0 in layout.shape or layout.checksums:
        return False
    if layout.filters and (layout.zarr_format == 3 or layout.order):
        return False
    return layout.zarr_format == 3 or not (layout.crc32c or _typesize_is_free(layout))


def read_with_zarr(path: pathlib.Path, layout: Layout) -> np.ndarray:
    values = zarr.open_array(str(path), mode="r")[...]
    return np.asarray(values).astype(numpy_type(layout.dtype))


# --- tensorstore -----------------------------------------------------------------------------------------------------


def write_with_tensorstore(layout: Layout, data: np.ndarray, path: pathlib.Path) -> None:
    document = document_v2(layout) if layout.zarr_format == 2 else document_v3(layout)
    if layout.zarr_format == 3:
        document.pop("attributes")
    store = tensorstore.open(_tensorstore_spec(path, layout, document), create=True, open=False).result()
    store.write(np.ascontiguousarray(data).reshape(layout.shape)).result()


def read_with_tensorstore(path: pathlib.Path, layout: Layout) -> np.ndarray:
    return np.asarray(tensorstore.open(_tensorstore_spec(path, layout), open=True).result().read().result())


def _tensorstore_spec(path: pathlib.Path, layout: Layout, document: dict | None = None) -> dict:
    spec = {"driver": "zarr" if layout.zarr_format == 2 else "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return {**spec, "metadata": document} if document else spec


def _tensorstore_can(layout: Layout) -> bool:
    c = layout.compressor
    if layout.filters or layout.checksums:
        return False
    if c and c.id in ("lz4", "zlib", "bz2", "lzma") and (layout.zarr_format == 3 or c.id in ("lz4", "lzma")):
        return False
    if c and c.id == "gzip" and layout.zarr_format == 2:
        return False
    if layout.zarr_format == 2 and (layout.crc32c or _typesize_is_free(layout) or layout.dtype == "bfloat16"):
        return False
    return not (layout.numcodecs_names or layout.encodes_shards or _has_payload(layout))


def _typesize_is_free(layout: Layout) -> bool:
    return layout.compressor is not None and layout.compressor.typesize not in (None, size_of(layout.dtype))


def _has_payload(layout: Layout) -> bool:
    """A NaN fill that only hex digits can say."""
    text = fill_to_json(layout.fill_bits, layout.dtype)
    return isinstance(text, str) and text.startswith("0x")


BY_HAND = Writer("by-hand", lambda layout: True, write_by_hand, None)
ZARR = Writer("zarr-python", _zarr_can, write_with_zarr, read_with_zarr)
TENSORSTORE = Writer("tensorstore", _tensorstore_can, write_with_tensorstore, read_with_tensorstore)
ALL = (ZARR, TENSORSTORE, BY_HAND) if zarr and tensorstore else (BY_HAND,)


# --- groups ----------------------------------------------------------------------------------------------------------


def write_group(path: pathlib.Path, attributes: dict | None = None, *, zarr_format: int = 3, **members) -> None:
    """A group's own documents, by hand; `members` are further members of a v3 document."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    if zarr_format == 3:
        document = {"zarr_format": 3, "node_type": "group", "attributes": attributes or {}, **members}
        (path / "zarr.json").write_text(json.dumps(document))
        return
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    if attributes is not None:
        (path / ".zattrs").write_text(json.dumps(attributes))


def multiscales(*paths: str, version: str = "0.5") -> dict:
    """NGFF attributes of an image with these levels."""
    image = {"version": version, "datasets": [{"path": p} for p in paths]}
    return {"ome": {"version": version, "multiscales": [image]}} if version == "0.5" else {"multiscales": [image]}


def empty_bits(layout: Layout) -> np.ndarray:
    return np.full(layout.shape, layout.fill_bits, bits_type(layout.dtype))
