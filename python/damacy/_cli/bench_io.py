"""`damacy bench io`: measures how fast files are read into memory, by this library and by plain system calls."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Annotated, Any

import rich.table
import typer

from damacy._cli.console import AsJson, out, print_json, report_failures

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    damacy_gb_per_s: float
    plain_gb_per_s: float

    @property
    def ratio(self) -> float:
        return self.damacy_gb_per_s / self.plain_gb_per_s


def measure(folder: pathlib.Path, mib: int, rounds: int) -> list[Row]:
    """Reads a file of `mib` MiB in `folder`: whole and in random ranges, from the page cache and without it."""
    import numpy as np

    from damacy import cufile

    size = mib * MIB
    with tempfile.NamedTemporaryFile(dir=folder, prefix="damacy-bench-") as made:
        block = np.random.default_rng(0).integers(0, 256, MIB, dtype=np.uint8).tobytes()
        for _ in range(mib):
            made.write(block)
        made.flush()
        os.fsync(made.fileno())
        memory = np.ones(size, np.uint8)
        count = min(2000, size >> 16)
        sizes = np.full(count, 16 << 10, np.int64)
        offsets = np.random.default_rng(1).integers(0, (size >> 12) - 4, count).astype(np.int64) << 12
        with cufile.CuFile(made.name) as file:
            workers = len(os.sched_getaffinity(0))
            arms: list[tuple[str, int, Callable[[], Any], Callable[[], Any]]] = [
                ("whole", size, lambda: file.read(memory), lambda: _plain_whole(made.fileno(), memory, workers)),
                (
                    "random 16 KiB",
                    int(sizes.sum()),
                    lambda: file.preadv_packed(memory, sizes, offsets).get(),
                    lambda: _plain_ranges(made.fileno(), memory, offsets),
                ),
            ]
            rows = []
            for name, moved, ours, plain in arms:
                for heat in ("page cache", "cold"):
                    cool = (lambda: cufile.drop_file_page_cache(made.name)) if heat == "cold" else (lambda: None)
                    rows.append(Row(f"{name}, {heat}", *_rates(moved, rounds, cool, ours, plain)))
            return rows


def _rates(size: int, rounds: int, before: Callable[[], Any], *arms: Callable[[], Any]) -> list[float]:
    took: list[list[float]] = [[] for _ in arms]
    for number in range(rounds + 1):
        for seconds, arm in zip(took, arms):
            before()
            start = time.perf_counter()
            arm()
            if number > 0:
                seconds.append(time.perf_counter() - start)
    return [size / statistics.median(seconds) / 1e9 for seconds in took]


def _plain_whole(fd: int, memory: Any, workers: int) -> None:
    each = -(-memory.size // workers // 4096) * 4096
    view = memoryview(memory)
    with concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="damacy-bench") as pool:
        for done in [pool.submit(os.preadv, fd, [view[k : k + each]], k) for k in range(0, memory.size, each)]:
            done.result()


def _plain_ranges(fd: int, memory: Any, offsets: Any) -> None:
    view = memoryview(memory)
    for k, offset in enumerate(offsets.tolist()):
        os.preadv(fd, [view[k << 14 : (k + 1) << 14]], offset)


def bench_io(
    folder: Annotated[
        pathlib.Path, typer.Option(help="Folder for a temporary file; its file system is measured.")
    ] = pathlib.Path(),
    mib: Annotated[int, typer.Option("--mib", min=16, help="Size of the file.")] = 512,
    rounds: Annotated[int, typer.Option(min=1, help="Number of runs of each measurement.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Read a file whole and in random ranges, from the page cache and without it; compare with plain system calls."""
    from damacy import cufile

    with report_failures(folder, as_json):
        rows = measure(folder, mib, rounds)
    engine = "io_uring" if cufile.explain()["io_uring"]["usable"] else "pread"
    if as_json:
        print_json({"engine": engine, "rows": [dataclasses.asdict(row) | {"ratio": row.ratio} for row in rows]})
        return
    table = rich.table.Table(title=f"GB/s, gathers by {engine}", title_justify="left")
    for column in ("read", "damacy", "plain", "ratio"):
        table.add_column(column, justify="left" if column == "read" else "right")
    for row in rows:
        table.add_row(row.name, f"{row.damacy_gb_per_s:.2f}", f"{row.plain_gb_per_s:.2f}", f"{row.ratio:.2f}")
    out.print(table)
