"""Writes the arrays of a scenario as zarr v3, without zarr-python. Each of many processes computes a volume once and
encodes it with every codec that is missing.

Knows the v3 metadata, the shard layout (Morton order, index at the end, crc32c) and the cache of finished arrays. Gets
a list of arrays; does not know scenarios.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from bench import content
from bench.workload import ArraySpec, Codec, Shape

_DONE = "written.json"  # in the folder of a finished array: its description, and the digest of its raw values


def prepare(
    arrays: Iterable[ArraySpec], on_volume: Callable[[int, int], None] = lambda done, total: None
) -> list[dict]:
    """Writes the arrays that are missing; returns each array's record, in the order of `arrays`."""
    arrays = list(arrays)
    by_volume: dict[tuple, list[ArraySpec]] = {}
    for array in dict.fromkeys(arrays):
        if not (array.path / _DONE).exists():
            by_volume.setdefault(array.volume, []).append(array)
    jobs = sorted(by_volume.values(), key=_effort, reverse=True)  # longest first, so that all processes end together
    on_volume(0, len(jobs))
    if jobs:
        spawn = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(min(len(jobs), _worker_count()), spawn) as pool:
            written = [pool.submit(_write_volume, job) for job in jobs]
            for done, job in enumerate(concurrent.futures.as_completed(written), start=1):
                job.result()
                on_volume(done, len(jobs))
    return [json.loads((array.path / _DONE).read_text()) for array in arrays]


def _effort(arrays: list[ArraySpec]) -> int:
    making = {"micro": 4, "climate": 2}.get(arrays[0].content, 1)
    return math.prod(arrays[0].shape) * (making + len(arrays))


def _worker_count() -> int:
    # Does not use the amount of free memory: a virtual machine may report little at first and grow later.
    return max(1, min(len(os.sched_getaffinity(0)), 48))


def _write_volume(arrays: list[ArraySpec]) -> None:
    values = content.make(*arrays[0].volume)
    digest = hashlib.sha256(values).hexdigest()
    known = content.KNOWN_DIGESTS.get(arrays[0].volume)
    if known not in (None, digest) and arrays[0].content == "e50":
        raise RuntimeError(f"raw values of {arrays[0].volume} have SHA-256 {digest}, not {known}")
    for array in arrays:
        write_array(array, values, digest, digest_known=known == digest)


def write_array(array: ArraySpec, values: np.ndarray, digest: str = "", digest_known: bool = False) -> None:
    """Writes under a temporary name and renames, so that an existing folder is complete."""
    partial = array.path.with_name(f"{array.path.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "zarr.json").write_text(json.dumps(metadata(array), indent=1))
    encode = encoder(array.codec)
    write = _write_plain if array.shard is None else _write_shards
    stored = write(partial / "c", array, values, encode)
    record = {"sha256": digest, "sha256_known": digest_known, "raw_bytes": values.nbytes, "stored_bytes": stored}
    (partial / _DONE).write_text(json.dumps(record | {"spec": dataclasses.asdict(array)}, indent=1))
    shutil.rmtree(array.path, ignore_errors=True)
    partial.rename(array.path)


def metadata(array: ArraySpec) -> dict:
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    codecs = [little, codec_metadata(array.codec, array.dtype)]
    if array.shard is not None:
        sharding = {
            "chunk_shape": array.chunk,
            "codecs": codecs,
            "index_codecs": [little, {"name": "crc32c"}],
            "index_location": "end",
        }
        codecs = [{"name": "sharding_indexed", "configuration": sharding}]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": array.shape,
        "data_type": array.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.shard or array.chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "attributes": {},
    }


def codec_metadata(codec: Codec, dtype: str) -> dict:
    if codec.kind == "zstd":
        return {"name": "zstd", "configuration": {"level": codec.level, "checksum": False}}
    settings = {"typesize": np.dtype(dtype).itemsize, "cname": codec.cname, "clevel": codec.level}
    return {"name": "blosc", "configuration": settings | {"shuffle": codec.shuffle, "blocksize": 0}}


def encoder(codec: Codec) -> Callable[[np.ndarray], bytes]:
    if codec.kind == "zstd":
        from numcodecs.zstd import Zstd

        return Zstd(level=codec.level).encode
    from numcodecs import blosc

    blosc.use_threads = False
    shuffle = ("noshuffle", "shuffle", "bitshuffle").index(codec.shuffle)
    return blosc.Blosc(codec.cname, codec.level, shuffle).encode


def _write_plain(root: Path, array: ArraySpec, values: np.ndarray, encode: Callable) -> int:
    stored = 0
    for cell in grid(array.shape, array.chunk):
        packed = encode(_cut(values, cell, array.chunk))
        _write_object(root, cell, [packed])
        stored += len(packed)
    return stored


def _write_shards(root: Path, array: ArraySpec, values: np.ndarray, encode: Callable) -> int:
    assert array.shard is not None
    per_shard = tuple(s // c for s, c in zip(array.shard, array.chunk))
    order = morton_order(per_shard)
    stored = 0
    for cell in grid(array.shape, array.shard):
        block = _cut(values, cell, array.shard)
        parts = []
        offset = 0
        index = np.empty((*per_shard, 2), "<u8")
        for inner in order:
            packed = encode(_cut(block, inner, array.chunk))
            parts.append(packed)
            index[inner] = offset, len(packed)
            offset += len(packed)
        raw_index = index.tobytes()
        _write_object(root, cell, [*parts, raw_index, struct.pack("<I", crc32c(raw_index))])
        stored += offset
    return stored


def _cut(values: np.ndarray, cell: Shape, shape: Shape) -> np.ndarray:
    """One cell of a grid, contiguous, padded with zeros beyond the array's edge."""
    part = values[tuple(slice(c * n, (c + 1) * n) for c, n in zip(cell, shape))]
    if part.shape != shape:
        part = np.pad(part, [(0, n - have) for n, have in zip(shape, part.shape)])
    return np.ascontiguousarray(part)


def _write_object(root: Path, cell: Shape, parts: list[bytes]) -> None:
    path = root.joinpath(*map(str, cell))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        out.writelines(parts)


def grid(shape: Shape, cell: Shape) -> Iterator[Shape]:
    return itertools.product(*(range(-(-size // length)) for size, length in zip(shape, cell)))


def morton_order(dims: Shape) -> list[Shape]:
    """All cells of a grid along the Z curve: the first axis has the lowest bit; axes without more bits are skipped."""
    bits = [(n - 1).bit_length() for n in dims]
    turns = [(axis, bit) for bit in range(max(bits, default=0)) for axis in range(len(dims)) if bit < bits[axis]]

    def cell(code: int) -> Shape:
        position = [0] * len(dims)
        for k, (axis, bit) in enumerate(turns):
            position[axis] |= (code >> k & 1) << bit
        return tuple(position)

    cells = map(cell, range(1 << len(turns)))
    return [c for c in cells if all(x < n for x, n in zip(c, dims))]


def crc32c(data: bytes) -> int:
    try:
        import google_crc32c
    except ImportError:
        return slow_crc32c(data)
    return google_crc32c.value(data)


def slow_crc32c(data: bytes) -> int:
    """Byte by byte, for shard indices if no package is installed."""
    table = _crc32c_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@functools.cache
def _crc32c_table() -> list[int]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        return value

    return [entry(i) for i in range(256)]


# --- finding stored chunks, for the ceilings ---


@dataclasses.dataclass(frozen=True)
class StoredChunk:
    """The position of one chunk's encoded bytes."""

    path: Path
    offset: int
    size: int


class ChunkFinder:
    """Finds chunks of one array; reads each shard's index once."""

    def __init__(self, array: ArraySpec) -> None:
        self._array = array
        self._indices: dict[Shape, np.ndarray] = {}

    def find(self, cell: Shape) -> StoredChunk:
        array = self._array
        if array.shard is None:
            path = self._object(cell)
            return StoredChunk(path, 0, path.stat().st_size)
        per_shard = tuple(s // c for s, c in zip(array.shard, array.chunk))
        shard = tuple(c // n for c, n in zip(cell, per_shard))
        if shard not in self._indices:
            self._indices[shard] = self._read_index(self._object(shard), per_shard)
        offset, size = self._indices[shard][tuple(c % n for c, n in zip(cell, per_shard))]
        return StoredChunk(self._object(shard), int(offset), int(size))

    def _object(self, cell: Shape) -> Path:
        return self._array.path.joinpath("c", *map(str, cell))

    def _read_index(self, path: Path, per_shard: Shape) -> np.ndarray:
        index_bytes = 16 * math.prod(per_shard)
        with open(path, "rb") as file:
            file.seek(-index_bytes - 4, os.SEEK_END)
            return np.frombuffer(file.read(index_bytes), "<u8").reshape(*per_shard, 2)
