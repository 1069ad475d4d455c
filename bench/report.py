"""Prints progress, a table for each scenario and one for all. Knows only the structure of a result."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

try:
    from rich.console import Console
    from rich.table import Table
except ImportError:  # machines that only measure may not have rich
    from bench.plain import Console, Table

_terminal = Console()
_console = _terminal if _terminal.is_terminal else Console(width=144)


def writing(name: str) -> Callable[[int, int], None]:
    def show_progress(done: int, total: int) -> None:
        if total:
            _console.print(f"[dim]data for {name}: {done} of {total} volumes written[/dim]", highlight=False)

    return show_progress


def repetition(name: str, number: int, of: int) -> None:
    _console.print(f"[dim]{name}: repetition {number + 1} of {of}[/dim]", highlight=False)


def scenario(result: dict) -> None:
    for name, why in result["refused"].items():
        _console.print(f"[yellow]{name} is left out: {why}[/yellow]", highlight=False)
    unequal = [name for name, same in result.get("equal", {}).items() if not same]
    if unequal:
        _console.print(f"[bold red]batches of {', '.join(unequal)} differ from the first loader's[/bold red]")
    work = result.get("work_as_planned", {"every_need_counted": True, "once_within_a_batch": True})
    if not (work["every_need_counted"] and work["once_within_a_batch"]):
        _console.print(f"[bold red]the counters do not match the crops: {work}[/bold red]")
    table = Table(title=f"{result['scenario']}: finished batches", title_justify="left")
    for column in ("loader, = ceiling", "GB/s", "spread", "CPU s/GB", "GB/s, free cores", "p99 / mean", "RSS growth"):
        table.add_column(column, justify="left" if column.startswith("loader") else "right")
    for name, loader in result["loaders"].items():
        table.add_row(
            name,
            _gb(loader["bytes_per_s"]),
            f"{loader['spread']:.0%}",
            f"{loader['cpu_s_per_gb']:.2f}",
            _gb(loader["free_cores_bytes_per_s"]),
            f"{loader['gap_p99_over_mean']:.2f}",
            _memory(loader),
        )
    ceilings = result["ceilings"]
    table.add_section()
    for stage, rate in ceilings["wall"].items():
        binds = " (binds)" if stage == ceilings["binding"] else ""
        table.add_row(f"= {stage}{binds}", _gb(rate), "", "", _gb(ceilings["cores"][stage]), "", "")
    _console.print(table)
    ratio = result["loaders"].get("damacy", {}).get("cpu_over_reading")
    if ratio and "h2d" in ceilings["rates"]:  # on the cores decoding is in it
        _console.print(f"processor time of damacy: {ratio:.2f} x that of only reading its bytes", highlight=False)
    for loader in result["loaders"].values():
        if loader["explain"]:
            _console.print(loader["explain"], highlight=False)


def table(result: dict) -> None:
    peers = sorted({peer for s in result["scenarios"] for peer in s.get("ratios", {})})
    table = Table(title="ours, by the clock and (by processor time)", title_justify="left")
    for column in ("scenario", "GB/s", *(f"x {peer}" for peer in peers), "binds", "share of it", "share of all stages"):
        table.add_column(column, justify="right")
    for each in result["scenarios"]:
        if "ratios" not in each:
            continue
        ours = each["loaders"]["damacy"]
        shares = [_share(each, stage) for stage in (each["ceilings"]["binding"], "all")]
        ratios = [each["ratios"].get(peer) for peer in peers]
        times = [f"{ratio['wall']:.2f} ({ratio['cpu']:.2f})" if ratio else "" for ratio in ratios]
        rate = f"{_gb(ours['bytes_per_s'])} ({_gb(ours['free_cores_bytes_per_s'])})"
        table.add_row(each["scenario"], rate, *times, each["ceilings"]["binding"], *shares)
    if table.row_count:
        _console.print(table)
    for name, cold in result.get("cold", {}).items():
        _console.print(
            f"{name}: {cold['median_s'] * 1e3:.0f} ms, best {cold['best_s'] * 1e3:.0f} ms, "
            f"processor {cold['median_cpu_s'] * 1e3:.0f} ms",
            highlight=False,
        )


def saved(path: Path) -> None:
    _console.print(f"written: {os.path.relpath(path)}", highlight=False, soft_wrap=True)


def _share(result: dict, stage: str) -> str:
    ours, ceilings = result["loaders"]["damacy"], result["ceilings"]
    by_clock = ours["bytes_per_s"] / ceilings["wall"][stage]
    return f"{by_clock:.0%} ({ours['free_cores_bytes_per_s'] / ceilings['cores'][stage]:.0%})"


def _gb(rate: float) -> str:
    return f"{rate / 1e9:.3f}" if rate < 1e10 else f"{rate / 1e9:.1f}"


def _memory(loader: dict) -> str:
    text = f"{loader['rss_growth'] / 2**20:.0f} MiB"
    return text if loader["rss_bound"] is None else f"{text} of {loader['rss_bound'] / 2**20:.0f}"
