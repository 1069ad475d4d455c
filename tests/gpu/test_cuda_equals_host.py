"""Batches made on a GPU equal the host's, byte for byte: random boxes × codecs × types × output types, decoded by the
device and, for small loads, also by the cores. Needs numpy and numcodecs; torch where it is."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from support.streaming import set_natively

import damacy
from damacy import _native

numcodecs = pytest.importorskip("numcodecs")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not _native.backend_info()["cuda"], reason="no usable GPU: " + _native.backend_info()["cuda_reason"]
    ),
]

SHAPE, CHUNK = (96, 128, 160), (32, 48, 64)
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
CODECS = [
    "raw",
    "zstd",
    "numcodecs.lz4",
    *(f"blosc-{c}-{s}" for c in ("zstd", "lz4", "lz4hc", "zlib") for s in SHUFFLES),
]


def encoder(codec: str, itemsize: int):
    """The v3 codec list of a chain, and the independent encoder of a chunk."""
    if codec == "raw":
        return [], lambda chunk: chunk.tobytes()
    if codec == "zstd":
        return [{"name": "zstd", "configuration": {"level": 3}}], numcodecs.Zstd(3).encode
    if codec == "numcodecs.lz4":
        return [{"name": "numcodecs.lz4", "configuration": {}}], numcodecs.LZ4().encode
    _, inner, shuffle = codec.split("-")
    options = {"cname": inner, "clevel": 5, "shuffle": shuffle, "typesize": itemsize, "blocksize": 0}
    return [{"name": "blosc", "configuration": options}], numcodecs.Blosc(inner, 5, SHUFFLES.index(shuffle)).encode


def write(folder: Path, values: np.ndarray, codec: str) -> Path:
    codecs, encode = encoder(codec, values.itemsize)
    folder.mkdir()
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": values.shape,
        "data_type": str(values.dtype),
        "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNK}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *codecs],
    }
    (folder / "zarr.json").write_text(json.dumps(document))
    for at in itertools.product(*(range(-(-s // c)) for s, c in zip(values.shape, CHUNK, strict=True))):
        part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, CHUNK, strict=True))]
        chunk = np.zeros(CHUNK, values.dtype)
        chunk[tuple(slice(0, n) for n in part.shape)] = part
        (folder / ("c." + ".".join(map(str, at)))).write_bytes(bytes(encode(chunk)))
    return folder


def samples_of(uri: Path, seed: int, count: int) -> list[damacy.Sample]:
    draw = random.Random(seed)
    extents = [draw.randrange(1, s + 1) for s in SHAPE]
    starts = [[draw.randrange(s - e + 1) for s, e in zip(SHAPE, extents, strict=True)] for _ in range(count)]
    return [damacy.Sample(uri, [(x, x + e) for x, e in zip(at, extents, strict=True)]) for at in starts]


def batches(monkeypatch, device, samples, dtype: str, by_device: bool) -> list[bytes]:
    """The batches of `device`; `by_device`: a GPU decodes small batches too."""
    set_natively(monkeypatch, **({"device_from_bytes": 0} if by_device else {}))
    config = damacy.Config(
        batch_size=8,
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
        dtype=dtype,
        n_io_threads=4,
        device=device,
    )
    made = []
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(samples)
        for batch in pipeline.batches(len(samples) // 8):
            with batch as b:
                made.append(b.numpy().tobytes())
    monkeypatch.undo()
    return made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32"])
def test_cuda_bytes_equal_host_bytes(tmp_path, monkeypatch, codec, dtype):
    values = (np.random.default_rng(0).poisson(30, SHAPE) * 7).astype(dtype)
    uri = write(tmp_path / "a", values, codec)
    for seed, out in enumerate(("f32", "u16", "f16", "i32", "u8")):
        samples = samples_of(uri, seed, 16)
        wanted = batches(monkeypatch, "cpu", samples, out, False)
        assert batches(monkeypatch, 0, samples, out, True) == wanted, f"decoded on the device, to {out}"
        assert batches(monkeypatch, 0, samples, out, False) == wanted, f"decoded where it is sooner, to {out}"


def test_a_damaged_chunk_fails_only_its_batch_and_is_named(tmp_path, monkeypatch):
    values = (np.random.default_rng(0).poisson(30, SHAPE) * 7).astype("uint16")
    uri = write(tmp_path / "a", values, "zstd")
    damaged = bytearray((uri / "c.1.1.1").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (uri / "c.1.1.1").write_bytes(damaged)
    set_natively(monkeypatch, device_from_bytes=0)
    config = damacy.Config(
        batch_size=1, host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20, dtype="u16", device=0
    )
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(uri, [(z, z + 8), (50, 90), (70, 120)]) for z in (0, 40, 80)])
        pipeline.pop().release()
        with pytest.raises(damacy.DecodeError) as caught:
            pipeline.pop()
        assert (caught.value.key, caught.value.chunk, caught.value.batch_id) == ("c.1.1.1", (1, 1, 1), 1)
        with pipeline.pop() as batch:
            assert (batch.numpy()[0] == values[80:88, 50:90, 70:120]).all()


def test_torch_reads_batches_without_a_copy(tmp_path):
    torch = pytest.importorskip("torch")
    torch.cuda.synchronize()
    values = (np.random.default_rng(0).poisson(30, SHAPE) * 7).astype("uint16")
    uri = write(tmp_path / "a", values, "zstd")
    config = damacy.Config(batch_size=4, host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20)
    with damacy.Pipeline(config) as pipeline:
        assert pipeline.device == 0
        pipeline.push([damacy.Sample(uri, [(z, z + 32), (0, 64), (0, 64)]) for z in range(32)])
        for i, batch in enumerate(pipeline.batches(8)):
            with batch as b:
                tensor = torch.from_dlpack(b)
                wanted = np.stack([values[z : z + 32, :64, :64] for z in range(4 * i, 4 * i + 4)]).astype("float32")
                assert (tensor.cpu().numpy() == wanted).all()


def test_a_slot_is_not_written_while_a_consumers_kernels_run(tmp_path):
    torch = pytest.importorskip("torch")
    torch.cuda.synchronize()
    values = (np.random.default_rng(0).poisson(30, SHAPE) * 7).astype("uint16")
    uri = write(tmp_path / "a", values, "raw")
    config = damacy.Config(batch_size=1, host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20)
    streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
    rounds = 1000
    boxes = [(z % 60, z % 60 + 32) for z in range(rounds)]
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    whole = torch.from_numpy(values.astype("float32")).cuda()
    torch.cuda.synchronize()
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(damacy.Sample(uri, [box, (0, 64), (0, 64)]) for box in boxes)
        for i, (start, stop) in enumerate(boxes):
            with torch.cuda.stream(streams[i % 2]), pipeline.pop() as batch:
                tensor = torch.from_dlpack(batch)
                torch.cuda._sleep(200_000)  # the slot is released long before this stream has read it
                wrong += (tensor[0] != whole[start:stop, :64, :64]).any()
                del tensor
            streams[(i + 1) % 2].wait_stream(streams[i % 2])
    torch.cuda.synchronize()
    assert wrong.item() == 0
