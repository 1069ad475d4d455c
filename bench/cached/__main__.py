"""The scenarios `default-cached`, `never-hit-cached` and `filling-cached`: passes over crops, with decoded chunks kept
and without.

    python -m bench.cached --size small --threads 2 --peer tensorstore --out bench/results/default-cached-host.json
    python -m bench.cached --scenario never-hit-cached --threads 2 --out bench/results/never-hit-cached-host.json

All loaders are in one process and take turns, so that they see the same machine. Passes are by the clock and by
processor time, in GB/s of finished batches; `equal` compares all elements of the first pass.

* `default-cached`: passes over the same crops of `default`, of which the first is not counted. The cache holds all
  chunks. `--peer tensorstore` adds TensorStore with a cache pool of the same size.
* `never-hit-cached`: each chunk once, after another array has filled the cache: what a cache costs that is of no use.
* `filling-cached`: each chunk once, into an empty cache that holds all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench import machine, peers, workload, writer

Crops = list[list[workload.Crop]]
BATCH_OF_CHUNKS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", choices=SCENARIOS, default="default-cached")
    parser.add_argument("--size", choices=workload.SIZES, default="small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--peer", choices=["tensorstore"])
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    np.ones(4 << 30 if arguments.size != "tiny" else 1, "u1")  # a virtual machine gives memory slowly at its first use
    result = machine.describe() | {"command": ["python", "-m", "bench.cached", *sys.argv[1:]]}
    result |= {"scenario": arguments.scenario, "size": arguments.size} | SCENARIOS[arguments.scenario](arguments)
    for loader in [name for name in result["passes"][0] if name != "cached"]:
        for by in ("wall_gb_per_s", "cpu_gb_per_s"):
            ratio = statistics.median(each["cached"][by] / each[loader][by] for each in result["passes"])
            result[f"cached_to_{loader}_{by}"] = ratio
            print(by, f"cached to {loader}:", round(ratio, 3))
    print("equal:", result.get("equal"), result["counters"])
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def default_cached(arguments: argparse.Namespace) -> dict[str, Any]:
    scenario = workload.scenario("default", arguments.size)
    writer.prepare(scenario.arrays)
    cache_bytes = int(1.15 * scenario.raw_bytes)
    loaders: dict[str, peers.Loader] = {"plain": damacy(scenario, arguments, 0)}
    loaders["cached"] = damacy(scenario, arguments, cache_bytes)
    if arguments.peer:
        peer = peers.LOADERS[arguments.peer](setting(scenario, arguments))
        peer.cache_bytes = cache_bytes
        loaders[arguments.peer] = peer
    for loader in loaders.values():
        loader.open()
    wanted = scenario.first_batches(scenario.batches)
    copies = [copies_of(loader, wanted) for loader in loaders.values()]
    equal = all((one == other).all() for one, *others in zip(*copies) for other in others)
    passes = in_turn({name: lambda loader=loader: timed(loader, wanted) for name, loader in loaders.items()}, arguments)
    counters = cache_counters(loaders["cached"])
    for loader in loaders.values():
        loader.close()
    return {"cache_bytes": cache_bytes, "equal": equal, "passes": passes, "counters": counters}


def never_hit_cached(arguments: argparse.Namespace) -> dict[str, Any]:
    return each_chunk_once(arguments, 64 << 20, fills=True)


def filling_cached(arguments: argparse.Namespace) -> dict[str, Any]:
    scenario = workload.scenario("default", arguments.size)
    return each_chunk_once(arguments, int(1.15 * scenario.raw_bytes), fills=False)


def each_chunk_once(arguments: argparse.Namespace, cache_bytes: int, *, fills: bool) -> dict[str, Any]:
    """A new loader for each pass. With `fills`, the first array fills the cache, and a pass reads the others."""
    scenario = dataclasses.replace(workload.scenario("default", arguments.size), batch_size=BATCH_OF_CHUNKS)
    scenario = dataclasses.replace(scenario, crop=scenario.chunk)
    writer.prepare(scenario.arrays)
    cells = list(workload.cells_of([(0, size) for size in scenario.shape], scenario.chunk))
    boxes = [tuple((c * n, (c + 1) * n) for c, n in zip(cell, scenario.chunk)) for cell in cells]

    def batches(arrays: range) -> Crops:
        crops = [(array, box) for array in arrays for box in boxes]
        return [crops[k : k + BATCH_OF_CHUNKS] for k in range(0, len(crops), BATCH_OF_CHUNKS)]

    seen: dict[str, Any] = {}

    def one_pass(name: str, size: int) -> dict[str, float]:
        loader = damacy(scenario, arguments, size)
        loader.open()
        for _ in loader.batches(batches(range(1))[: None if fills else 1]):
            pass
        loader.counters()
        try:
            return timed(loader, batches(range(1, scenario.n_arrays)))
        finally:
            seen[name] = cache_counters(loader)
            loader.close()

    runs = {"plain": lambda: one_pass("plain", 0), "cached": lambda: one_pass("cached", cache_bytes)}
    for run in runs.values():  # files into the page cache
        run()
    return {"cache_bytes": cache_bytes, "passes": in_turn(runs, arguments), "counters": seen["cached"]}


def in_turn(runs: dict[str, Callable[[], dict[str, float]]], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Passes of all loaders; every second time in the reverse order."""
    passes = []
    for number in range(arguments.passes):
        names = list(runs)[:: -1 if number % 2 else 1]
        found = {name: runs[name]() for name in names}
        passes.append({name: found[name] for name in runs})
    return passes


def setting(scenario: workload.Scenario, arguments: argparse.Namespace, **config: Any) -> peers.Setting:
    return peers.Setting(scenario, arguments.threads, arguments.dtype, "cpu", config)


def damacy(scenario: workload.Scenario, arguments: argparse.Namespace, cache_bytes: int) -> peers.Loader:
    return peers.LOADERS["damacy"](
        setting(scenario, arguments, **({"cache_bytes": cache_bytes} if cache_bytes else {}))
    )


def cache_counters(loader: peers.Loader) -> dict[str, Any]:
    return {name: number for name, number in loader.counters().items() if name.startswith("cache_")}


def copies_of(loader: peers.Loader, wanted: Crops) -> Iterator[np.ndarray]:
    for batch in loader.batches(wanted):
        yield np.array(loader.as_array(batch))


def timed(loader: peers.Loader, wanted: Crops) -> dict[str, float]:
    start, cpu, size = time.perf_counter(), time.process_time(), 0
    for _ in loader.batches(wanted):
        size += loader.setting.batch_bytes
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"wall_gb_per_s": size / wall / 1e9, "cpu_gb_per_s": size / cpu / 1e9}


SCENARIOS = {
    "default-cached": default_cached,
    "never-hit-cached": never_hit_cached,
    "filling-cached": filling_cached,
}

if __name__ == "__main__":
    main()
