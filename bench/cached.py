"""The scenario `default-cached`: passes over the same crops of `default`, with decoded chunks kept and without.

    python -m bench.cached --size small --threads 2 --out bench/results/default-cached-host.json

Both pipelines are in one process and take turns, so that both see the same machine. `first` and later passes are by the
clock and by processor time, in GB/s of finished batches; `equal` compares all elements of the first pass.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time

import numpy as np

import damacy
from bench import machine, workload, writer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=workload.SIZES, default="small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    scenario = workload.scenario("default", arguments.size)
    writer.prepare(scenario.arrays)
    cache_bytes = int(1.15 * scenario.raw_bytes)
    with run(scenario, arguments, 0) as plain, run(scenario, arguments, cache_bytes) as cached:
        equal = all((one == other).all() for one, other in zip(arrays(plain, scenario), arrays(cached, scenario)))
        passes = [{"plain": timed(plain, scenario), "cached": timed(cached, scenario)} for _ in range(arguments.passes)]
        stats = dataclasses.asdict(cached.stats())
    result = machine.describe() | {"command": ["python", "-m", "bench.cached", *sys.argv[1:]]}
    result |= {"scenario": "default-cached", "size": arguments.size, "cache_bytes": cache_bytes, "equal": equal}
    result |= {"passes": passes, "counters": {name: n for name, n in stats.items() if name.startswith("cache_")}}
    for by in ("wall_gb_per_s", "cpu_gb_per_s"):
        result[f"cached_to_plain_{by}"] = statistics.median(p["cached"][by] / p["plain"][by] for p in passes)
        print(by, "cached to plain:", round(result[f"cached_to_plain_{by}"], 2))
    print("equal:", equal, result["counters"])
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def run(scenario: workload.Scenario, arguments: argparse.Namespace, cache_bytes: int) -> damacy.Pipeline:
    config = damacy.Config(
        batch_size=scenario.batch_size,
        dtype=arguments.dtype,
        device="cpu",
        n_io_threads=arguments.threads,
        host_buffer_bytes=256 << 20,
        device_buffer_bytes=256 << 20,
        cache_bytes=cache_bytes,
    )
    return damacy.Pipeline(config)


def batches(pipeline: damacy.Pipeline, scenario: workload.Scenario):
    uris = [str(array.path) for array in scenario.arrays]
    wanted = scenario.first_batches(scenario.batches)
    pipeline.push([damacy.Sample(uris[array], box) for batch in wanted for array, box in batch])
    yield from pipeline.batches(len(wanted))


def arrays(pipeline: damacy.Pipeline, scenario: workload.Scenario):
    for batch in batches(pipeline, scenario):
        with batch:
            yield np.array(batch.numpy())


def timed(pipeline: damacy.Pipeline, scenario: workload.Scenario) -> dict[str, float]:
    start, cpu, size = time.perf_counter(), time.process_time(), 0
    for batch in batches(pipeline, scenario):
        with batch:
            size += batch.numpy().nbytes
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"wall_gb_per_s": size / wall / 1e9, "cpu_gb_per_s": size / cpu / 1e9}


if __name__ == "__main__":
    main()
