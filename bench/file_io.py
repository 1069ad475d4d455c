"""File I/O compared with plain system calls: `python -m bench.file_io [--device cuda] [--out FILE]`.

The alternatives of a row run interleaved in one process. A row has the median and the range of their ratio, the rates,
and processor seconds per GiB. Cold rows check that no page of the file is in the page cache, hot rows that all are.
file_io_baseline/baseline.c has the baselines, built with the system's C compiler. Knows rows and clocks."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench import machine
from bench.file_io_data import SECONDS, Data, check, timed

GIB = 1 << 30
DEPTH = 128  # of the ring in C
TARGETS = {"small": 2.0, "gather": 0.8, "bulk": 0.9, "device bulk": 0.9}
HERE = pathlib.Path(__file__).parent


def baseline(folder: pathlib.Path) -> ctypes.CDLL:
    built = folder / "baseline.so"
    source = HERE / "file_io_baseline/baseline.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", built, source], check=True)
    return ctypes.CDLL(str(built))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def row(name: str, arms: dict[str, Callable[[], Any]], rounds: int, size: int, before: Callable[[], Any] | None = None,
        higher: bool = True, **more: Any) -> dict[str, Any]:  # fmt: skip
    """Runs the alternatives in turn, `rounds` times. The ratio is damacy to the best other one, by rate or by time."""
    seconds: dict[str, list[float]] = {arm: [] for arm in arms}
    cpu: dict[str, list[float]] = {arm: [] for arm in arms}
    end = time.perf_counter() + SECONDS
    for number in range(rounds + 1):
        if number > 3 and time.perf_counter() > end:
            break
        for arm, run in arms.items():
            if before is not None:
                before()
            wall, used = timed(run)
            if number > 0:  # the first round warms up
                seconds[arm].append(wall)
                cpu[arm].append(used)
    best = min((arm for arm in arms if arm != "damacy"), key=lambda arm: statistics.median(seconds[arm]), default=None)
    ratios = []
    if best is not None:
        ratios = [b / a if higher else a / b for a, b in zip(seconds["damacy"], seconds[best])]
    out = {
        "row": name,
        "ratio": round(statistics.median(ratios), 3) if ratios else None,
        "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)] if ratios else None,
        "beside": best,
        "gb_per_s": {arm: round(size / statistics.median(s) / 1e9, 3) for arm, s in seconds.items()},
        "cpu_s_per_gib": {arm: round(statistics.median(c) / (size / GIB), 4) for arm, c in cpu.items()},
        "rounds": len(seconds["damacy"]),
    } | more
    target = next((t for key, t in TARGETS.items() if name.startswith(key)), None)
    if target is not None and ratios:
        out["target"] = target
        out["met"] = out["ratio"] >= target if higher else out["ratio"] <= target
    print(json.dumps(out), flush=True)
    return out


def small(data: Data, rounds: int) -> dict[str, Any]:
    """4 KiB, hot, one processor: CuFile.read compared with a bound C function that makes one system call."""
    from damacy import _native
    from damacy.cufile import CuFile

    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        file, buffer, count = CuFile(data.path), bytearray(4096), 20_000
        read, plain, fd = file.read, _native.plain_pread, data.fd

        def ours() -> None:
            for _ in range(count):
                read(buffer, 4096, 8192)

        def theirs() -> None:
            for _ in range(count):
                plain(fd, buffer, 4096, 8192)

        def standard() -> None:
            for _ in range(count):
                os.preadv(fd, (buffer,), 8192)

        measured = row("small", {"damacy": ours, "bound pread": theirs}, rounds, 4096 * count, higher=False)
        measured["ns_per_call"] = {
            arm: round(4096 / rate) for arm, rate in measured["gb_per_s"].items()
        } | {"os.preadv": round(min(timed(standard)[0] for _ in range(3)) / count * 1e9)}  # fmt: skip
        return measured
    finally:
        os.sched_setaffinity(0, allowed)


def gather(data: Data, c: ctypes.CDLL, rounds: int, count: int) -> list[dict[str, Any]]:
    """Random ranges, hot and cold, compared with a C loop on a raw ring and the best loop of preadv on threads."""
    from damacy.cufile import CuFile

    rng, rows = np.random.default_rng(1), []
    for kib in (4, 16, 64):
        sizes = np.full(count, kib << 10, np.int64)
        offsets = rng.integers(0, (data.size >> 12) - 16, count).astype(np.int64) << 12
        places = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        memory = np.zeros(int(sizes.sum()), np.uint8)
        file = CuFile(data.path)
        arms: dict[str, Callable[[], Any]] = {
            "damacy": lambda f=file, m=memory, s=sizes, o=offsets: f.preadv_packed(m, s, o).get()
        }
        has_ring = False
        if memory.nbytes <= GIB and c.ring_open(data.fd, address(memory), ctypes.c_int64(memory.nbytes), DEPTH) == 0:
            has_ring = True
            arms["ring in C"] = lambda s=sizes, o=offsets, p=places: check(
                c.ring_gather(address(s), address(o), address(p), count, DEPTH)
            )
        else:
            for threads in sorted({1, 2, len(os.sched_getaffinity(0))}):
                arms[f"preadv on {threads} threads"] = lambda t=threads, m=memory, s=sizes, o=offsets, p=places: check(
                    c.threads_gather(data.fd, address(m), address(s), address(o), address(p), count, t)
                )
        for heat in ("hot", "cold"):
            if heat == "hot":
                data.heat()
            rows.append(
                row(f"gather {kib} KiB, {heat}", arms, rounds, memory.nbytes, data.chill if heat == "cold" else None)
            )
        if has_ring:
            c.ring_close()
    return rows


def bulk(data: Data, c: ctypes.CDLL, rounds: int) -> dict[str, Any]:
    """One large read, hot, into touched memory, compared with plain pread on the best number of threads."""
    from damacy.cufile import CuFile

    size = min(GIB, data.size)
    memory = np.ones(size, np.uint8)
    file = CuFile(data.path)
    data.heat()
    cpus = len(os.sched_getaffinity(0))
    arms: dict[str, Callable[[], Any]] = {"damacy": lambda: file.read(memory)}
    threads = 1
    while threads <= 2 * cpus:
        arms[f"pread on {threads}"] = lambda t=threads: check(
            c.threads_read(data.fd, address(memory), ctypes.c_int64(size), ctypes.c_int64(0), t)
        )
        threads *= 2
    return row("bulk, hot", arms, rounds, size)


def queued(data: Data, rounds: int) -> dict[str, Any]:
    from damacy.cufile import CuFile

    file, buffers = CuFile(data.path), [bytearray(4096) for _ in range(1000)]
    data.heat()

    def ours() -> None:
        futures = [file.pread(buffer, 4096, k << 12) for k, buffer in enumerate(buffers)]
        for future in futures:
            future.get()

    return row("queued", {"damacy": ours}, rounds, 4096 * 1000)


FIRST = """
import sys, time
{before}
start = time.perf_counter()
from damacy.cufile import CuFile
imported = time.perf_counter()
CuFile(sys.argv[1]).read(buffer)
{after}
print(imported - start, time.perf_counter() - imported)
"""


def first_byte(data: Data, device: str) -> dict[str, Any]:
    """The first read of a new process; on a device, the context is created before."""
    before, after = "buffer = bytearray(4096)", ""
    if device == "cuda":
        before = (
            "import torch; buffer = torch.zeros(1 << 20, dtype=torch.uint8, device='cuda'); torch.cuda.synchronize()"
        )
    took = []
    for _ in range(7):
        program = FIRST.format(before=before, after=after)
        run = subprocess.run([sys.executable, "-c", program, data.path], capture_output=True, text=True, check=True)
        took.append([float(x) for x in run.stdout.split()])
    milliseconds = [round(statistics.median(column) * 1e3, 2) for column in zip(*took)]
    out = {"row": f"first byte, {device}", "import_ms": milliseconds[0], "first_read_ms": milliseconds[1]}
    out |= {"target_ms": 10, "met": milliseconds[1] < 10}
    print(json.dumps(out), flush=True)
    return out


def rows_of(parts: list[str], data: Data, c: ctypes.CDLL, rounds: int, count: int) -> list[dict[str, Any]]:
    from bench import file_io_device as device

    makers: dict[str, Callable[[], Any]] = {
        "device_gather": lambda: device.gather(data, rounds, min(count, 10_000)),
        "device_bulk": lambda: device.bulk(data, c, rounds, "hot"),
        "device_first": lambda: first_byte(data, "cuda"),
        "device_cold": lambda: device.bulk(data, c, rounds, "cold"),
        "small": lambda: small(data, rounds),
        "bulk": lambda: bulk(data, c, rounds),
        "queued": lambda: queued(data, rounds),
        "first": lambda: first_byte(data, "cpu"),
        "gather": lambda: gather(data, c, rounds, count),
    }
    rows: list[dict[str, Any]] = []
    for part in parts:
        made = makers[part]()
        rows += made if isinstance(made, list) else [made]
    return rows


PARTS = {
    "cpu": ["small", "bulk", "queued", "first", "gather"],
    "cuda": ["device_gather", "device_bulk", "device_first", "small", "bulk", "queued", "first", "device_cold"],
}


def run(device: str = "cpu", size: int = 4 * GIB, rounds: int = 7, count: int = 20_000,
        folder: pathlib.Path | None = None, parts: list[str] | None = None) -> dict[str, Any]:  # fmt: skip
    """All rows, with a description of the machine."""
    from damacy import cufile, defaults

    defaults.get("auto_threads")  # counts the processors now, before a row is restricted to one of them
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = pathlib.Path(name)
        c = baseline(place)
        data = Data(place, size)
        rows = rows_of(parts or PARTS[device], data, c, rounds, count)
        if device == "cpu":
            rows.append({"row": "device rows", "speed": "not measured: no GPU"})
        os.close(data.fd)
    explained = cufile.explain()
    return machine.describe() | {"rows": rows, "settings": explained["settings"], "io_uring": explained["io_uring"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gib", type=float, default=4, help="size of the file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranges", type=int, default=20_000)
    parser.add_argument("--folder", type=pathlib.Path, help="folder of the file; its file system is measured")
    parser.add_argument("--parts", help=f"of {', '.join(PARTS['cuda'])}, gather; all that fit the device by default")
    parser.add_argument("--out", type=pathlib.Path)
    given = parser.parse_args()
    result = run(given.device, int(given.gib * GIB), given.rounds, given.ranges, given.folder,
                 given.parts.split(",") if given.parts else None)  # fmt: skip
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
