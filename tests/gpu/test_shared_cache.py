"""Processes that share a cache, which for a GPU is page-locked by each: equal batches, and one read of each chunk."""

import json
import signal
import subprocess
import sys
import textwrap
import uuid

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

import damacy

SHAPE = (24, 96, 96)
CODECS = {"zstd": (ZstdCodec(level=1),), "blosc": (BloscCodec(cname="lz4"),), "raw": ()}

PROGRAM = textwrap.dedent(
    """
    import json, os, signal, sys
    import damacy

    task = json.loads(sys.argv[1])
    shared = damacy.SharedCache(task["name"], "8MiB")
    config = damacy.Config(batch_size=4, device=task["device"], dtype="u16", host_cache=shared)
    boxes = [[tuple(axis) for axis in box] for box in task["boxes"]]
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(task["uri"], box) for box in boxes])
        pipeline.flush()
        sums = []
        for n, batch in enumerate(pipeline):
            sums += [int(row.astype("u8").sum()) for row in batch.numpy()]
            if n == task["dies_after"]:
                os.kill(os.getpid(), signal.SIGKILL)
        stats = pipeline.stats()
    fields = ("host_cache_hits", "host_cache_misses", "bytes_read", "chunks_decoded_on_host", "host_bytes_committed")
    print(json.dumps({"sums": sums} | {field: getattr(stats, field) for field in fields}))
    """
)


def run(task, ends_with=0):
    command = [sys.executable, "-c", PROGRAM, json.dumps(task)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == ends_with, ran.stdout + ran.stderr
    return json.loads(ran.stdout) if ends_with == 0 else None


def boxes(count):
    starts = np.random.default_rng(1).integers(0, np.array(SHAPE) - (8, 40, 40) + 1, (count, 3))
    return [[[int(a), int(a + n)] for a, n in zip(start, (8, 40, 40), strict=True)] for start in starts]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("codec", CODECS)
def test_a_second_process_reads_nothing_and_one_that_is_killed_does_no_harm(tmp_path, codec, device):
    uri = str(tmp_path / "a.zarr")
    data = np.random.default_rng(0).integers(0, 1000, SHAPE, "uint16")
    array = zarr.create_array(uri, shape=SHAPE, chunks=(8, 32, 32), dtype="uint16", compressors=CODECS[codec])
    array[:] = data
    wanted = boxes(80)
    sums = [int(data[tuple(slice(*axis) for axis in box)].astype("u8").sum()) for box in wanted]
    name = f"test-{uuid.uuid4().hex}"
    task = {"uri": uri, "name": name, "device": device, "boxes": wanted, "dies_after": -1}
    shared = damacy.SharedCache(name, "8MiB")
    with damacy.Pipeline(damacy.Config(batch_size=1, device=device, host_cache=shared)):  # keeps the memory
        for dies_after in (0, 2):
            run(task | {"dies_after": dies_after}, ends_with=-signal.SIGKILL)
        first, second = run(task), run(task)
    assert first["sums"] == second["sums"] == sums
    assert (second["bytes_read"], second["host_cache_misses"]) == (0, 0)
    assert second["host_cache_hits"] > 0
    assert second["host_bytes_committed"] >= 8 << 20
    if device == "cuda":
        assert second["chunks_decoded_on_host"] == 0
