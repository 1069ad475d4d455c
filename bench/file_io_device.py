"""The rows of `bench.file_io` that need a GPU: gathers into its memory, and bulk reads compared with only reading and
only copying.

Each row is limited in seconds. Settings of file I/O come from the environment, with 16 threads."""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import time
from typing import Any

import numpy as np

from bench.file_io_data import SECONDS, Data, check, timed

SETTINGS: tuple[dict[str, int], ...] = (
    {"num_threads": 16, "task_size": 16 << 20},
    {"num_threads": 16, "task_size": 4 << 20},
    {},
)
COUNTED = ("copies", "copy_batches", "host_waits", "parts", "staging_read_calls")


def some_rounds(rounds: int, prepare: Any, arm: Any) -> list[float]:
    """Seconds of each round except the first, which is the warm-up."""
    seconds: list[float] = []
    end = time.perf_counter() + SECONDS
    for number in range(rounds + 1):
        if number > 3 and time.perf_counter() > end:
            break
        prepare()
        took, _cpu = timed(arm)
        if number > 0:
            seconds.append(took)
    return seconds


def with_settings(settings: dict[str, int], call: Any) -> Any:
    """Calls with settings and restores them, also whether `num_threads` was set: once set, it is an exact limit."""
    from damacy import _native, defaults

    was_set = _native.io_settings()["num_threads_set"]
    try:
        with defaults.set(settings):
            return call()
    finally:
        _native.io_change_settings({"num_threads_set": was_set})


def gather(data: Data, rounds: int, count: int) -> list[dict[str, Any]]:
    """Random ranges of 64 KiB, hot, into one tensor: in the order of the ranges, in random order, and with gaps."""
    import torch

    from damacy import cufile
    from damacy.cufile import CuFile

    rng = np.random.default_rng(2)
    sizes = np.full(count, 64 << 10, np.int64)
    offsets = rng.integers(0, (data.size >> 12) - 16, count).astype(np.int64) << 12
    wanted = torch.zeros(2 * int(sizes.sum()), dtype=torch.uint8, device="cuda")
    in_order = np.arange(count, dtype=np.int64) << 16
    places = {"packed": in_order, "in any order": rng.permutation(in_order), "apart": 2 * in_order}
    file, rows = CuFile(data.path), []
    data.heat()
    for settings in SETTINGS[1:]:
        for name, place in places.items():
            before = cufile.counters()

            def ours(place: np.ndarray = place) -> None:
                file.preadv_packed(wanted, sizes, offsets, place).get()

            seconds = with_settings(settings, lambda arm=ours: some_rounds(rounds, lambda: None, arm))
            after = cufile.counters()
            gb_per_s = [float(sizes.sum()) / s / 1e9 for s in seconds]
            measured: dict[str, Any] = {
                "row": f"device gather {count} x 64 KiB, hot, {name}",
                "settings": settings or "default",
                "gb_per_s": round(statistics.median(gb_per_s), 2),
                "gb_per_s_range": [round(min(gb_per_s), 2), round(max(gb_per_s), 2)],
                "a_gather": {k: round((after[k] - before[k]) / (len(seconds) + 1), 1) for k in COUNTED},
                "target_gb_per_s": 25,
                "met": statistics.median(gb_per_s) >= 25,
            }
            print(json.dumps(measured), flush=True)
            rows.append(measured)
            which, at = int(offsets[7]), int(place[7])
            assert bytes(wanted[at : at + (64 << 10)].cpu().numpy()) == os.pread(data.fd, 64 << 10, which)
    return rows


def ceilings(data: Data, c: ctypes.CDLL, prepare: Any, target: Any) -> tuple[float, float]:
    """Seconds of only reading to pinned memory, on the best number of threads, and of only copying pinned memory."""
    import torch

    pinned = torch.zeros(data.size, dtype=torch.uint8).pin_memory()
    where = ctypes.c_void_p(pinned.data_ptr())

    def copy() -> None:
        target.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()

    copying = min(timed(copy)[0] for _ in range(5))
    reading, threads = float("inf"), 1
    end = time.perf_counter() + SECONDS
    counts = [n for n in (8, 16, 32, 4, 2, 1) if n <= 2 * len(os.sched_getaffinity(0))]
    for threads in counts:
        for _ in range(3):
            if time.perf_counter() > end and reading < float("inf"):
                break
            prepare()
            took, _cpu = timed(
                lambda t=threads: check(c.threads_read(data.fd, where, ctypes.c_int64(data.size), ctypes.c_int64(0), t))
            )
            reading = min(reading, took)
    return reading, copying


def bulk(data: Data, c: ctypes.CDLL, rounds: int, heat: str) -> list[dict[str, Any]]:
    """The whole file into one tensor, compared with the slower of only reading to pinned memory and only copying."""
    import torch

    from damacy import defaults
    from damacy.cufile import CuFile

    target = torch.zeros(data.size, dtype=torch.uint8, device="cuda")
    prepare = data.chill if heat == "cold" else (lambda: None)
    data.heat()
    reading, copying = ceilings(data, c, prepare, target)
    file, rows = CuFile(data.path), []
    for settings in SETTINGS if heat == "hot" else SETTINGS[:1]:
        seconds = with_settings(settings, lambda: some_rounds(rounds, prepare, lambda: file.read(target)))
        ratios = [max(reading, copying) / s for s in seconds]
        rows.append(
            {
                "row": f"device bulk, {heat}",
                "settings": settings or {"default, with auto_threads": defaults.get("auto_threads")},
                "ratio": round(statistics.median(ratios), 3),
                "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
                "gb_per_s": {
                    "damacy": round(data.size / statistics.median(seconds) / 1e9, 2),
                    "raw read to pinned": round(data.size / reading / 1e9, 2),
                    "pinned copy": round(data.size / copying / 1e9, 2),
                },
                "target": 0.9,
                "met": statistics.median(ratios) >= 0.9,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    assert bytes(target[:4096].cpu().numpy()) == os.pread(data.fd, 4096, 0)
    return rows
