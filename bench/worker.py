"""One loader in a process of its own: runs batches on request, and measures time, processor time and memory.

Reads commands from standard input and writes results to standard output, each a line of JSON. Does not know the other
loaders; run.py decides which one runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench import workload
from bench.peers import LOADERS, Loader, Setting


class Bench:
    """An open loader and the crops that it must read."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.scenario = loader.setting.scenario
        total = self.scenario.warmup + self.scenario.batches
        self.batches = self.scenario.first_batches(total)
        self.resident_before = resident_bytes()
        reset_peak()
        start = time.perf_counter()
        loader.open()
        self.open_s = time.perf_counter() - start

    def run(self, warmup: int, batches: int, limit_s: float) -> dict[str, Any]:
        """Warms up, then runs those of `batches` that start within the limit. No batch is under way at the start."""
        loader = self.loader
        for _ in loader.batches(until(time.perf_counter() + limit_s, self.batches[:warmup])):
            pass
        loader.counters()
        timed = self.batches[self.scenario.warmup :][:batches]
        finished = [time.perf_counter()]
        cpu = time.process_time()
        for _ in loader.batches(until(finished[0] + limit_s, timed)):
            finished.append(time.perf_counter())
        cpu = time.process_time() - cpu
        explained = loader.explain()  # before the counters are read, which resets them
        gaps = [b - a for a, b in itertools.pairwise(finished)]
        done = len(gaps)
        return {
            "batches": done,
            "bytes": done * loader.setting.batch_bytes,
            "wall_s": finished[-1] - finished[0],
            "cpu_s": cpu,
            "gaps_s": gaps,
            "counters": loader.counters(),
            "open_s": self.open_s,
            "rss_before": self.resident_before,
            "rss_growth": peak_bytes() - self.resident_before,
            "rss_bound": loader.memory_bound(),
            "explain": explained,
        }

    def digest(self, batches: int) -> list[str]:
        """SHA-256 of the first batches: equal digests are equal bytes."""
        wanted = self.batches[:batches]
        arrays = map(self.loader.as_array, self.loader.batches(wanted))
        return [hashlib.sha256(array.view("u1").reshape(-1)).hexdigest() for array in arrays]


def until(deadline: float, wanted: list) -> Iterator:
    """Stops when time is up, so that slow loaders run fewer of the same batches. The first is always yielded."""
    for number, batch in enumerate(wanted):
        if number and time.perf_counter() > deadline:
            return
        yield batch


def resident_bytes() -> int:
    return _status_kib("VmRSS") * 1024


def peak_bytes() -> int:
    return _status_kib("VmHWM") * 1024


def reset_peak() -> None:
    """Resets the kernel's peak of resident memory; if that is not allowed, the peak is since the process started."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _status_kib(name: str) -> int:
    with open("/proc/self/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(name)), 0)


def main() -> None:
    order = json.loads(sys.argv[1])
    scenario = workload.scenario(order["scenario"], order["size"])
    setting = Setting(scenario, order["threads"], order["dtype"], order["device"], order["config"])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to standard error
    try:
        bench = Bench(LOADERS[order["loader"]](setting))
        answer: Any = {"ready": True}
    except Exception as error:  # reported to run.py, which leaves this loader out and prints the reason
        answer = {"error": f"{type(error).__name__}: {error}"}
        bench = None
    print(json.dumps(answer), file=answers, flush=True)
    if bench is None:
        return
    for line in sys.stdin:
        command, arguments = json.loads(line)
        if command == "quit":
            break
        try:
            answer = getattr(bench, command)(**arguments)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    bench.loader.close()


if __name__ == "__main__":
    main()
