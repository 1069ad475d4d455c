"""The scenarios `…-processes-cached`: processes that read the same arrays, each in its own order, with one GPU each.

    python -m bench.gpu.processes --counts 1,4 --devices cuda:0,cuda:1,cuda:2,cuda:3 \\
        --out bench/results/processes-cached-h200-x4.json

Four arms in turn, each by as many processes as `--counts` says: `none`, `device` (`device_cache_bytes`), `own`
(`host_cache_bytes`) and `shared` (`Config.host_cache`, one for all). The processes of an arm begin each pass together.
Rates are GB/s of finished batches (10⁹ bytes) of all processes, from the first start to the last end; the first pass
fills and is not counted. `read_gb` are the encoded bytes that all processes read from the store in a pass, `hits` the
share of look-ups, `cores` processor time by the clock. `equal`: the digests of the first batches agree in all arms.
`times_one` is the rate divided by that of one process with the same cache, `p99_by_mean` the longest time between two
batches of 100, by the mean, in the process where it is worst. With `--devices cpu` only `none` and `shared` can run.

With `--shard-by order` or `chunk` the processes are the ranks of a `Loader` over random crops: `chunk` gives each rank
chunks of its own, so that the device tiers of all hold as much more as there are ranks. `--thread-cores all` lets the
threads of each process run on all cores, not on its share.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import damacy
from bench import machine, workload, writer
from damacy.samplers import RandomCrops
from damacy.training import Loader

ARMS = ("none", "device", "own", "shared")
MEDIANS = ("gb_per_s", "cores", "hits", "p99_by_mean")
DIGESTS = 30  # batches of each process
TIMEOUT_S = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="throughput")
    parser.add_argument("--size", choices=workload.SIZES, default="full")
    parser.add_argument("--counts", default="1,4", help="processes")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--devices", default="cuda:0", help="by process, used again in turn")
    parser.add_argument("--threads", type=int, default=16, help="of each process")
    parser.add_argument("--passes", type=int, default=4, help="the first is not counted")
    parser.add_argument("--batches", type=int, default=100, help="of each process and pass")
    parser.add_argument("--cache-gib", type=float, default=4)
    parser.add_argument("--shard-by", choices=("order", "chunk"), help="read as the ranks of a Loader")
    parser.add_argument("--thread-cores", choices=("rank", "all"), default="rank", help="of each process")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    scenario = workload.scenario(arguments.scenario, arguments.size)
    writer.prepare(scenario.arrays)
    result = machine.describe() | {"command": ["python", "-m", "bench.gpu.processes", *sys.argv[1:]]}
    result |= {"scenario": f"{arguments.scenario}-processes-cached", "equal": True, "runs": []}
    digests: dict[tuple[int, int], list[int]] = {}
    for arm in arguments.arms.split(","):
        for count in map(int, arguments.counts.split(",")):
            run, found = run_arm(arm, count, arguments)
            for number, digest in found.items():
                same = (count if arguments.shard_by else 0, number)  # ranks divide an epoch by their number
                result["equal"] &= digests.setdefault(same, digest) == digest
            one = next((other for other in result["runs"] if (other["arm"], other["processes"]) == (arm, 1)), run)
            run["times_one"] = run["gb_per_s"] / one["gb_per_s"] if one["processes"] == 1 else None
            result["runs"].append(run)
            print(arm, count, {name: run[name] for name in (*MEDIANS, "times_one")}, flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print("equal:", result["equal"])


def run_arm(arm: str, count: int, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[int, list[int]]]:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(count), context.Queue()
    given = vars(arguments) | {"out": None, "count": count, "name": f"bench-{uuid.uuid4().hex}"}
    processes = [
        context.Process(target=answer, args=(arm, number, given, barrier, answers), daemon=True)
        for number in range(count)
    ]
    for process in processes:
        process.start()
    found = sorted((answers.get(timeout=TIMEOUT_S) for _ in processes), key=lambda one: one["number"])
    for process in processes:
        process.join(timeout=TIMEOUT_S)
    if errors := [one["error"] for one in found if "error" in one]:
        raise RuntimeError(f"{arm}: {errors[0]}")
    passes = [added(one) for one in zip(*(one["passes"] for one in found), strict=True)]
    medians = {name: statistics.median(one[name] for one in passes[1:]) for name in MEDIANS}
    run = {"arm": arm, "processes": count} | medians | {"passes": passes}
    return run, {one["number"]: one["digests"] for one in found}


def added(processes: tuple[dict[str, Any], ...]) -> dict[str, float]:
    """A pass of all processes."""
    seconds = max(one["end"] for one in processes) - min(one["begin"] for one in processes)
    sums = {name: sum(one[name] for one in processes) for name in ("bytes", "cpu", "read", "hits", "misses")}
    lookups = sums["hits"] + sums["misses"]
    return {
        "gb_per_s": sums["bytes"] / seconds / 1e9,
        "cores": sums["cpu"] / seconds,
        "read_gb": sums["read"] / 1e9,
        "hits": sums["hits"] / lookups if lookups else 0,
        "p99_by_mean": max(one["p99_by_mean"] for one in processes),
    }


def answer(arm: str, number: int, given: dict[str, Any], barrier: Any, answers: Any) -> None:
    try:
        answers.put({"number": number} | work(arm, number, given, barrier))
    except Exception as error:  # the others do not wait for it
        barrier.abort()
        answers.put({"number": number, "error": f"{type(error).__name__}: {error}"})


def work(arm: str, number: int, given: dict[str, Any], barrier: Any) -> dict[str, Any]:
    os.environ |= {"LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": str(given["count"])}
    devices = given["devices"].split(",")
    size = int(given["cache_gib"] * (1 << 30))
    fields: dict[str, Any] = {
        "none": {},
        "device": {"device_cache_bytes": size},
        "own": {"host_cache_bytes": size},
        "shared": {"host_cache": damacy.SharedCache(given["name"], size)},
    }
    is_full = given["size"] == "full"
    config = damacy.Config(
        batch_size=workload.scenario(given["scenario"], given["size"]).batch_size,
        device=devices[number % len(devices)],
        n_io_threads=given["threads"],
        n_compute_threads=given["threads"] - 1,
        host_buffer_bytes=(2 << 30) if is_full else (64 << 20),
        device_buffer_bytes=(6 << 30) if is_full else (256 << 20),
        n_batches=4,
        lookahead_batches=4,
        thread_cores=given["thread_cores"],
        **fields[arm],
    )
    digests: list[int] = []
    passes = []
    with reader_of(config, number, given) as (reader, epoch):
        for batch in epoch(DIGESTS):
            with batch:
                digests.append(digest_of(batch, config.device == "cpu"))
        for _ in range(given["passes"]):
            before = counters(reader)
            barrier.wait(timeout=TIMEOUT_S)
            cpu, times = time.process_time(), [time.clock_gettime(time.CLOCK_MONOTONIC)]
            size = 0
            for batch in epoch(given["batches"]):
                size += math.prod(batch.shape) * 4
                batch.release()
                times.append(time.clock_gettime(time.CLOCK_MONOTONIC))
            cpu = time.process_time() - cpu
            after = counters(reader)
            gaps = np.diff(times)
            passes.append(
                {"begin": times[0], "end": times[-1], "cpu": cpu, "bytes": size}
                | {"p99_by_mean": float(np.quantile(gaps, 0.99) / gaps.mean())}
                | {name: after[name] - before[name] for name in after}
            )
        barrier.wait(timeout=TIMEOUT_S)  # the memory goes with its last user
    return {"passes": passes, "digests": digests}


@contextlib.contextmanager
def reader_of(config: damacy.Config, number: int, given: dict[str, Any]) -> Iterator[tuple[Any, Callable[[int], Any]]]:
    """What reads, and a function that gives so many batches of a pass."""
    if given["shard_by"] is None:
        samples = samples_of(number, given)

        def pushed(count: int) -> Iterator[damacy.Batch]:
            pipeline.push(samples[: count * config.batch_size])
            yield from pipeline.batches(count)

        with damacy.Pipeline(config) as pipeline:
            yield pipeline, pushed
        return
    scenario = workload.scenario(given["scenario"], given["size"])
    crops = RandomCrops(
        [str(array.path) for array in scenario.arrays],
        scenario.crop,
        length=given["batches"] * config.batch_size * given["count"],
    )
    ranks = {"rank": number, "ranks": given["count"], "shard_by": given["shard_by"]}
    with Loader(crops, config, **ranks) as loader:
        yield loader, lambda count: itertools.islice(loader, count)


def counters(reader: Any) -> dict[str, int]:
    stats = reader.stats()
    return {
        "read": stats.bytes_read,
        "hits": stats.host_cache_hits + stats.device_cache_hits,
        "misses": stats.host_cache_misses + stats.device_cache_misses,
    }


def samples_of(number: int, given: dict[str, Any]) -> list[damacy.Sample]:
    """The batches of the scenario in an order of this process."""
    scenario = workload.scenario(given["scenario"], given["size"])
    uris = [str(array.path) for array in scenario.arrays]
    wanted = scenario.first_batches(given["batches"])
    order = np.random.default_rng(number).permutation(len(wanted))
    return [damacy.Sample(uris[array], box) for n in order for array, box in wanted[n]]


def digest_of(batch: damacy.Batch, on_host: bool) -> int:
    """Of the bits of all elements and their places."""
    if on_host:
        words = batch.numpy().view("i4").ravel()
        return int((words.astype("i8") * np.arange(1, words.size + 1)).sum())
    import torch

    words = torch.from_dlpack(batch).view(torch.int32).flatten()
    places = torch.arange(1, words.numel() + 1, device=words.device)
    return int((words.long() * places).sum())


if __name__ == "__main__":
    main()
