"""The named scenarios: arrays, crops, and their reduced sizes.

Knows shapes, codecs, the crop stream and the folders of data sets. Does not know how content is computed (content.py),
written (writer.py) or read (peers.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

Shape = tuple[int, ...]
Crop = tuple[int, tuple[tuple[int, int], ...]]  # which array, then (start, stop) of every axis

SIZES = ("tiny", "small", "full")
ITEM_BYTES = {"uint16": 2, "float32": 4}
_WRITER_VERSION = 1  # part of every content key: increment it when the same description gives other bytes

_ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Codec:
    """How a chunk is compressed: by zstd, or by blosc with a compressor inside."""

    kind: str  # "zstd" or "blosc"
    level: int
    cname: str = ""
    shuffle: str = "noshuffle"  # as in zarr v3: noshuffle, shuffle, bitshuffle

    @property
    def label(self) -> str:
        return f"{self.kind}-{self.cname}" if self.cname else self.kind


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """The description of one array on disk. Scenarios with the same description share its files."""

    content: str  # e50, micro or climate
    seed: int  # which volume of that content
    shape: Shape
    chunk: Shape
    shard: Shape | None
    dtype: str
    codec: Codec

    @property
    def volume(self) -> tuple[str, int, Shape]:
        """Determines the raw values: arrays with the same volume differ only in compression and layout."""
        return self.content, self.seed, self.shape

    @property
    def key(self) -> str:
        described = json.dumps([_WRITER_VERSION, dataclasses.asdict(self)], sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        return f"{self.content}-{self.seed}-{self.codec.label}-{digest}"

    @property
    def path(self) -> Path:
        return data_root() / self.key

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * ITEM_BYTES[self.dtype]


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One row of the table: arrays, and the crops that are drawn from them."""

    name: str
    n_arrays: int
    shape: Shape
    content: str
    chunk: Shape
    shard: Shape | None
    codec: Codec
    crop: Shape
    batch_size: int
    batches: int
    warmup: int
    dtype: str = "uint16"
    aligned: bool = False  # crops on chunk borders, drawn without replacement, so that no chunk is shared

    @property
    def arrays(self) -> list[ArraySpec]:
        fixed = (self.shape, self.chunk, self.shard, self.dtype, self.codec)
        return [ArraySpec(self.content, _seed(self.content, i), *fixed) for i in range(self.n_arrays)]

    @property
    def raw_bytes(self) -> int:
        return self.n_arrays * math.prod(self.shape) * ITEM_BYTES[self.dtype]

    def batch_bytes(self, item_bytes: int = 4) -> int:
        return self.batch_size * math.prod(self.crop) * item_bytes

    def crops(self) -> Iterator[Crop]:
        """The endless stream of crops, the same for every loader."""
        if self.aligned:
            yield from aligned_stream(self.n_arrays, self.shape, self.crop)
        for array, starts in crop_stream(self.n_arrays, self.shape, self.crop):
            yield array, tuple((a, a + c) for a, c in zip(starts, self.crop))

    def first_batches(self, n: int) -> list[list[Crop]]:
        stream = self.crops()
        return [list(itertools.islice(stream, self.batch_size)) for _ in range(n)]


def _seed(content: str, i: int) -> int:
    return {"e50": 42, "micro": 0, "climate": 7000}[content] + i


def data_root() -> Path:
    return Path(os.environ.get("DAMACY_BENCH_DATA") or _ROOT / "build" / "bench-data")


# --- the crop stream ---

_WORD = (1 << 64) - 1


def random_words(seed: int = 1234) -> Iterator[int]:
    """xorshift64*, the generator behind every draw."""
    state = seed
    while True:
        state ^= state >> 12
        state = (state ^ (state << 25)) & _WORD
        state ^= state >> 27
        yield state * 2685821657736338717 & _WORD


def crop_stream(n_arrays: int, shape: Shape, crop: Shape) -> Iterator[tuple[int, Shape]]:
    """The array, then the start of the crop on each axis: one random word each, modulo the number of choices."""
    words = random_words()
    choices = [size - length + 1 for size, length in zip(shape, crop)]
    while True:
        array = next(words) % n_arrays
        yield array, tuple(next(words) % n for n in choices)


def aligned_stream(n_arrays: int, shape: Shape, crop: Shape) -> Iterator[Crop]:
    """Rounds of all cells of the crop grid in random order: no two crops of a round overlap."""
    words = random_words()
    cells = list(itertools.product(range(n_arrays), *(range(size // length) for size, length in zip(shape, crop))))
    while True:
        for last in range(len(cells) - 1, 0, -1):
            other = next(words) % (last + 1)
            cells[last], cells[other] = cells[other], cells[last]
        for array, *cell in cells:
            yield array, tuple((c * length, (c + 1) * length) for c, length in zip(cell, crop))


def cells_of(box: Iterable[tuple[int, int]], cell: Shape) -> Iterator[Shape]:
    """The cells of a grid that a box touches."""
    return itertools.product(*(range(a // n, -(-b // n)) for (a, b), n in zip(box, cell)))


def count_chunks(scenario: Scenario, batches: int) -> dict[str, int]:
    """Counts for the timed batches: touched chunks, distinct chunks of each batch, and those that are new in it."""
    touches = distinct = fresh = 0
    before: set = set()
    for crops in scenario.first_batches(scenario.warmup + batches)[scenario.warmup :]:
        cells = [(array, cell) for array, box in crops for cell in cells_of(box, scenario.chunk)]
        now = set(cells)
        touches += len(cells)
        distinct += len(now)
        fresh += len(now - before)
        before = now
    return {"touches": touches, "distinct": distinct, "not_in_the_batch_before": fresh}


# --- the table ---

_ZSTD = Codec("zstd", 3)
_BLOSC_ZSTD = Codec("blosc", 3, "zstd", "shuffle")
_BLOSC_LZ4 = Codec("blosc", 5, "lz4", "shuffle")
_BLOSC_BIT = Codec("blosc", 1, "zstd", "bitshuffle")
_BLOSC_BIG = Codec("blosc", 5, "zstd", "shuffle")


def _volumes(name: str, n_arrays: int, content: str, codec: Codec, batches: int = 50, **other) -> Scenario:
    """A scenario of the usual shape: volumes of 512³ in chunks of 256 KiB, crops of 128³."""
    cube, chunk, shard = (512,) * 3, (32, 64, 64), (256, 256, 512)
    crop = (128,) * 3
    return Scenario(name, n_arrays, cube, content, chunk, shard, codec, crop, 128, batches, batches // 10, **other)


_TABLE = [
    _volumes("throughput", 16, "e50", _ZSTD, batches=100),
    _volumes("default", 8, "e50", _ZSTD),
    _volumes("blosc-zstd", 8, "e50", _BLOSC_ZSTD),
    _volumes("blosc-lz4", 8, "micro", _BLOSC_LZ4),
    _volumes("blosc-bit", 8, "micro", _BLOSC_BIT),
    _volumes("micro", 16, "micro", _ZSTD),
    _volumes("aligned", 8, "e50", _ZSTD, aligned=True),
    _volumes("aligned-blosc-zstd", 8, "e50", _BLOSC_ZSTD, aligned=True),
    _volumes("aligned-blosc-lz4", 8, "micro", _BLOSC_LZ4, aligned=True),
    Scenario(
        "smoke",
        1,
        (64, 1024, 1024),
        "e50",
        (32, 128, 128),
        (64, 512, 512),
        _ZSTD,
        (32, 128, 128),
        4,
        batches=8,
        warmup=2,
    ),
    Scenario(
        "coarse-4", 8, (512,) * 3, "micro", (128,) * 3, (512,) * 3, _BLOSC_BIG, (64,) * 3, 128, batches=50, warmup=5
    ),
    Scenario(
        "coarse-34",
        8,
        (64, 2048, 2048),
        "micro",
        (64, 512, 512),
        None,
        _BLOSC_BIG,
        (1, 256, 256),
        256,
        batches=50,
        warmup=5,
    ),
    Scenario(
        "climate",
        8,
        (64, 721, 1440),
        "climate",
        (1, 721, 1440),
        (16, 721, 1440),
        _ZSTD,
        (1, 256, 256),
        256,
        batches=50,
        warmup=5,
        dtype="float32",
    ),
]
SCENARIOS = {scenario.name: scenario for scenario in _TABLE}

# The scenarios for comparisons with the peers on the host.
HOST_SCENARIOS = (
    "default",
    "blosc-zstd",
    "blosc-lz4",
    "aligned",
    "aligned-blosc-zstd",
    "aligned-blosc-lz4",
    "coarse-4",
)


def scenario(name: str, size: str = "full") -> Scenario:
    """A row of the table at a size. `small` keeps shapes and uses less data; `tiny`, for tests, also reduces shapes."""
    full = SCENARIOS[name]
    return {"full": lambda s: s, "small": _small, "tiny": _tiny}[size](full)


def _small(full: Scenario) -> Scenario:
    """A quarter of the arrays and of the batch, so that a voxel is in as many crops as in the full scenario."""
    if full.name == "smoke":
        return dataclasses.replace(full, batches=32, warmup=4)
    quarter = {"n_arrays": max(1, full.n_arrays // 4), "batch_size": full.batch_size // 4}
    return dataclasses.replace(full, **quarter, batches=12, warmup=2)


def _tiny(full: Scenario) -> Scenario:
    shape = tuple(max(1, n // 4) for n in full.shape)
    shard = None if full.shard is None else tuple(max(1, n // 4) for n in full.shard)
    chunk = tuple(max(1, min(n // 2, *limits)) for n, *limits in zip(full.chunk, shape, shard or shape))
    crop = tuple(max(1, n // 4) for n in full.crop)
    few = {"n_arrays": min(2, full.n_arrays), "batch_size": max(2, full.batch_size // 16), "batches": 4, "warmup": 1}
    return dataclasses.replace(full, shape=shape, shard=shard, chunk=chunk, crop=crop, **few)
