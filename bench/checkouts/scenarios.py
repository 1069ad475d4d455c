"""Scenarios of the benchmark in two checkouts, in turn: rates and processor time.

    python -m bench.checkouts.scenarios --before FOLDER --scenario throughput,smoke --device cuda --threads 16

FOLDER is a checkout of another commit with its extension built. Each checkout has a process of its own a scenario, with
its own `bench` and `damacy`, and they take turns. Both read the same data and, first, deliver the same bytes (`equal`).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys

from bench import machine, report, workload, writer
from bench.run import OURS, Worker, between_batches, compare, percentile, run_one, touch, value_of

HERE = pathlib.Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--before-commit", default="", help="for a machine without git")
    parser.add_argument("--commit", default="", help="for a machine without git")
    parser.add_argument("--scenario", default="default,blosc-lz4")
    parser.add_argument("--size", choices=workload.SIZES, default="small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a field of damacy.Config")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--limit-s", type=float, default=20)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    options.config = {name: value_of(text) for name, _, text in (field.partition("=") for field in options.set)}
    result = machine.describe(options.commit) | {"before": options.before_commit, "scenarios": {}}
    result["command"] = " ".join(["python -m bench.checkouts.scenarios", *sys.argv[1:]])
    for name in options.scenario.split(","):
        result["scenarios"][name] = measured(name, options)
        print(name, json.dumps(result["scenarios"][name]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(result, indent=1) + "\n")


def measured(name: str, options: argparse.Namespace) -> dict:
    scenario = workload.scenario(name, options.size)
    writer.prepare(scenario.arrays, report.writing(name))
    touch(scenario)
    order = {"scenario": name, "size": options.size, "threads": options.threads, "dtype": options.dtype}
    order |= {"device": options.device, "config": options.config}
    trees = {"before": options.before.resolve(), "now": HERE}
    workers = {tree: Worker(OURS, order, environment_of(folder), folder) for tree, folder in trees.items()}
    runs: dict[str, list[dict]] = {tree: [] for tree in trees}
    try:
        for tree, worker in workers.items():
            worker.name = tree
            if worker.refused:
                raise SystemExit(f"{tree}: {worker.refused}")
        equal = compare(list(workers.values()))
        for turn in range(options.turns + 1):
            for tree in trees if turn % 2 else reversed(trees):
                run = run_one(workers[tree], scenario, options)
                if turn > 0:  # the first turn warms up
                    runs[tree].append(run)
    finally:
        for worker in workers.values():
            worker.close()
    rates = {tree: [run["bytes"] / run["wall_s"] for run in of] for tree, of in runs.items()}
    cores = {tree: [run["cpu_s"] / run["bytes"] * 1e9 for run in of] for tree, of in runs.items()}
    return {
        "equal": equal["now"],
        "gb_per_s": {tree: [round(rate / 1e9, 3) for rate in of] for tree, of in rates.items()},
        "rate_now_to_before": ratio(rates),
        "rate_now_to_before_best": round(max(rates["now"]) / max(rates["before"]), 4),
        "cpu_s_per_gb": {tree: round(statistics.median(of), 4) for tree, of in cores.items()},
        "cpu_now_to_before": ratio(cores),
        "gap_p99_over_mean": {tree: p99_over_mean(of) for tree, of in runs.items()},
        "explain": {tree: of[-1]["explain"] for tree, of in runs.items()},
    }


def environment_of(tree: pathlib.Path) -> dict[str, str]:
    paths = [str(tree / "python"), str(tree), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": ":".join(filter(None, paths))}


def ratio(figures: dict[str, list[float]]) -> float:
    """The median over the turns."""
    return round(statistics.median(n / b for n, b in zip(figures["now"], figures["before"], strict=True)), 4)


def p99_over_mean(runs: list[dict]) -> float:
    gaps = sorted(between_batches(runs))
    return round(percentile(gaps, 0.99) / statistics.mean(gaps), 2)


if __name__ == "__main__":
    main()
