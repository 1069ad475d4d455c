"""Random test cases: arrays of any layout, boxes that share chunks, an output type, a configuration.

A case is a pure function of its number; `--case-seed` runs a failing one again. Reads nothing.
"""

import dataclasses

import numpy as np

from support import values, writers
from support.element_types import ALL, INTEGERS, OUTPUT, size_of, v2_name
from support.layout import Compressor, Layout

MAX_ELEMENTS = 12_000


@dataclasses.dataclass
class Case:
    number: int
    layouts: list[Layout]
    bits: list[np.ndarray]
    writers: list[writers.Writer]
    by_hand: dict  # how the by-hand writer arranges payloads
    output: str
    runs: list[list[tuple[int, tuple]]]  # (array, box), between flushes
    config: dict

    def __str__(self) -> str:
        arrays = "; ".join(f"{w.name}: {layout}" for w, layout in zip(self.writers, self.layouts))
        return f"case {self.number}: {arrays} -> {self.output} {self.config} runs {[len(r) for r in self.runs]}"


def draw(number: int) -> Case:
    rng = np.random.default_rng([2024, number])
    rank = int(rng.choice([0, 1, 2, 3, 4, 5], p=[0.04, 0.16, 0.26, 0.34, 0.14, 0.06]))
    layouts = [_layout(rng, rank) for _ in range(int(rng.integers(1, 4)))]
    bits = [_content(rng, layout) for layout in layouts]
    able = [[w for w in writers.ALL if w.can(layout)] for layout in layouts]
    config = {
        "batch_size": int(rng.integers(1, 6)),
        "lookahead_batches": int(rng.integers(2, 5)),
        "n_batches": int(rng.integers(1, 4)),
        "n_io_threads": int(rng.integers(1, 4)),
        "n_compute_threads": int(rng.integers(0, 3)),
        "n_zarrs_meta_cache": int(rng.choice([1, 64])),
        "n_shards_meta_cache": int(rng.choice([1, 2, 256])),
        **_buffers(rng, layouts),
    }
    output = str(rng.choice(list(OUTPUT)))
    runs = _runs(rng, layouts)
    config["dtype"] = OUTPUT[output]
    chosen = [options[int(rng.integers(len(options)))] for options in able]
    by_hand = {"seed": int(rng.integers(0, 3)), "gap": rng.bytes(int(rng.choice([0, 3, 4096, 5000])))}
    if any(layout.inner_shards or layout.encodes_shards for layout in layouts):
        by_hand["gap"] = by_hand["gap"][:3]  # the size of a shard inside a shard or before codecs is limited
    return Case(number, layouts, bits, chosen, by_hand, output, runs, config)


def _layout(rng, rank: int) -> Layout:
    dtype = str(rng.choice(ALL))
    shape = _shape(rng, rank)
    chunks = tuple(int(rng.integers(max(1, n // 10), n + 3)) for n in shape)  # few: writers are slow
    zarr_format = int(rng.choice([2, 3], p=[0.3, 0.7])) if dtype != "bfloat16" else 3
    shards = None
    if zarr_format == 3 and rank and rng.random() < 0.5:
        shards = tuple(int(c * rng.integers(1, 5)) for c in chunks)
    inner_shards, whole = (), {}
    if shards and rng.random() < 0.4:
        inner_shards = _inner_shards(rng, chunks, shards)
    if shards and rng.random() < 0.15:
        whole = {"shard_compressor": _compressor(rng, 1), "shard_crc32c": bool(rng.random() < 0.5)}
    order = None
    if rank > 1 and rng.random() < 0.4:
        reversal = tuple(reversed(range(rank)))
        order = reversal if zarr_format == 2 else tuple(int(k) for k in rng.permutation(rank))
    default = zarr_format == 3 and rng.random() < 0.6
    return Layout(
        shape=shape,
        chunks=chunks,
        shards=shards,
        dtype=dtype,
        zarr_format=zarr_format,
        compressor=_compressor(rng, size_of(dtype)),
        crc32c=zarr_format == 3 and bool(rng.random() < 0.2),
        order=order,
        endian=str(rng.choice(["little", "big"])),
        key_encoding="default" if default else "v2",
        separator=str(rng.choice(["/", "."])),
        index_location=str(rng.choice(["start", "end"])),
        index_crc32c=bool(rng.random() < 0.8),
        fill_bits=int(rng.choice(np.array(values.fills(dtype), np.uint64))),
        numcodecs_names=zarr_format == 3 and bool(rng.random() < 0.1),
        filters=_filters(rng, dtype, zarr_format) if rng.random() < 0.3 else (),
        checksums=_checksums(rng) if zarr_format == 3 and rng.random() < 0.15 else (),
        inner_shards=inner_shards,
        inner_index_location=str(rng.choice(["start", "end"])),
        **whole,
    )


def _checksums(rng) -> tuple[dict, ...]:
    return tuple(
        {"id": str(rng.choice(["crc32", "adler32"])), "location": str(rng.choice(["start", "end"]))}
        for _ in range(int(rng.integers(1, 3)))
    )


def _filters(rng, dtype: str, zarr_format: int) -> tuple[dict, ...]:
    """Filters that are lossless for these elements, so that the written values must be read."""
    size = size_of(dtype)
    filters = []
    if zarr_format == 2 and dtype in INTEGERS and rng.random() < 0.8:
        stored = v2_name(dtype, str(rng.choice(["little", "big"])))
        wide = v2_name("int64", str(rng.choice(["little", "big"])))
        kind = str(rng.choice(["delta", "astype", "fixedscaleoffset"]))
        if kind == "astype":
            filters.append({"id": "astype", "encode_dtype": wide if size < 8 else stored, "decode_dtype": stored})
            stored = wide if size < 8 else stored
        elif kind == "delta":
            filters.append({"id": "delta", "dtype": stored, "astype": stored})
        elif size < 8:
            offset = float(rng.integers(-5, 6))
            filters.append({"id": kind, "dtype": stored, "astype": wide, "scale": 2.0, "offset": offset})
            stored = wide
        if rng.random() < 0.3:
            filters.append({"id": "delta", "dtype": stored})
    if rng.random() < 0.5:
        filters.append({"id": "shuffle", "elementsize": size})
    return (*filters, *(_checksums(rng) if rng.random() < 0.5 else ()))


def _inner_shards(rng, chunks, shards) -> tuple[tuple[int, ...], ...]:
    """One or two shapes between `shards` and `chunks`, each a divisor of the previous one."""
    between = []
    for _ in range(int(rng.integers(1, 3))):
        counts = [s // c for s, c in zip((between or [shards])[-1], chunks)]
        divisors = [[k for k in range(1, n + 1) if n % k == 0] for n in counts]
        between.append(tuple(int(c * rng.choice(ks)) for c, ks in zip(chunks, divisors)))
    return tuple(between)


def _shape(rng, rank: int) -> tuple[int, ...]:
    longest = max(2, int(MAX_ELEMENTS ** (1 / max(rank, 1))))
    return tuple(int(rng.integers(1, longest + 1)) for _ in range(rank))


def _compressor(rng, element_size: int) -> Compressor | None:
    id_ = str(
        rng.choice(
            ["none", "zstd", "blosc", "gzip", "zlib", "lz4", "bz2", "lzma"],
            p=[0.15, 0.2, 0.4, 0.06, 0.06, 0.07, 0.03, 0.03],
        )
    )
    if id_ == "none":
        return None
    if id_ != "blosc":
        return Compressor(id_, level=int(rng.integers(1, 8)))
    return Compressor(
        "blosc",
        level=int(rng.integers(0, 10)),
        cname=str(rng.choice(["zstd", "lz4", "lz4hc", "zlib"])),
        shuffle=int(rng.integers(0, 3)),
        typesize=int(rng.integers(1, 18)) if rng.random() < 0.2 else element_size,
        blocksize=int(rng.choice([0, 0, 256, 1024])),
    )


def _content(rng, layout: Layout) -> np.ndarray:
    bits = values.draw_bits(rng, layout.dtype, layout.shape, "mixed")
    return values.punch_holes(rng, bits, layout) if rng.random() < 0.7 else bits


def _buffers(rng, layouts: list[Layout]) -> dict:
    """Buffer sizes; sometimes the minimum that is documented for the largest chunk."""
    largest = max(int(np.prod(layout.chunks, dtype=np.int64)) * size_of(layout.dtype) for layout in layouts)
    least = 2 * largest + (128 << 10)
    host, device = (least if rng.random() < 0.3 else 1 << int(rng.integers(21, 25)) for _ in range(2))
    return {"host_buffer_bytes": max(least, host), "device_buffer_bytes": max(least, device)}


def _runs(rng, layouts: list[Layout]) -> list[list[tuple[int, tuple]]]:
    """Boxes of one size, half of them near an earlier one, so that samples share chunks."""
    least = [min(layout.shape[axis] for layout in layouts) for axis in range(len(layouts[0].shape))]
    extents = [int(rng.integers(1, n + 1)) for n in least]
    runs, earlier = [], []
    for _ in range(int(rng.integers(1, 4))):
        run = []
        for _ in range(int(rng.integers(1, 9))):
            array = int(rng.integers(len(layouts)))
            ends = [s - e for s, e in zip(layouts[array].shape, extents)]
            start = [int(rng.integers(0, end + 1)) for end in ends]
            if earlier and rng.random() < 0.5:
                array, near = earlier[int(rng.integers(len(earlier)))]
                ends = [s - e for s, e in zip(layouts[array].shape, extents)]
                start = [min(max(0, n + int(rng.integers(-1, 2))), end) for n, end in zip(near, ends)]
            earlier.append((array, start))
            run.append((array, tuple((b, b + e) for b, e in zip(start, extents))))
        runs.append(run)
    return runs
