"""Readers of the same samples by turns in one run, and ratios of their times. Knows no data and no library."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench import machine

Reader = Callable[[Any, int], Iterator[float]]  # of the data and a number of threads; yields a sum over each batch


def by_turns(readers: dict[str, Reader], data: Any, threads: int, reps: int, batches_bytes: int) -> dict[str, Any]:
    """Rates of all readers, and how often the first one is as fast as each other. The first turn is not counted.

    `batches_bytes`: of all batches but the first, from which on time is measured.
    """
    wall: dict[str, list[float]] = {name: [] for name in readers}
    cpu: dict[str, list[float]] = {name: [] for name in readers}
    sums: dict[str, float] = {}
    for rep in range(reps + 1):
        for name, reader in readers.items():
            seconds, cpu_seconds, sums[name] = timed(reader, data, threads)
            if rep > 0:
                wall[name].append(seconds)
                cpu[name].append(cpu_seconds)
    ours, *others = readers
    gb = batches_bytes / 1e9
    median = {name: statistics.median(seconds) for name, seconds in wall.items()}
    return {
        "gb_per_s": {name: [round(gb / s, 3) for s in seconds] for name, seconds in wall.items()},
        "cpu_s_per_gb": {name: round(statistics.median(seconds) / gb, 3) for name, seconds in cpu.items()},
        "ratios": {f"{ours} / {name}": round(median[name] / median[ours], 2) for name in others},
        "sums": sums,
    }


def timed(reader: Reader, data: Any, threads: int) -> tuple[float, float, float]:
    """Seconds from the first batch on, processor seconds with those of workers, and a sum over all batches."""
    batches = reader(data, threads)
    total = next(batches)
    start, cpu_before = time.perf_counter(), cpu_seconds()
    for one in batches:
        total += one
    return time.perf_counter() - start, cpu_seconds() - cpu_before, total


def cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run(measure: Callable[[pathlib.Path, int, int], dict[str, Any]], description: str | None) -> None:
    """The command line of a benchmark whose `measure` takes a folder, a number of turns, and of threads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="threads, or worker processes")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        result = machine.describe() | measure(pathlib.Path(folder), options.reps, options.threads)
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
