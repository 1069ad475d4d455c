"""Runs scenarios: each loader in a process of its own, in turns, with the machine's ceilings measured in between.

Knows the order of measurements and computes figures from them. Does not load crops (worker.py, peers.py) and does not
print tables (report.py).
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import cold, machine, report, workload, writer
from bench.peers import LOADERS, Damacy

RESULTS = Path(__file__).resolve().parent / "results"
OURS = Damacy.name


class Worker:
    """The process of a loader, connected by pipes."""

    def __init__(
        self, loader: str, order: dict, environment: dict[str, str] | None = None, folder: Path | None = None
    ) -> None:
        command = [sys.executable, "-m", "bench.worker", json.dumps(order | {"loader": loader})]
        self.name = loader
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, **pipes, env=environment, cwd=folder, text=True)
        self.refused = self._answer().get("error")

    def call(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([command, arguments]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"error": f"{self.name} ended with code {self._process.wait()}"}

    def close(self) -> None:
        assert self._process.stdin
        if self._process.poll() is None:
            self._process.stdin.write('["quit", {}]\n')
            self._process.stdin.close()
        self._process.wait(timeout=60)


def measure(name: str, options: argparse.Namespace) -> dict:
    """One scenario: all loaders, all repetitions, the ceilings."""
    scenario = workload.scenario(name, options.size)
    written = writer.prepare(scenario.arrays, report.writing(name))
    touch(scenario)
    order = {"scenario": name, "size": options.size, "threads": options.threads, "dtype": options.dtype}
    order |= {"device": options.device, "config": options.config}
    workers = [Worker(loader, order) for loader in options.loaders]
    result: dict = {"scenario": name, "refused": {w.name: w.refused for w in workers if w.refused}}
    able = [worker for worker in workers if not worker.refused]
    try:
        if not options.no_verify:
            result["equal"] = compare([worker for worker in able if LOADERS[worker.name].same_batches])
        rounds: dict[str, list] = {worker.name: [] for worker in able}
        ceilings = []
        for repetition in range(options.reps):
            report.repetition(name, repetition, options.reps)
            ceilings.append(measure_ceilings(order))
            for worker in able if repetition % 2 == 0 else reversed(able):
                rounds[worker.name].append(run_one(worker, scenario, options))
    finally:
        for worker in workers:
            worker.close()
    result["data"] = {key: sum(record[key] for record in written) for key in ("raw_bytes", "stored_bytes")}
    result["data"]["digest_known"] = written[0]["sha256_known"]
    result["ceilings"] = middle(ceilings)
    result["loaders"] = {loader: summary(runs, options.threads) for loader, runs in rounds.items() if runs}
    if OURS in result["loaders"]:
        result["ratios"] = ratios(rounds)
        result["work_as_planned"] = check_work(result["loaders"][OURS], scenario)
        result["loaders"][OURS]["cpu_over_reading"] = cpu_over_reading(rounds[OURS], result["ceilings"]["rates"])
    return result


def run_one(worker: Worker, scenario: workload.Scenario, options: argparse.Namespace) -> dict:
    answer = worker.call("run", warmup=scenario.warmup, batches=scenario.batches, limit_s=options.limit_s)
    if "error" in answer:
        raise SystemExit(f"{worker.name}: {answer['error']}")
    return answer


def compare(workers: list[Worker], batches: int = 2) -> dict[str, bool]:
    """Whether the first batches of each loader are byte-equal to those of the first loader."""
    digests = {worker.name: worker.call("digest", batches=batches) for worker in workers}
    for name, digest in digests.items():
        if not isinstance(digest, list):
            raise SystemExit(f"{name}: {digest['error']}")
    reference = next(iter(digests.values()), [])
    return {name: digest == reference for name, digest in digests.items()}


def touch(scenario: workload.Scenario) -> None:
    """Read every file once, so that all loaders find them in the page cache."""
    buffer = bytearray(4 << 20)
    for array in scenario.arrays:
        for path in array.path.rglob("*"):
            if path.is_file():
                with open(path, "rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass


def measure_ceilings(order: dict) -> dict:
    command = [sys.executable, "-m", "bench.ceilings", json.dumps(order)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def middle(results: list) -> Any:
    """The median of every number in structures of one shape. Other values must be equal; the first is used."""
    first = results[0]
    if isinstance(first, dict):
        return {key: middle([result[key] for result in results]) for key in first}
    if isinstance(first, float):
        return statistics.median(results)
    return first


def summary(runs: list[dict], threads: int) -> dict:
    """Medians over the repetitions. `free_cores` is what the threads would reach without other load on the machine."""
    rates = [run["bytes"] / run["wall_s"] for run in runs]
    cpu_per_byte = statistics.median(run["cpu_s"] / run["bytes"] for run in runs)
    gaps = sorted(between_batches(runs))
    return {
        "bytes_per_s": statistics.median(rates),
        "spread": (max(rates) - min(rates)) / statistics.median(rates),
        "each": rates,
        "cpu_s_per_gb": cpu_per_byte * 1e9,
        "free_cores_bytes_per_s": threads / cpu_per_byte,
        "batches": runs[0]["batches"],
        "first_gap_s": statistics.median(run["gaps_s"][0] for run in runs),
        "gap_mean_s": statistics.mean(gaps),
        "gap_p50_s": percentile(gaps, 0.50),
        "gap_p99_s": percentile(gaps, 0.99),
        "gap_p99_over_mean": percentile(gaps, 0.99) / statistics.mean(gaps),
        "gaps_s": [round(gap, 6) for gap in runs[-1]["gaps_s"]],
        "open_s": runs[0]["open_s"],
        "rss_growth": runs[-1]["rss_growth"],
        "rss_bound": runs[-1]["rss_bound"],
        "counters": runs[-1]["counters"],
        "explain": runs[-1]["explain"],
    }


def between_batches(runs: list[dict]) -> list[float]:
    """Times between batches. The first of a run, which fills the pipeline, counts only if it is the only one."""
    return [gap for run in runs for gap in run["gaps_s"][1:] or run["gaps_s"]]


def percentile(ascending: list[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    return ascending[max(1, math.ceil(share * len(ascending))) - 1]


def cpu_over_reading(runs: list[dict], rates: dict) -> float | None:
    """Processor time of streaming, divided by that of only reading as many bytes into staging memory."""
    read = [run for run in runs if run["counters"].get("bytes_read")]
    if not read:
        return None
    ours = statistics.median(run["cpu_s"] / run["counters"]["bytes_read"] for run in read)
    return ours / rates["read_to_staging"]["cpu_s_per_byte"]


def ratios(rounds: dict[str, list]) -> dict[str, dict[str, float]]:
    """damacy's rate divided by each peer's: by the clock (median over repetitions) and by processor time."""
    answer = {}
    for peer, theirs in rounds.items():
        pairs = list(zip(rounds[OURS], theirs))
        if peer != OURS and pairs:
            answer[peer] = {
                "wall": statistics.median((a["bytes"] / a["wall_s"]) / (b["bytes"] / b["wall_s"]) for a, b in pairs),
                "cpu": statistics.median((a["bytes"] / a["cpu_s"]) / (b["bytes"] / b["cpu_s"]) for a, b in pairs),
            }
    return answer


def check_work(ours: dict, scenario: workload.Scenario) -> dict:
    """Compares the counters with an independent count from the crops: each chunk is decoded once or deduplicated."""
    wanted = workload.count_chunks(scenario, ours["batches"])
    counters = ours["counters"]
    decoded, saved = counters.get("chunks_decoded", 0), counters.get("chunks_deduplicated", 0)
    return {
        "batches": ours["batches"],
        "counted": {"chunks_decoded": decoded, "chunks_deduplicated": saved},
        "wanted": wanted,
        "every_need_counted": decoded + saved == wanted["touches"],
        "once_within_a_batch": decoded <= wanted["distinct"],
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description="damacy and its peers on the same crops")
    parser.add_argument("--scenario", default="host", help="names with commas, `host` or `all`")
    parser.add_argument("--size", choices=workload.SIZES, default="small")
    parser.add_argument("--threads", type=int, default=2, help="for every loader")
    parser.add_argument("--peers", default="tensorstore,tensorstore-read,zarr", help=f"of {', '.join(LOADERS)}")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a field of damacy.Config")
    parser.add_argument("--limit-s", type=float, default=20, help="start no batch of a run after so many seconds")
    parser.add_argument("--out", help="name of the result in bench/results, or a path that ends in .json")
    parser.add_argument("--commit", default="", help="for a machine without git")
    parser.add_argument("--data-only", action="store_true", help="write the data sets and stop")
    parser.add_argument("--no-verify", action="store_true", help="do not compare the loaders' batches")
    parser.add_argument("--no-ours", action="store_true", help="measure only the peers")
    parser.add_argument("--no-cold", action="store_true", help="do not measure cold processes")
    options = parser.parse_args(arguments)
    groups = {"host": workload.HOST_SCENARIOS, "all": tuple(workload.SCENARIOS)}
    options.scenarios = groups.get(options.scenario) or options.scenario.split(",")
    unknown = set(options.scenarios) - set(workload.SCENARIOS)
    if unknown:
        parser.error(f"unknown scenario {', '.join(sorted(unknown))}; choose from {', '.join(workload.SCENARIOS)}")
    options.config = {name: value_of(text) for name, _, text in (field.partition("=") for field in options.set)}
    options.loaders = ([] if options.no_ours else [OURS]) + [peer for peer in options.peers.split(",") if peer]
    return options


def value_of(text: str) -> Any:
    """Parses numbers such as `2<<30` and `1e9`; other text stays text."""
    amount, shift, by = text.partition("<<")
    if shift:
        return int(amount) << int(by)
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.data_only:
        arrays = [array for name in options.scenarios for array in workload.scenario(name, options.size).arrays]
        writer.prepare(arrays, report.writing("all"))
        return
    result: dict = machine.describe(options.commit) | {
        "command": " ".join(["python -m bench", *(arguments if arguments is not None else sys.argv[1:])]),
        "options": {key: getattr(options, key) for key in ("size", "threads", "reps", "dtype", "device", "config")},
        "scenarios": [],
    }
    if not options.no_ours and not options.no_cold:
        result["cold"] = cold.measure(options.device)
    for name in options.scenarios:
        measured = measure(name, options)
        result["scenarios"].append(measured)
        report.scenario(measured)
    result["load_after"] = machine.load()
    report.table(result)
    path = save(result, options.out or f"{'-'.join(options.scenarios[:2])}-{options.size}-{options.threads}")
    report.saved(path)


def save(result: dict, out: str) -> Path:
    path = Path(out) if out.endswith(".json") else RESULTS / f"{out}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path
