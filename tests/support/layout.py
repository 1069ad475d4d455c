"""How an array is to be stored: the input of every writer, and the metadata documents that follow.

Knows the formats. Does not write files (`writers.py`), does not read them (`naive_reader.py`).
"""

import dataclasses
import math
from typing import Any

import numpy as np

from support.element_types import bits_type, from_bits, size_of, v2_name

FORMATS_BITS = {
    "float16": (10, 0x7C00),
    "bfloat16": (7, 0x7F80),
    "float32": (23, 0x7F800000),
    "float64": (52, 0x7FF << 52),
}


# What codecs call the level, where it is not "level".
LEVEL_OPTIONS = {"lz4": "acceleration", "lzma": "preset"}


@dataclasses.dataclass(frozen=True)
class Compressor:
    id: str  # zstd blosc gzip zlib lz4 bz2 lzma
    level: int = 1
    cname: str = "lz4"  # the rest: blosc only
    shuffle: int = 1  # 0 none, 1 byte, 2 bit
    typesize: int | None = None  # None: the element's
    blocksize: int = 0

    def __str__(self) -> str:
        if self.id != "blosc":
            return f"{self.id}{self.level}"
        shuffle = ("none", "byte", "bit")[self.shuffle]
        return f"blosc-{self.cname}{self.level}-{shuffle}-t{self.typesize or 0}-b{self.blocksize}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    shape: tuple[int, ...]
    chunks: tuple[int, ...]  # the inner chunk of a sharded array
    dtype: str
    shards: tuple[int, ...] | None = None
    zarr_format: int = 3
    compressor: Compressor | None = None
    crc32c: bool = False  # on data, behind the compressor
    order: tuple[int, ...] | None = None  # v3: transpose on the (inner) chunk; v2: only the reversal, written as "F"
    endian: str = "little"
    key_encoding: str = "default"  # v3: default, v2
    separator: str = "/"
    index_location: str = "end"
    index_crc32c: bool = True
    filters: tuple[dict, ...] = ()  # numcodecs configurations: v2 filters; v3 codecs between bytes and the compressor
    checksums: tuple[dict, ...] = ()  # the same, behind all others; v3 only
    inner_shards: tuple[tuple[int, ...], ...] = ()  # shards in shards, between `shards` and `chunks`, outermost first
    inner_index_location: str = "end"
    shard_compressor: Compressor | None = None  # behind the outermost sharding: of the whole object
    shard_crc32c: bool = False
    fill_bits: int = 0
    numcodecs_names: bool = False  # "numcodecs.zstd" in place of "zstd"

    @property
    def object_shape(self) -> tuple[int, ...]:
        """What one store object holds: a shard, or a chunk."""
        return self.shards or self.chunks

    def __str__(self) -> str:
        parts = [f"v{self.zarr_format}", self.dtype, "x".join(map(str, self.shape)) or "0d"]
        parts += ["c" + "x".join(map(str, self.chunks))] + (
            ["s" + "x".join(map(str, self.shards))] if self.shards else []
        )
        parts += [f"{f['id']}({','.join(str(v) for k, v in f.items() if k != 'id')})" for f in self.filters]
        parts += (
            [str(self.compressor or "raw"), *(f["id"] for f in self.checksums)]
            + ["crc"] * self.crc32c
            + [f"T{self.order}"] * bool(self.order)
        )
        parts += [self.endian[:1], self.key_encoding, self.separator, f"fill{self.fill_bits:x}"]
        parts += ["in" + "x".join(map(str, inner)) + "-" + self.inner_index_location for inner in self.inner_shards]
        parts += [f"then-{self.shard_compressor or ''}{'-crc' * self.shard_crc32c}"] * self.encodes_shards
        parts += [f"index-{self.index_location}{'' if self.index_crc32c else '-nocrc'}"] * bool(self.shards)
        return " ".join(parts)

    @property
    def shard_levels(self) -> list[tuple[tuple[int, ...], tuple[int, ...], str]]:
        """(shard, what lies in it, where its index is), outermost first."""
        shapes = [*([self.shards] if self.shards else []), *self.inner_shards, self.chunks]
        places = [self.index_location, *[self.inner_index_location] * len(self.inner_shards)]
        return list(zip(shapes, shapes[1:], places))

    @property
    def encodes_shards(self) -> bool:
        return bool(self.shards) and (self.shard_compressor is not None or self.shard_crc32c)

    def fill_array(self, shape: tuple[int, ...] = ()) -> np.ndarray:
        return from_bits(np.full(shape, self.fill_bits, bits_type(self.dtype)), self.dtype)

    def key(self, index: tuple[int, ...]) -> str:
        """The store key of an object of the outer grid."""
        parts = ["c"] if self.zarr_format == 3 and self.key_encoding == "default" else []
        return self.separator.join([*parts, *map(str, index)]) or "0"

    def object_indices(self):
        return np.ndindex(*(math.ceil(s / c) for s, c in zip(self.shape, self.object_shape)))


def fill_to_json(bits: int, dtype: str) -> Any:
    """The plainest text that means exactly these bits."""
    if dtype == "bool":
        return bool(bits)
    value = from_bits(np.array(bits, bits_type(dtype)), dtype)
    if dtype not in FORMATS_BITS:
        return int(value)
    fraction_bits, infinity = FORMATS_BITS[dtype]
    magnitude = bits & ((1 << (8 * size_of(dtype) - 1)) - 1)
    if bits == infinity | 1 << (fraction_bits - 1):
        return "NaN"
    if magnitude > infinity:
        return f"0x{bits:0{2 * size_of(dtype)}x}"
    if magnitude == infinity:
        return "Infinity" if magnitude == bits else "-Infinity"
    return float(value)


def document_v3(layout: Layout) -> dict:
    codecs = inner_codecs_v3(layout)
    index_codecs = [_named("bytes", endian="little")] + [_named("crc32c")] * layout.index_crc32c
    for _, inner, index_location in reversed(layout.shard_levels):
        sharding = _named(
            "sharding_indexed",
            chunk_shape=list(inner),
            codecs=codecs,
            index_codecs=index_codecs,
            index_location=index_location,
        )
        codecs = [sharding]
    if layout.shards and layout.shard_compressor:
        codecs.append(_compressor_v3(layout, layout.shard_compressor, 1))
    if layout.shards and layout.shard_crc32c:
        codecs.append(_named("crc32c"))
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(layout.shape),
        "data_type": layout.dtype,
        "chunk_grid": _named("regular", chunk_shape=list(layout.object_shape)),
        "chunk_key_encoding": _named(layout.key_encoding, separator=layout.separator),
        "codecs": codecs,
        "fill_value": fill_to_json(layout.fill_bits, layout.dtype),
        "attributes": {},
    }


def inner_codecs_v3(layout: Layout) -> list[dict]:
    codecs = [_named("transpose", order=list(layout.order))] if layout.order else []
    codecs.append(_named("bytes", endian=layout.endian) if size_of(layout.dtype) > 1 else _named("bytes"))
    codecs += [_numcodecs_v3(f) for f in layout.filters]
    if layout.compressor:
        codecs.append(_compressor_v3(layout, layout.compressor, size_of(layout.dtype)))
    if layout.crc32c:
        codecs.append(_named("numcodecs.crc32c" if layout.numcodecs_names else "crc32c"))
    return codecs + [_numcodecs_v3(f) for f in layout.checksums]


def _numcodecs_v3(options: dict) -> dict:
    return _named("numcodecs." + options["id"], **{k: v for k, v in options.items() if k != "id"})


def _compressor_v3(layout: Layout, c: Compressor, element_size: int) -> dict:
    prefix = "numcodecs." if layout.numcodecs_names or c.id in ("zlib", "lz4", "bz2", "lzma") else ""
    if c.id == "zstd":
        return _named(prefix + "zstd", level=c.level, checksum=False)
    if c.id == "blosc":
        shuffle = ("noshuffle", "shuffle", "bitshuffle")[c.shuffle]
        typesize = c.typesize or element_size
        options = {
            "cname": c.cname,
            "clevel": c.level,
            "shuffle": shuffle,
            "typesize": typesize,
            "blocksize": c.blocksize,
        }
        return _named(prefix + "blosc", **options)
    return _named(prefix + c.id, **{LEVEL_OPTIONS.get(c.id, "level"): c.level})


def document_v2(layout: Layout) -> dict:
    assert layout.order in (None, tuple(reversed(range(len(layout.shape))))) and not layout.shards
    return {
        "zarr_format": 2,
        "shape": list(layout.shape),
        "chunks": list(layout.chunks),
        "dtype": v2_name(layout.dtype, layout.endian),
        "compressor": _compressor_v2(layout.compressor),
        "filters": list(layout.filters) or None,
        "fill_value": fill_to_json(layout.fill_bits, layout.dtype),
        "order": "F" if layout.order else "C",
        "dimension_separator": layout.separator,
    }


def _compressor_v2(c: Compressor | None) -> dict | None:
    if c is None:
        return None
    if c.id == "blosc":
        return {"id": "blosc", "cname": c.cname, "clevel": c.level, "shuffle": c.shuffle, "blocksize": c.blocksize}
    return {"id": c.id, LEVEL_OPTIONS.get(c.id, "level"): c.level}


def _named(name: str, **configuration) -> dict:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}
