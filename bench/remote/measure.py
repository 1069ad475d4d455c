"""What the remote benchmarks share: rounds in which the arms take turns, medians with ranges, and files of results.

Knows no reader and no server."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]


def commit() -> str:
    here = pathlib.Path(__file__).parent
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True).stdout.strip()


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and seconds of this process's threads on a processor."""
    begin, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begin, time.process_time() - used


def in_turns(arms: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[Any]]:
    """What each arm returned in each round. Each round calls every arm once; one round before the first is not kept."""
    found: dict[str, list[Any]] = {name: [] for name in arms}
    for number in range(rounds + 1):
        for name, arm in arms.items():
            value = arm()
            if number > 0:
                found[name].append(value)
    return found


def spread(values: list[float], digits: int = 1) -> tuple[float, list[float]]:
    """The median, and the least and the most."""
    return round(statistics.median(values), digits), [round(min(values), digits), round(max(values), digits)]


def write(out: pathlib.Path, what: str, rows: list[Row], load_before: tuple[float, ...], **more: Any) -> None:
    result = {
        "what": what,
        "command": " ".join(["python -m", f"bench.remote.{pathlib.Path(sys.argv[0]).stem}", *sys.argv[1:]]),
        "commit": commit(),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "load_before": [round(load, 1) for load in load_before],
        "load_after": [round(load, 1) for load in os.getloadavg()],
        "note": "A server without cores of its own runs on the same ones: compare arms of one row only.",
        **more,
        "rows": rows,
    }
    out.write_text(json.dumps(result, indent=1) + "\n")


def show(row: Row) -> Row:
    print(row, flush=True)
    return row
