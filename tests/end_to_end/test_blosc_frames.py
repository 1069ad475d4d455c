"""Blosc frames that numcodecs wrote, for all fields of the header: type size, length, level, block size, content.

One chunk per array; the whole chunk and inner crops of it are read, so that blocks are decoded alone as well.
"""

import itertools

import numpy as np
import pytest
from support import values, writers
from support.element_types import from_bits
from support.layout import Compressor, Layout
from support.streaming import Stored, assert_rows, stream_rows

CONTENTS = ("noise", "half-noise", "constant", "ramp")


def content(kind: str, size: int) -> np.ndarray:
    rng = np.random.default_rng(size)
    if kind == "noise":
        return rng.integers(0, 256, size).astype(np.uint8)
    if kind == "constant":
        return np.full(size, 77, np.uint8)
    if kind == "ramp":
        return (np.arange(size) // 5 % 251 + 1).astype(np.uint8)
    return np.where(np.arange(size) % 2 == 0, rng.integers(0, 256, size), 3).astype(np.uint8)


def check(path, compressor, content_bytes, *, dtype="uint8"):
    bits = content_bytes.view(values.bits_type(dtype))
    layout = Layout(shape=bits.shape, chunks=bits.shape, dtype=dtype, compressor=compressor)
    writers.write_by_hand(layout, from_bits(bits, dtype), path)
    stored = Stored(path, layout, bits)
    size = bits.size
    third = max(1, size // 3)
    starts = sorted({0, 1 % (size - third + 1), size // 2 % (size - third + 1), size - third})
    for boxes in ([((0, size),)], [((b, b + third),) for b in starts]):
        rows = stream_rows([stored.sample(*b) for b in boxes], dtype)
        assert_rows(rows, [stored.row(b) for b in boxes], f"{compressor} {size} bytes")


@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("typesize", [*range(1, 18), 255])
def test_type_sizes(typesize, shuffle, tmp_path):
    for cname, size in (("lz4", 20_000), ("zstd", 6_001)):
        compressor = Compressor("blosc", level=5, cname=cname, shuffle=shuffle, typesize=typesize)
        check(tmp_path / cname, compressor, content("half-noise", size))


@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 7, 127, 128, 129, 255, 4095, 4096, 4097, 8191, 8193, 65535, 65537])
def test_lengths_around_the_edges(size, shuffle, tmp_path):
    for cname, typesize in itertools.product(("lz4", "zlib"), (1, 2, 4)):
        compressor = Compressor("blosc", level=5, cname=cname, shuffle=shuffle, typesize=typesize, blocksize=4096)
        check(tmp_path / f"{cname}{typesize}", compressor, content("ramp", size))


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("level", [0, 1, 5, 9])
def test_levels_and_contents(level, kind, tmp_path):
    for cname, shuffle in itertools.product(("zstd", "lz4", "lz4hc", "zlib"), (1, 2)):
        compressor = Compressor("blosc", level=level, cname=cname, shuffle=shuffle, typesize=2)
        check(tmp_path / f"{cname}{shuffle}", compressor, content(kind, 50_000), dtype="uint16")


@pytest.mark.parametrize("blocksize", [256, 1000, 4096, 65536])
def test_explicit_block_sizes(blocksize, tmp_path):
    for cname, shuffle in itertools.product(("zstd", "lz4"), (0, 1, 2)):
        compressor = Compressor("blosc", level=5, cname=cname, shuffle=shuffle, typesize=4, blocksize=blocksize)
        check(tmp_path / f"{cname}{shuffle}", compressor, content("half-noise", 40_004), dtype="uint32")


@pytest.mark.parametrize("edge,dtype", [(96, "uint16"), (100, "uint16"), (96, "uint8")])
def test_the_short_tail_of_a_cube_under_both_filters(edge, dtype, tmp_path):
    rng = np.random.default_rng(edge)
    cube = (rng.integers(0, 40, (edge,) * 3) + 100).astype(dtype)
    for shuffle in (1, 2):
        layout = Layout(
            shape=cube.shape,
            chunks=cube.shape,
            dtype=dtype,
            compressor=Compressor("blosc", level=5, cname="lz4", shuffle=shuffle),
        )
        writers.write_with_zarr(layout, cube, tmp_path / str(shuffle))
        stored = Stored(tmp_path / str(shuffle), layout, cube)
        for boxes in ([((0, edge),) * 3], [((b, b + 20), (3, 60), (b, b + 33)) for b in (0, edge - 33)]):
            rows = stream_rows([stored.sample(*b) for b in boxes], dtype)
            assert_rows(rows, [stored.row(b) for b in boxes])


def test_six_hundred_incompressible_chunks_at_once(tmp_path):
    rng = np.random.default_rng(5)
    bits = rng.integers(1, 65536, (600, 512)).astype(np.uint16)
    layout = Layout(shape=bits.shape, chunks=(1, 512), dtype="uint16", compressor=Compressor("blosc", level=5))
    writers.write_by_hand(layout, bits, tmp_path / "a")
    stored = Stored(tmp_path / "a", layout, bits)
    boxes = [((0, 600), (0, 512))]
    assert_rows(stream_rows([stored.sample(*b) for b in boxes], "uint16"), [stored.row(b) for b in boxes])


def test_frames_of_many_writer_threads(tmp_path):
    import numcodecs.blosc

    bits = content("half-noise", 1 << 20).view(np.uint32)
    compressor = Compressor("blosc", level=5, cname="zstd", shuffle=1, typesize=4, blocksize=8192)
    numcodecs.blosc.use_threads = True
    numcodecs.blosc.set_nthreads(4)
    try:
        check(tmp_path / "a", compressor, bits.view(np.uint8), dtype="uint32")
    finally:
        numcodecs.blosc.use_threads = False
