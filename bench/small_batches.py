"""Processor time of small batches on the host: what a batch costs before its bytes do.

    python -m bench.small_batches --out bench/results/small-batches-host.json

A batch has 2 samples, each one chunk of 16 x 16 elements of u16 (zstd, in the page cache), as f32. Counted is the
processor time of the whole process, all threads and Python included, from the first push to the last release, divided
by the batches: pushing samples that exist, planning, opening, reading, decoding, placing, popping, releasing. The
median and the least of `--reps` runs of 5,000 batches, after one that is not counted. `one_core` is the same with all
threads on one core: without what the kernel needs to wake a core that idles, which in a virtual machine is much.

`files`: a file for each chunk. `shard`: one file for all, whose index stays in the metadata cache. `cached`: the same,
with chunks kept by `cache_bytes`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

import damacy
from bench import machine

CHUNK, CHUNKS, BATCHES = 16, 16, 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    result = machine.describe() | {"command": ["python", "-m", "bench.small_batches", *sys.argv[1:]]}
    result |= {"scenario": "small-batches", "batch_size": 2, "batches": BATCHES, "cpu_us_per_batch": {}, "one_core": {}}
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, shards, cache_bytes in (("files", False, 0), ("shard", True, 0), ("cached", True, 16 << 20)):
            path = written(f"{folder}/{name}.zarr", shards)
            for where, allowed in (("cpu_us_per_batch", cores), ("one_core", {max(cores)})):
                os.sched_setaffinity(0, allowed)
                times = measure(path, cache_bytes, arguments)
                result[where][name] = {"median": statistics.median(times), "least": min(times)}
                print(name, where, {which: round(us, 1) for which, us in result[where][name].items()})
            os.sched_setaffinity(0, cores)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def written(path: str, is_sharded: bool) -> str:
    import zarr

    size = CHUNK * CHUNKS
    shards = (size, size) if is_sharded else None
    array = zarr.create_array(path, shape=(size, size), chunks=(CHUNK, CHUNK), shards=shards, dtype="u2")
    array[:] = np.random.default_rng(0).integers(0, 4096, (size, size))
    return path


def measure(path: str, cache_bytes: int, arguments: argparse.Namespace) -> list[float]:
    """Microseconds of each run but the first."""
    random = np.random.default_rng(1)
    corners = CHUNK * random.integers(0, CHUNKS, (2 * BATCHES, 2))
    samples = [damacy.Sample(path, [(y, y + CHUNK), (x, x + CHUNK)]) for y, x in corners.tolist()]
    config = damacy.Config(
        batch_size=2,
        device="cpu",
        n_io_threads=arguments.threads,
        host_buffer_bytes=16 << 20,
        device_buffer_bytes=16 << 20,
        cache_bytes=cache_bytes,
    )
    times = []
    with damacy.Pipeline(config) as pipeline:
        for _ in range(arguments.reps + 1):
            start = time.process_time()
            pipeline.push(samples)
            for batch in pipeline.batches(BATCHES):
                batch.release()
            times.append((time.process_time() - start) / BATCHES * 1e6)
    return times[1:]


if __name__ == "__main__":
    main()
