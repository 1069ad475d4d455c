"""Random pipelines over random arrays whose chunks have 4 KiB to 4 MiB: what is stored, which boxes are read with which
settings, and the rows that NumPy cuts out of the same elements.

Everything is a pure function of a number. Reads nothing by damacy.
"""

import dataclasses
import math
import pathlib

import numpy as np

from support import thresholds, writers
from support.element_types import OUTPUT, size_of
from support.layout import Compressor, Layout

KIB, MIB = thresholds.KIB, thresholds.MIB
ARRAY_BYTES = 10 * MIB
ROW_BYTES = 6 * MIB
DTYPES = ("uint8", "uint16", "float32")


@dataclasses.dataclass
class RandomArray:
    """`damaged`: the object that is cut to three bytes, so that it cannot be read."""

    layout: Layout
    data: np.ndarray
    writer: writers.Writer
    damaged: tuple[int, ...] | None

    def write(self, path: pathlib.Path) -> None:
        self.writer.write(self.layout, self.data, path)
        if self.damaged is not None:
            (path / self.layout.key(self.damaged)).write_bytes(b"\0\0\0")

    def is_damaged(self, box) -> bool:
        if self.damaged is None:
            return False
        sides = zip(box, self.damaged, self.layout.object_shape)
        return all(begin < (at + 1) * side and at * side < end for (begin, end), at, side in sides)

    def chunk(self, *at: int) -> np.ndarray:
        return self.data[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, self.layout.chunks))]

    def parts_of_large_chunks(self, box) -> list[float]:
        """How much of each chunk the box needs, if the chunk is large enough to be read in part."""
        if self.chunk_bytes() < thresholds.PARTIAL_FROM:
            return []
        sides = []
        for (begin, end), n in zip(box, self.layout.chunks):
            sides.append([(min(end, (i + 1) * n) - max(begin, i * n)) / n for i in range(begin // n, -(-end // n))])
        return [down * across for down in sides[0] for across in sides[1]]

    def chunk_bytes(self) -> int:
        return math.prod(self.layout.chunks) * size_of(self.layout.dtype)


@dataclasses.dataclass
class RandomPipeline:
    config: dict
    output: str  # the type of elements
    boxes: list[tuple[int, tuple]]  # (array, box)
    epochs: int
    keeps: int  # batches that the consumer holds
    host_cache: int  # bytes of a shared cache; 0: none

    def row_bytes(self) -> int:
        return math.prod(e - b for b, e in self.boxes[0][1]) * size_of(self.output)

    def row(self, arrays: list[RandomArray], number: int) -> np.ndarray:
        array, box = self.boxes[number]
        return arrays[array].data[tuple(slice(*axis) for axis in box)].astype(self.output)

    def batches(self) -> list[list[int]]:
        """The numbers of the boxes of each batch of an epoch."""
        numbers, size = list(range(len(self.boxes))), self.config["batch_size"]
        return [numbers[at : at + size] for at in range(0, len(numbers), size)]

    def chunks_of(self, arrays: list[RandomArray], batch: list[int]) -> tuple[int, int]:
        """How many distinct chunks a batch needs, and how many of them are all fill."""
        wanted = set()
        for array, box in (self.boxes[number] for number in batch):
            ranges = [range(b // n, -(-e // n)) for (b, e), n in zip(box, arrays[array].layout.chunks)]
            wanted |= {(array, down, across) for down in ranges[0] for across in ranges[1]}
        return len(wanted), sum(not arrays[array].chunk(*at).any() for array, *at in wanted)


def draw_arrays(number: int) -> list[RandomArray]:
    """The first has chunks just below a threshold, the second from one on, a third any: six numbers have all sides."""
    rng = np.random.default_rng([35, number])
    sizes = sorted({one.at for one in thresholds.OF_CHUNKS})
    sides = [(sizes[number % len(sizes)], (0,)), (sizes[(number + 3) % len(sizes)], (1, 2)), None]
    return [_array(rng, side) for side in sides[: int(rng.integers(2, 4))]]


def draw_pipeline(number: int, arrays: list[RandomArray], engine: str) -> RandomPipeline:
    rng = np.random.default_rng([36, number])
    is_large = number % 20 in (3, 13)  # a batch just below a threshold, or just above
    used = [int(rng.integers(len(arrays)))] if is_large or rng.random() < 0.6 else list(range(len(arrays)))
    if is_large:
        used = [max(range(len(arrays)), key=lambda k: arrays[k].data.nbytes)]
    output = _output(rng, [arrays[k] for k in used])
    extents = _extents(rng, [arrays[k] for k in used], size_of(output), is_large)
    row_bytes = math.prod(extents) * size_of(output)
    batch_size, samples = int(rng.integers(1, 5)), int(rng.integers(4, 25))
    if is_large:
        batch_size = thresholds.OF_BATCHES[0].at // row_bytes + number % 20 // 10
        samples = int(rng.integers(batch_size, 2 * batch_size + 1))
    samples = max(1, min(samples, 96 * MIB // row_bytes))
    n_batches = int(rng.integers(2, 4 if is_large else 7))
    config = {
        "batch_size": batch_size,
        "dtype": OUTPUT[output],
        "lookahead_batches": int(rng.integers(2, 7)),
        "n_batches": n_batches,
        "n_io_threads": int(rng.integers(1, 7)),
        "n_compute_threads": int(rng.choice([0, 0, 1, 2])),
        "verify": str(rng.choice(["needed", "needed", "whole"])),
        "on_error": str(rng.choice(["raise", "skip", "fill"])),
        "keep_bytes": int(rng.choice([0, 0, 64 * MIB])),
        **_buffers(rng, arrays),
        **_caches(rng, arrays, engine),
    }
    host_cache = int(rng.choice([0, 0, 1 * MIB, 64 * MIB])) if engine == "host" else 0
    return RandomPipeline(
        config=config,
        output=output,
        boxes=_boxes(rng, arrays, used, extents, samples),
        epochs=int(rng.integers(1, 3 if is_large else 4)),
        keeps=int(rng.integers(0, n_batches)),
        host_cache=host_cache,
    )


def _array(rng, side: tuple[int, tuple[int, ...]] | None) -> RandomArray:
    dtype = str(rng.choice(DTYPES))
    chunks = _chunks(rng, size_of(dtype), side)
    chunk_bytes = math.prod(chunks) * size_of(dtype)
    most = max(2, min(144, ARRAY_BYTES // chunk_bytes))
    across = int(rng.integers(1, 1 + min(12, most))) if most < 100 else int(rng.integers(8, 13))
    down = max(1, min(12, most // across))
    shape = tuple(n * c - int(rng.integers(0, min(c, 5))) for n, c in zip((down, across), chunks))
    zarr_format = int(rng.choice([2, 3], p=[0.2, 0.8]))
    shards = None
    if zarr_format == 3 and rng.random() < 0.4:
        shards = tuple(int(c * rng.integers(1, 5)) for c in chunks)
        if math.prod(shards) * size_of(dtype) > ARRAY_BYTES:
            shards = None
    layout = Layout(
        shape=shape,
        chunks=chunks,
        shards=shards,
        dtype=dtype,
        zarr_format=zarr_format,
        compressor=_compressor(rng),
        crc32c=zarr_format == 3 and bool(rng.random() < 0.15),
        endian=str(rng.choice(["little", "little", "big"])),
        index_location=str(rng.choice(["start", "end"])),
        separator=str(rng.choice(["/", "."])),
    )
    data = _elements(rng, layout)
    able = [writer for writer in writers.ALL if writer.can(layout)]
    damaged = None
    if rng.random() < 0.15:
        damaged = _stored_object(rng, layout, data)
    return RandomArray(layout, data, able[int(rng.integers(len(able)))], damaged)


def _chunks(rng, size: int, side: tuple[int, tuple[int, ...]] | None) -> tuple[int, int]:
    """Rows of 256 B to 8 KiB; as many as give a size at that side of a threshold, or any size."""
    width = int(rng.choice([256, 512, 1024, 4096, 8192]))
    if side is None:
        wanted = int(2 ** rng.uniform(12, 22))
    else:
        at, places = side
        width = min(width, at // 2)
        wanted = thresholds.sizes_around(at, width)[int(rng.choice(places))]
    return max(1, wanted // width), width // size


def _compressor(rng) -> Compressor | None:
    id_ = str(rng.choice(["raw", "zstd", "blosc", "lz4"], p=[0.3, 0.2, 0.35, 0.15]))
    if id_ == "raw":
        return None
    if id_ != "blosc":
        return Compressor(id_, level=1)
    return Compressor(
        "blosc",
        level=int(rng.choice([0, 1, 5])),
        cname=str(rng.choice(["lz4", "lz4", "zstd"])),
        shuffle=int(rng.integers(0, 3)),
        blocksize=int(rng.choice([0, 0, 1024, 16 * KIB])),
    )


def _elements(rng, layout: Layout) -> np.ndarray:
    """Noise, which does not shrink, or steps, which do: no two places near each other have equal neighbours."""
    count = math.prod(layout.shape)
    if rng.random() < 0.5:
        noise = rng.integers(1, 255, 1_000_003, np.uint8)
        data = np.resize(noise, count).astype(layout.dtype)
        for again, at in enumerate(range(0, count, len(noise))):
            data[at : at + len(noise)] += again  # its repetitions differ
    else:
        data = (np.arange(count, dtype=np.uint32) // 3 % 65_521 + 1).astype(layout.dtype)
    data = data.reshape(layout.shape)
    if rng.random() < 0.4:
        share = float(rng.choice([0.2, 0.9]))
        for index in layout.object_indices():
            if rng.random() < share:
                data[tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, layout.object_shape))] = 0
    return data


def _stored_object(rng, layout: Layout, data: np.ndarray) -> tuple[int, ...] | None:
    indices = list(layout.object_indices())
    index = indices[int(rng.integers(len(indices)))]
    block = data[tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, layout.object_shape))]
    return index if block.any() else None


def _output(rng, arrays: list[RandomArray]) -> str:
    """A type that has all elements exactly, so that NumPy and damacy have one answer."""
    kinds = {array.layout.dtype for array in arrays}
    able = ["float32", "float64"] + ([arrays[0].layout.dtype] if len(kinds) == 1 else [])
    return str(rng.choice(able))


def _extents(rng, arrays: list[RandomArray], size: int, is_large: bool) -> tuple[int, int]:
    """Of a box, as a part of the chunks of one array: also just below and above what is read in part."""
    of = arrays[int(rng.integers(len(arrays)))].layout.chunks
    least = [min(array.layout.shape[axis] for array in arrays) for axis in (0, 1)]
    limit = thresholds.MOST_IN_PART
    parts = [0.02, 0.25, limit - 0.02, limit + 0.02, 1.0, 1.3, 2.2]
    extents = [max(1, min(n, int(c * rng.choice(parts)))) for n, c in zip(least, of)]
    if is_large or rng.random() < 0.25:
        extents = least
    while math.prod(extents) * size > ROW_BYTES:
        extents[0 if extents[0] > 1 else 1] //= 2
    return extents[0], extents[1]


def _boxes(rng, arrays, used, extents, samples: int) -> list[tuple[int, tuple]]:
    """Half of them are near an earlier one: several batches in production want the same chunks."""
    boxes, earlier = [], []
    for _ in range(samples):
        array = int(rng.choice(used))
        near = None
        if earlier and rng.random() < 0.6:
            array, near = earlier[int(rng.integers(len(earlier)))]
        ends = [n - e for n, e in zip(arrays[array].layout.shape, extents)]
        if near is None:
            start = [int(rng.integers(0, end + 1)) for end in ends]
        else:
            moves = [int(rng.integers(-e, e + 1)) for e in extents]
            start = [min(max(0, n + move), end) for n, move, end in zip(near, moves, ends)]
        earlier.append((array, start))
        boxes.append((array, tuple((b, b + e) for b, e in zip(start, extents))))
    return boxes


def _buffers(rng, arrays) -> dict:
    """Sometimes the least that is documented for the largest chunk."""
    largest = max(array.chunk_bytes() for array in arrays)
    least = 2 * largest + 128 * KIB
    host, device = (least if rng.random() < 0.25 else 1 << int(rng.integers(24, 27)) for _ in range(2))
    return {"host_buffer_bytes": max(least, host), "device_buffer_bytes": max(least, device)}


def _caches(rng, arrays, engine: str) -> dict:
    """None, one that has few chunks, or one that has all."""
    few = max(2 * MIB, 10 * max(array.chunk_bytes() for array in arrays))
    drawn = lambda: int(rng.choice([0, 0, few, 64 * MIB]))  # noqa: E731
    if engine == "host":
        return {"cache_bytes": drawn()}
    return {"device_cache_bytes": drawn(), "host_cache_bytes": drawn()}
