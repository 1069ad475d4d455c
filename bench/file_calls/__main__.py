"""What one small request costs: `python -m bench.file_calls [--device cuda] [--bytes N ...] [--arm NAME=FOLDER ...]`.

10,000 `CuFile.pread` of 64 KiB from a file in the page cache, all started before the first is waited for, with 1 and 16
threads for I/O. Arms are folders with a built `damacy` (default: this one), the C++ program of this folder
(`--program NAME=FILE`, or `--prefix FOLDER` of an installed damacy, for which it is built), KvikIO if it is installed,
and for host memory a loop of `os.preadv` on as many threads. They run in processes of their own, by turns; `over_first`
is the median of their ratios to the first arm of the same turn.
`submit_us` is the part of `us_a_range` until the last call has returned its future; the rest is waiting for them.

`--calls gather` reads as many ranges, with gaps between them, in random order by one `preadv_packed`; `--calls bulk` as
many bytes by one `read`. Several kinds of calls and several sizes are measured one after the other. The last lines
compare the preads with what they must reach.

    python -m bench.file_calls --device cuda --bytes 65536 4096 --calls pread gather bulk --prefix FOLDER

`--engine` compares engines of damacy, `--cold` empties the page cache before each round and says which part of the file
was in it. Knows rates; not what makes them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
GAP = 16 << 10  # more than damacy reads in vain to merge ranges
KIB = 1 << 10
# Of 10,000 preads: GB/s into memory of an H100 or H200, by library and bytes of a call; and for host memory the rate of
# damacy over that of the loop of `os.preadv`.
MUST_REACH = {("damacy", 64 * KIB): 10.0, ("C++", 64 * KIB): 25.0, ("damacy", 4 * KIB): 0.8}
MUST_REACH_OVER_LOOP = {64 * KIB: 1.0, 4 * KIB: 1.0}
COUNTERS = ("copies", "copy_batches", "io_uring_read_calls", "pread_read_calls", "inline_read_calls")


@dataclasses.dataclass(frozen=True)
class Task:
    """What one process measures."""

    library: str
    device: str
    path: str
    count: int
    size: int
    threads: int
    rounds: int
    calls: str
    engine: str
    cold: bool
    own_stream: bool = False


def memory_of(task: Task) -> Any:
    if task.device == "cuda":
        import torch

        if task.own_stream:
            torch.cuda.set_stream(torch.cuda.Stream())
        memory = torch.zeros(task.count * task.size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        return memory
    import numpy as np

    return np.ones(task.count * task.size, np.uint8)  # touched


def loop_of_preadv(task: Task, memory: Any) -> Callable[[], int]:
    descriptor, size = os.open(task.path, os.O_RDONLY), task.size
    pool = ThreadPoolExecutor(task.threads)

    def share(first: int) -> int:
        return sum(
            os.preadv(descriptor, [memory[i * size : (i + 1) * size]], i * size)
            for i in range(first, task.count, task.threads)
        )

    return lambda: sum(pool.map(share, range(task.threads)))


def calls_of(file: Any, task: Task, memory: Any, submits: list[float]) -> Callable[[], int]:
    """One round of calls; gives the bytes read. `submits`: the seconds until all have been started, of each round."""
    count, size = task.count, task.size

    def preads() -> int:
        start = time.perf_counter()
        futures = [file.pread(memory[i * size : (i + 1) * size], size, i * size) for i in range(count)]
        submits.append(time.perf_counter() - start)
        return sum(future.get() for future in futures)

    if task.calls == "pread":
        return preads
    if task.calls == "bulk":
        return lambda: int(file.read(memory))
    import numpy as np

    sizes = np.full(count, size, np.int64)
    offsets = np.random.default_rng(0).permutation(count).astype(np.int64) * (size + GAP)
    return lambda: int(file.preadv_packed(memory, sizes, offsets).get())


def worker(task: Task) -> dict[str, Any]:
    """The rates of each round, in GB/s, and what damacy counts."""
    memory = memory_of(task)
    file: Any = None
    submits: list[float] = []
    if task.library == "os.preadv":
        one_round = loop_of_preadv(task, memory)
    elif task.library == "kvikio":
        import kvikio
        import kvikio.defaults

        kvikio.defaults.set("num_threads", task.threads)
        one_round = calls_of(kvikio.CuFile(task.path, "r"), task, memory, submits)
    else:
        from damacy import defaults
        from damacy.cufile import CuFile

        defaults.set("num_threads", task.threads)
        file = CuFile(task.path, engine=task.engine or None)
        one_round = calls_of(file, task, memory, submits)
    rates: list[float] = []
    resident = 0.0
    for number in range(task.rounds + 1):
        if task.cold:
            from damacy.cufile import drop_file_page_cache, get_page_cache_info

            drop_file_page_cache(task.path)
            pages, total = get_page_cache_info(task.path)
            resident = max(resident, pages / total)
        start = time.perf_counter()
        got = one_round()
        took = time.perf_counter() - start
        assert got == task.count * task.size
        if number > 0:  # the first warms up
            rates.append(round(got / took / 1e9, 3))
    counters = file.counters() if file is not None else {}
    said = {name: counters[name] for name in COUNTERS if counters.get(name)}
    if submits:
        said["submit_us"] = round(statistics.median(submits[1:]) / task.count * 1e6, 2)
    return {"gb_per_s": rates} | said | ({"resident_before": round(resident, 3)} if task.cold else {})


def run_arm(place: str, task: Task) -> dict[str, Any]:
    if task.library == "C++":
        command = [place, task.path, *(str(n) for n in (task.count, task.size, task.threads, task.rounds))]
    else:
        command = [sys.executable, str(HERE / "__main__.py"), "--worker", json.dumps(dataclasses.asdict(task))]
    environment = os.environ | ({"PYTHONPATH": place} if place and task.library != "C++" else {})
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if ran.returncode != 0:
        return {"error": ran.stderr.strip().splitlines()[-1:]}
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def built_program(prefix: str, folder: str) -> str:
    for command in (
        ["cmake", "-S", str(HERE), "-B", folder, f"-DCMAKE_PREFIX_PATH={pathlib.Path(prefix).resolve()}"],
        ["cmake", "--build", folder],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return f"{folder}/file_calls"


def arms_of(arguments: argparse.Namespace, calls: str) -> dict[str, tuple[str, str, str]]:
    """For each arm its library, its folder or program, and the engine."""
    own = str(HERE.parent.parent / "python")
    places = dict(one.split("=", 1) for one in arguments.arm) or {"damacy": own}
    arms: dict[str, tuple[str, str, str]] = {}
    if arguments.device == "cpu" and calls == "pread":
        arms["os.preadv"] = ("os.preadv", own, "")  # the page cache is emptied by damacy
    for name, place in places.items():
        for engine in arguments.engine or [""]:
            arms[f"{name} {engine}".strip()] = ("damacy", place, engine)
    if calls == "pread" and not arguments.cold:
        for name, program in (one.split("=", 1) for one in arguments.program):
            arms[f"C++ {name}"] = ("C++", program, "")
        if arguments.device == "cuda":
            arms["kvikio"] = ("kvikio", "", "")
    return arms


def measure_threads(
    arguments: argparse.Namespace, path: str, calls: str, size: int, threads: int
) -> list[dict[str, Any]]:
    arms = arms_of(arguments, calls)
    rates: dict[str, list[float]] = {arm: [] for arm in arms}
    ratios: dict[str, list[float]] = {arm: [] for arm in arms}
    last: dict[str, Any] = {}
    for _ in range(arguments.turns):
        medians: dict[str, float] = {}
        for arm, (library, place, engine) in arms.items():
            task = Task(
                library,
                arguments.device,
                path,
                arguments.count,
                size,
                threads,
                arguments.rounds,
                calls,
                engine,
                arguments.cold,
                arguments.own_stream,
            )
            last[arm] = run_arm(place, task)
            found = last[arm].get("gb_per_s", [])
            rates[arm] += found
            if found:
                medians[arm] = statistics.median(found)
        first = medians.get(next(iter(arms)))
        for arm, median in medians.items():
            if first:
                ratios[arm].append(median / first)
    rows = []
    for arm, found in rates.items():
        row: dict[str, Any] = {"arm": arm, "library": arms[arm][0], "device": arguments.device, "threads": threads}
        row |= {"calls": calls, "bytes": size, "cold": arguments.cold}
        if found:
            median = statistics.median(found)
            row |= {"gb_per_s": round(median, 3), "range": [min(found), max(found)]}
            row |= {"us_a_range": round(size / median / 1e3, 2)}
        if ratios[arm]:
            row |= {"over_first": round(statistics.median(ratios[arm]), 3)}
        rows.append(row | {name: value for name, value in last[arm].items() if name != "gb_per_s"})
    return rows


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whether preads from the page cache reach what they must: on a GPU with the best number of threads, else with
    each."""
    preads = [row for row in rows if row["calls"] == "pread" and not row["cold"] and "gb_per_s" in row]
    found = []
    for (library, size), wanted in MUST_REACH.items():
        of_them = [row for row in preads if (row["device"], row["library"], row["bytes"]) == ("cuda", library, size)]
        if of_them:
            best = max(of_them, key=lambda row: row["gb_per_s"])
            said = {name: best[name] for name in ("arm", "bytes", "threads", "gb_per_s")}
            found.append({"must_reach": wanted, "holds": best["gb_per_s"] >= wanted} | said)
    for row in preads:
        least = MUST_REACH_OVER_LOOP.get(row["bytes"])
        if (row["device"], row["library"]) == ("cpu", "damacy") and least is not None and "over_first" in row:
            said = {name: row[name] for name in ("arm", "bytes", "threads", "over_first")}
            found.append({"must_reach": least, "holds": row["over_first"] >= least} | said)
    return found


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for calls in arguments.calls:
        for size in arguments.bytes:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                path = f"{folder}/data"
                with open(path, "wb") as out:
                    gap = GAP if calls == "gather" else 0
                    for _ in range(arguments.count * (size + gap) // (1 << 20) + 1):
                        out.write(os.urandom(1 << 20))
                for threads in arguments.threads:
                    for row in measure_threads(arguments, path, calls, size, threads):
                        rows.append(row)
                        print(json.dumps(row), flush=True)
    for verdict in verdicts(rows):
        rows.append(verdict)
        print(json.dumps(verdict), flush=True)
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(worker(Task(**json.loads(sys.argv[2])))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--arm", action="append", default=[], help="NAME=FOLDER of a built damacy, to compare")
    parser.add_argument("--program", action="append", default=[], help="NAME=FILE, a program of bench/file_calls")
    parser.add_argument("--prefix", help="an installed damacy, for which the program of this folder is built")
    parser.add_argument("--own-stream", action="store_true", help="torch's current stream is not the legacy stream")
    parser.add_argument("--calls", choices=("pread", "gather", "bulk"), nargs="+", default=["pread"])
    parser.add_argument("--engine", action="append", default=[], help="of damacy: pread, io_uring or auto; to compare")
    parser.add_argument("--cold", action="store_true", help="not from the page cache")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 16], help="of I/O")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, nargs="+", default=[64 * KIB], help="of a call")
    parser.add_argument("--rounds", type=int, default=5, help="of one process")
    parser.add_argument("--turns", type=int, default=3, help="of all arms")
    parser.add_argument("--folder", help="of the file that is read: in memory, or on a disk for --cold")
    parser.add_argument("--out", help="the results as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as built:
        if arguments.prefix:
            arguments.program.append(f"damacy={built_program(arguments.prefix, built)}")
        rows = measure(arguments)
    if arguments.out:
        from bench import machine

        described = machine.describe() | {"command": " ".join(["python -m bench.file_calls", *sys.argv[1:]])}
        pathlib.Path(arguments.out).write_text(json.dumps(described | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
