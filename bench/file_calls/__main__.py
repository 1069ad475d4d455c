"""What one small request costs: `python -m bench.file_calls [--device cuda] [--arm NAME=FOLDER ...]`.

10,000 `CuFile.pread` of 64 KiB from a file in the page cache, all started before the first is waited for, with 1 and 16
threads for I/O. Arms are folders with a built `damacy` (default: this one), the C++ program of this folder
(`--program FILE`), and KvikIO if it is installed. They run in processes of their own, by turns. Knows rates; not what
makes them."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
THREADS = (1, 16)


def worker(library: str, device: str, path: str, count: int, size: int, threads: int, rounds: int) -> dict[str, Any]:
    """The rates of each round, in GB/s, and what damacy counts."""
    if device == "cuda":
        import torch

        memory: Any = torch.zeros(count * size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
    else:
        import numpy as np

        memory = np.zeros(count * size, np.uint8)
    if library == "kvikio":
        import kvikio
        import kvikio.defaults

        kvikio.defaults.set("num_threads", threads)
        file: Any = kvikio.CuFile(path, "r")
    else:
        from damacy import defaults
        from damacy.cufile import CuFile

        defaults.set("num_threads", threads)
        file = CuFile(path)
    rates = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        futures = [file.pread(memory[i * size : (i + 1) * size], size, i * size) for i in range(count)]
        got = sum(future.get() for future in futures)
        took = time.perf_counter() - start
        assert got == count * size
        if number > 0:  # the first warms up
            rates.append(round(got / took / 1e9, 2))
    counters = file.counters() if library == "damacy" else {}
    return {"gb_per_s": rates} | {name: counters[name] for name in ("copies", "copy_batches") if name in counters}


def run_arm(arm: str, place: str, arguments: argparse.Namespace, path: str, threads: int) -> dict[str, Any]:
    numbers = [str(n) for n in (arguments.count, arguments.bytes, threads, arguments.rounds)]
    if arm == "C++":
        command = [place, path, *numbers]
    else:
        library = "kvikio" if arm == "kvikio" else "damacy"
        command = [
            sys.executable,
            str(HERE / "__main__.py"),
            "--worker",
            library,
            arguments.device,
            path,
            *numbers,
        ]
    environment = os.environ | ({"PYTHONPATH": place} if arm not in ("C++", "kvikio") else {})
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if ran.returncode != 0:
        return {"error": ran.stderr.strip().splitlines()[-1:]}
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    arms = dict(one.split("=", 1) for one in arguments.arm) or {"damacy": str(HERE.parent.parent / "python")}
    if arguments.program:
        arms["C++"] = arguments.program
    if arguments.device == "cuda":
        arms["kvikio"] = ""
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = f"{folder}/data"
        with open(path, "wb") as out:
            for _ in range(arguments.count * arguments.bytes // (1 << 20) + 1):
                out.write(os.urandom(1 << 20))
        for threads in THREADS:
            rates: dict[str, list[float]] = {arm: [] for arm in arms}
            last: dict[str, Any] = {}
            for _ in range(arguments.turns):
                for arm, place in arms.items():
                    last[arm] = run_arm(arm, place, arguments, path, threads)
                    rates[arm] += last[arm].get("gb_per_s", [])
            for arm, found in rates.items():
                row = {"arm": arm, "device": arguments.device, "threads": threads}
                if found:
                    median = statistics.median(found)
                    row |= {"gb_per_s": round(median, 2), "range": [min(found), max(found)]}
                    row |= {"us_a_call": round(arguments.bytes / median / 1e3, 2)}
                row |= {name: value for name, value in last[arm].items() if name != "gb_per_s"}
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        library, device, path, *numbers = sys.argv[2:]
        print(json.dumps(worker(library, device, path, *map(int, numbers))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--arm", action="append", default=[], help="NAME=FOLDER of a built damacy, to compare")
    parser.add_argument("--program", help="the program of bench/file_calls")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=64 << 10)
    parser.add_argument("--rounds", type=int, default=5, help="of one process")
    parser.add_argument("--turns", type=int, default=3, help="of all arms")
    parser.add_argument("--folder", help="of the file that is read; it should be in memory")
    parser.add_argument("--out", help="the results as JSON")
    arguments = parser.parse_args()
    rows = measure(arguments)
    if arguments.out:
        from bench import machine

        described = machine.describe() | {"command": " ".join(["python -m bench.file_calls", *sys.argv[1:]])}
        pathlib.Path(arguments.out).write_text(json.dumps(described | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
