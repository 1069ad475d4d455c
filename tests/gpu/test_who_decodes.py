"""Where chunks are decoded, and that it makes no difference: blosc chunks by the GPU itself, damaged ones with the
host's verdict, whole ones when `Config.verify` asks for it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import damacy

numcodecs = pytest.importorskip("numcodecs")

CHUNK = 200_000  # bytes: several blosc blocks, however large a writer makes them
ENCODERS = {
    "zstd": numcodecs.Zstd(3),
    "numcodecs.lz4": numcodecs.LZ4(),
    **{f"blosc-{c}-{s}": numcodecs.Blosc(c, 5, s, 8192) for c in ("zstd", "lz4") for s in (0, 1, 2)},
}


def values(chunks: int) -> np.ndarray:
    return (np.random.default_rng(0).poisson(30, chunks * CHUNK // 2) * 7).astype("<u2")


def write(folder: Path, codec: str, chunks: list[bytes]) -> Path:
    """A one-dimensional uint16 array of those encoded chunks, one file each."""
    name, *inner = codec.split("-")
    options = {}
    if inner:
        shuffle = ("noshuffle", "shuffle", "bitshuffle")[int(inner[1])]
        options = {"cname": inner[0], "clevel": 5, "shuffle": shuffle, "typesize": 2, "blocksize": 8192}
    folder.mkdir()
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [len(chunks) * CHUNK // 2],
        "data_type": "uint16",
        "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK // 2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": name, "configuration": options},
        ],
    }
    (folder / "zarr.json").write_text(json.dumps(document))
    for i, chunk in enumerate(chunks):
        (folder / f"c.{i}").write_bytes(chunk)
    return folder


def config(device: str, **fields) -> damacy.Config:
    sizes = {"batch_size": 1, "host_buffer_bytes": 16 << 20, "device_buffer_bytes": 64 << 20, "dtype": "u16"}
    return damacy.Config(**sizes | {"device": device} | fields)


def outcomes(uri: Path, chunks: int, elements: int, device: str, **fields) -> list[bytes | tuple]:
    """The bytes of the first elements of each chunk, or the text of the error."""
    with damacy.Pipeline(config(device, **fields)) as pipeline:
        starts = [i * CHUNK // 2 for i in range(chunks)]
        pipeline.push([damacy.Sample(uri, [(start, start + elements)]) for start in starts])
        found: list[bytes | tuple] = []
        for _ in starts:
            try:
                with pipeline.pop() as batch:
                    found.append(batch.numpy().tobytes())
            except damacy.DamacyError as error:
                found.append((type(error), error.reason, str(error)))
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("codec", ENCODERS)
def test_chunks_that_have_kernels_are_not_sent_to_the_cores(tmp_path, device_decodes, codec):
    parts = np.split(values(8), 8)
    uri = write(tmp_path / "a", codec, [bytes(ENCODERS[codec].encode(part)) for part in parts])
    device_decodes()
    with damacy.Pipeline(config("cuda")) as pipeline:
        pipeline.push([damacy.Sample(uri, [(0, 8 * CHUNK // 2)])])
        with pipeline.pop() as batch:
            assert (batch.numpy()[0] == np.concatenate(parts)).all()
        stats = pipeline.stats()
    assert (stats.chunks_decoded, stats.chunks_decoded_on_host) == (8, 0)


def damaged(encoded: bytes, seed: int) -> bytes:
    draw = random.Random(seed)
    out = bytearray(encoded)
    for _ in range(draw.randrange(1, 4)):
        out[draw.randrange(min(len(out), 64)) if draw.random() < 0.6 else draw.randrange(len(out))] ^= (
            1 << draw.randrange(8)
        )
    return bytes(out)


@pytest.mark.gpu
@pytest.mark.parametrize("codec", ENCODERS)
def test_a_damaged_chunk_gives_the_same_error_on_all_devices(tmp_path, device_decodes, codec):
    chunks = 60
    encoded = bytes(ENCODERS[codec].encode(values(1)))
    uri = write(tmp_path / "a", codec, [damaged(encoded, seed) for seed in range(chunks)])
    device_decodes()
    for elements in (CHUNK // 2, 1000):
        assert outcomes(uri, chunks, elements, "cuda") == outcomes(uri, chunks, elements, "cpu")


@pytest.mark.parametrize("codec", [codec for codec in ENCODERS if codec.startswith("blosc")])
def test_whole_chunks_are_decoded_with_verify_whole(tmp_path, device, device_decodes, codec):
    encoded = bytearray(ENCODERS[codec].encode(values(1)))
    blocksize = int.from_bytes(encoded[8:12], "little")
    assert blocksize < CHUNK // 2
    last = 16 + 4 * (-(-CHUNK // blocksize) - 1)
    encoded[last : last + 4] = b"\xff\xff\xff\x7f"  # where the last block begins
    uri = write(tmp_path / "a", codec, [bytes(encoded)])
    device_decodes()
    (good,) = outcomes(uri, 1, 1000, device)
    assert good == values(1)[:1000].tobytes()
    (bad,) = outcomes(uri, 1, 1000, device, verify="whole")
    assert bad[:2] == (damacy.DecodeError, "frame")
