"""The scenarios `…-device-cached`: passes over the same crops into a GPU, with encoded chunks kept there and without.

    python -m bench.gpu.device_cache --scenarios throughput,micro --out bench/results/device-cached-h200.json

Both pipelines are in one process and take turns. Rates are GB/s of finished batches (10⁹ bytes), cores are processor
time by the clock; `equal` compares all elements of 30 batches on the GPU, in push order, after the first pass.
`--share` less than 1 makes the cache that share of what the scenario's arrays have encoded. `up_gb_per_s` are the bytes
that were copied to the GPU, beside `bus_gb_per_s`: large copies from page-locked memory, alone, in the same process.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import time

import damacy
from bench import machine, workload, writer

EQUAL_BATCHES = 30
COUNTERS = ("chunks_decoded", "bytes_read", "reads_issued", "chunks_decoded_on_host", "waves_emitted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default="throughput")
    parser.add_argument("--size", choices=workload.SIZES, default="full")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1)
    parser.add_argument("--keep-on", choices=("device", "host"), default="device")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="of Config")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    result = machine.describe() | {"command": ["python", "-m", "bench.gpu.device_cache", *sys.argv[1:]]}
    result["scenarios"] = []
    for name in arguments.scenarios.split(","):
        for dtype in arguments.dtypes.split(","):
            result["scenarios"].append(measure(name, dtype, arguments))
            if arguments.out:
                arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def measure(name: str, dtype: str, arguments: argparse.Namespace) -> dict:
    scenario = workload.scenario(name, arguments.size)
    writer.prepare(scenario.arrays)
    cache_bytes = int(arguments.share * max(64 << 20, encoded_bytes(scenario) * (1.05 if arguments.share == 1 else 1)))
    uris = [str(array.path) for array in scenario.arrays]
    wanted = scenario.first_batches(scenario.batches)
    samples = [damacy.Sample(uris[array], box) for batch in wanted for array, box in batch]
    with run(scenario, dtype, arguments, 0) as plain, run(scenario, dtype, arguments, cache_bytes) as cached:
        rest = (samples, len(wanted), scenario.batch_bytes(4 if dtype == "f32" else 2) * len(wanted))
        first = {"plain": timed(plain, *rest), "cached": timed(cached, *rest)}
        few = min(EQUAL_BATCHES, len(wanted))
        equal = compare(plain, cached, samples[: few * scenario.batch_size], few)
        passes = []
        for _ in range(arguments.passes):
            passes.append({"plain": timed(plain, *rest), "cached": timed(cached, *rest)})
    gb = {which: statistics.median(p[which]["gb_per_s"] for p in passes) for which in ("plain", "cached")}
    cores = {which: statistics.median(p[which]["cores"] for p in passes) for which in ("plain", "cached")}
    print(f"{name}-device-cached {dtype}: {gb['cached']:.1f} GB/s on {cores['cached']:.1f} cores, without", end=" ")
    last = passes[-1]["cached"]
    print(f"{gb['plain']:.1f} on {cores['plain']:.1f}; equal: {equal}; {last['threads']} {last['stages']}", flush=True)
    bus = bus_rate() if arguments.device != "cpu" else None
    up = statistics.median(p["cached"]["up_gb_per_s"] for p in passes)
    if bus:
        print(f"  copied up {up:.1f} GB/s, the bus alone {bus:.1f}", flush=True)
    return {
        "scenario": f"{name}-device-cached",
        "size": arguments.size,
        "dtype": dtype,
        "device_cache_bytes": cache_bytes,
        "encoded_bytes": encoded_bytes(scenario),
        "equal": equal,
        "up_gb_per_s": up,
        "bus_gb_per_s": bus,
        "gb_per_s": gb,
        "cores": cores,
        "first": first,
        "passes": passes,
    }


def encoded_bytes(scenario: workload.Scenario) -> int:
    return sum(file.stat().st_size for array in scenario.arrays for file in array.path.rglob("*") if file.is_file())


def bus_rate() -> float:
    """GB/s of copies of 8 MiB from page-locked memory to the GPU, the best of five times 1 GiB."""
    import torch

    piece, count = 8 << 20, 128
    pinned = torch.empty(piece * count, dtype=torch.uint8, pin_memory=True)
    on_gpu = torch.empty_like(pinned, device="cuda")
    best = 0.0
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for a, b in zip(on_gpu.split(piece), pinned.split(piece), strict=True):
            a.copy_(b, non_blocking=True)
        torch.cuda.synchronize()
        best = max(best, piece * count / (time.perf_counter() - start) / 1e9)
    return best


def run(scenario: workload.Scenario, dtype: str, arguments: argparse.Namespace, cache_bytes: int) -> damacy.Pipeline:
    on_gpu = arguments.device != "cpu"
    config = damacy.Config(
        batch_size=scenario.batch_size,
        dtype=dtype,
        device=arguments.device,
        n_io_threads=arguments.threads,
        n_compute_threads=arguments.threads - 1,
        host_buffer_bytes=2 << 30,
        device_buffer_bytes=6 << 30,
        n_batches=4,
        lookahead_batches=4,
    )
    field = f"{arguments.keep_on}_cache_bytes" if on_gpu or arguments.keep_on == "host" else "cache_bytes"
    more = {name: ast.literal_eval(value) for name, value in (one.split("=") for one in arguments.set)}
    return damacy.Pipeline(dataclasses.replace(config, **{field: cache_bytes}, **more))


def compare(plain: damacy.Pipeline, cached: damacy.Pipeline, samples: list, batches: int) -> bool:
    import torch

    equal = True
    for pipeline in (plain, cached):
        pipeline.push(samples)
    for one, other in zip(plain.batches(batches), cached.batches(batches), strict=True):
        with one, other:
            a, b = (torch.from_dlpack(batch).view(torch.uint8) for batch in (one, other))
            equal = equal and torch.equal(a, b)
    return equal


def timed(pipeline: damacy.Pipeline, samples: list, batches: int, size: int) -> dict:
    pipeline.stats_reset()
    before_threads = thread_seconds()
    start, cpu = time.perf_counter(), time.process_time()
    pipeline.push(samples)
    gaps = []
    before = start
    for batch in pipeline.batches(batches):
        batch.release()
        now = time.perf_counter()
        gaps.append(now - before)
        before = now
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    stats = dataclasses.asdict(pipeline.stats())
    threads = {name: s - before_threads.get(name, 0) for name, s in thread_seconds().items()}
    counters = {name: stats[name] for name in COUNTERS} | {"bytes_up": stats["h2d"]["input_bytes"]}
    counters |= {
        name: n
        for name, n in stats.items()
        if name.startswith(("device_cache_", "host_cache_")) and not name.endswith("_bytes")
    }
    later = sorted(gaps[1:])
    slow = later[int(0.99 * (len(later) - 1))] / statistics.mean(later) if later else None
    busy = {name: round(seconds / wall, 2) for name, seconds in threads.items() if seconds > 0.02 * wall}
    stages = {name: stats[name]["ms"] / wall / 1e3 for name in ("plan", "decompress", "assemble", "h2d")}
    up = counters["bytes_up"] / wall / 1e9
    return {"gb_per_s": size / wall / 1e9, "cores": cpu / wall, "p99_over_mean": slow, "up_gb_per_s": up} | {
        "threads": busy,
        "stages": stages,
        "counters": counters,
    }


def thread_seconds() -> dict[str, float]:
    """Processor time of this process's threads, added up by name."""
    seconds: dict[str, float] = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        ticks = rest.split()[11:13]
        seconds[name] = seconds.get(name, 0) + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return seconds


if __name__ == "__main__":
    main()
