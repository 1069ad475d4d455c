"""Runs the main use case on real input: random crops of two OME-Zarr images, streamed into batches, compared with
zarr-python, and timed together with tensorstore. `demo_data` writes the arrays, `demo_picture` the picture."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from typing import Any

import numpy as np
import rich.console
import rich.progress
import rich.table
import tensorstore
import zarr

import damacy
from damacy._cli import demo_data, demo_picture
from damacy._cli.demo_data import DemoArray
from damacy._open.opening import array_or_image

_CHECKED = 48  # crops of each array that are compared element by element
_SHOWN = 16  # crops of each array that are kept for the picture
_STAGES = ("plan", "io", "decompress", "assemble")


@dataclasses.dataclass(frozen=True)
class Streamed:
    """The run over one array: batches of float32, timed from creating the pipeline until after the last batch."""

    array: DemoArray
    seconds: float
    bytes_out: int
    stats: damacy.Stats
    rows: dict[int, np.ndarray]  # some crops, by sample number


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One array's result: rates in GB/s of finished float32 batches."""

    title: str
    crops: int
    checked: int
    mismatches: int
    seconds: float
    damacy_gbps: float
    tensorstore_gbps: float
    stats: damacy.Stats


@dataclasses.dataclass(frozen=True)
class Outcome:
    verdicts: tuple[Verdict, ...]
    picture: pathlib.Path

    @property
    def mismatches(self) -> int:
        return sum(verdict.mismatches for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        arrays = [dataclasses.asdict(verdict) for verdict in self.verdicts]
        return {"mismatches": self.mismatches, "picture": str(self.picture), "arrays": arrays}


def run(folder: pathlib.Path, picture: pathlib.Path, threads: int, console: rich.console.Console) -> Outcome:
    """Runs the whole demo and prints its results on `console`. `threads` 0: one per core."""
    threads = threads or len(os.sched_getaffinity(0))
    console.print(f"[bold]damacy {damacy.__version__}[/]: random crops of two OME-Zarr images, {threads} threads")
    verdicts = []
    shown = {}
    with _progress(console) as progress:
        arrays = demo_data.demo_arrays(folder)
        for array in arrays:
            _prepare(array, progress)
        for array in arrays:
            samples = draw_samples(array)
            streamed = stream(array, samples, threads, progress)
            mismatches = count_mismatches(array, samples, streamed.rows, progress)
            peer_seconds = time_tensorstore(array, samples, threads, progress)
            verdicts.append(_judge(streamed, mismatches, peer_seconds))
            shown[array.title] = [streamed.rows[i] for i in sorted(streamed.rows)][:_SHOWN]
        demo_picture.save_montage(picture, shown)
    outcome = Outcome(tuple(verdicts), picture)
    _show(outcome, console)
    return outcome


def _progress(console: rich.console.Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description:<34}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeElapsedColumn(),
        console=console,
    )


def _prepare(array: DemoArray, progress: rich.progress.Progress) -> None:
    if not array.there:
        task = progress.add_task(f"writing {array.title}", total=array.steps)
        array.make(lambda steps: progress.advance(task, steps))


def draw_samples(array: DemoArray) -> list[damacy.Sample]:
    """Random boxes of the array; the same in every run."""
    shape = array_or_image(array.path).shape
    random = np.random.default_rng(3)
    starts = random.integers(0, np.subtract(shape, array.crop) + 1, (array.crops, len(shape)))
    return [damacy.Sample(array.path, [(a, a + n) for a, n in zip(start, array.crop)]) for start in starts]


def stream(array: DemoArray, samples: list[damacy.Sample], threads: int, progress: rich.progress.Progress) -> Streamed:
    """Reads all samples by a pipeline; keeps copies of some rows."""
    task = progress.add_task(f"{array.title}: streaming", total=len(samples))
    config = damacy.Config(
        batch_size=array.batch_size,
        host_buffer_bytes=256 << 20,
        device_buffer_bytes=256 << 20,
        n_io_threads=threads,
        device="cpu",
    )
    stride = max(1, len(samples) // _CHECKED)
    rows = {}
    bytes_out = 0
    start = time.perf_counter()
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(samples)
        pipeline.flush()
        for batch in pipeline.batches(-(-len(samples) // array.batch_size)):
            with batch:
                crops = batch.numpy()
                bytes_out += crops.nbytes
                for index, crop in zip(batch.sample_indices, crops):
                    if index % stride == 0:
                        rows[index] = crop.copy()
                progress.advance(task, len(crops))
                del crops, crop
        seconds = time.perf_counter() - start
        stats = pipeline.stats()
    return Streamed(array, seconds, bytes_out, stats, rows)


def count_mismatches(
    array: DemoArray, samples: list[damacy.Sample], rows: dict[int, np.ndarray], progress: rich.progress.Progress
) -> int:
    """The number of rows in which any element differs from zarr-python's."""
    level: Any = zarr.open_group(array.path, mode="r")["0"]
    wrong = 0
    for index, row in progress.track(rows.items(), description=f"{array.title}: checking"):
        expected = level[_slices(samples[index])].astype(np.float32)
        wrong += not np.array_equal(row, expected)
    return wrong


def time_tensorstore(
    array: DemoArray, samples: list[damacy.Sample], threads: int, progress: rich.progress.Progress
) -> float:
    """Seconds that tensorstore needs for the same batches, with as many threads and no cache."""
    task = progress.add_task(f"{array.title}: tensorstore, the same", total=len(samples))
    start = time.perf_counter()
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{array.path.resolve()}/0/"},
        "context": {
            "cache_pool": {"total_bytes_limit": 0},
            "data_copy_concurrency": {"limit": threads},
            "file_io_concurrency": {"limit": threads},
        },
    }
    store = tensorstore.cast(tensorstore.open(spec, read=True).result(), tensorstore.float32)
    waiting = None
    for first in range(0, len(samples), array.batch_size):
        portion = samples[first : first + array.batch_size]
        batch = np.empty((len(portion), *array.crop), np.float32)
        target = tensorstore.array(batch)
        writes = [target[i].write(store[_slices(sample)]) for i, sample in enumerate(portion)]
        if waiting:  # one batch ahead, like the pipeline
            _wait_for(waiting, progress, task)
        waiting = writes
    _wait_for(waiting or [], progress, task)
    return time.perf_counter() - start


def _wait_for(writes: list[Any], progress: rich.progress.Progress, task: rich.progress.TaskID) -> None:
    for write in writes:
        write.result()
    progress.advance(task, len(writes))


def _slices(sample: damacy.Sample) -> tuple[slice, ...]:
    return tuple(slice(*axis) for axis in sample.aabb)


def _judge(streamed: Streamed, mismatches: int, peer_seconds: float) -> Verdict:
    return Verdict(
        title=streamed.array.title,
        crops=streamed.array.crops,
        checked=len(streamed.rows),
        mismatches=mismatches,
        seconds=streamed.seconds,
        damacy_gbps=streamed.bytes_out / streamed.seconds / 1e9,
        tensorstore_gbps=streamed.bytes_out / peer_seconds / 1e9,
        stats=streamed.stats,
    )


def _show(outcome: Outcome, console: rich.console.Console) -> None:
    for verdict in outcome.verdicts:
        console.print(_stage_table(verdict))
    console.print(_rate_table(outcome))
    checked = sum(verdict.checked for verdict in outcome.verdicts)
    if outcome.mismatches:
        console.print(f"[bold red]{outcome.mismatches} of {checked} crops differ from zarr-python[/]")
    else:
        console.print(f"[green]{checked} crops equal to zarr-python's, element by element[/]")
    console.print(f"picture: {outcome.picture}")


def _stage_table(verdict: Verdict) -> rich.table.Table:
    """Times are summed over the threads of a stage. A rate is the output of one thread."""
    table = rich.table.Table(title=f"{verdict.title}: stages", title_justify="left")
    table.add_column("stage")
    for name in ("times", "busy ms", "MiB in", "MiB out", "GB/s a thread"):
        table.add_column(name, justify="right")
    for stage in _STAGES:
        metric = getattr(verdict.stats, stage)
        rate = metric.output_bytes / metric.ms / 1e6 if metric.ms and stage != "plan" else None
        table.add_row(
            stage,
            f"{metric.count:,}",
            f"{metric.ms:,.1f}",
            f"{metric.input_bytes / 2**20:,.1f}",
            f"{metric.output_bytes / 2**20:,.1f}",
            f"{rate:.2f}" if rate is not None else "–",
        )
    saved = verdict.stats.chunks_deduplicated
    table.caption = f"{verdict.stats.chunks_decoded:,} chunks decoded; {saved:,} decodes saved by sharing"
    return table


def _rate_table(outcome: Outcome) -> rich.table.Table:
    table = rich.table.Table(title="rates, finished float32 batches", title_justify="left")
    table.add_column("array")
    for name in ("crops", "seconds", "crops/s", "damacy GB/s", "tensorstore GB/s", "ratio"):
        table.add_column(name, justify="right")
    for verdict in outcome.verdicts:
        table.add_row(
            verdict.title,
            f"{verdict.crops:,}",
            f"{verdict.seconds:.2f}",
            f"{verdict.crops / verdict.seconds:,.0f}",
            f"{verdict.damacy_gbps:.2f}",
            f"{verdict.tensorstore_gbps:.2f}",
            f"{verdict.damacy_gbps / verdict.tensorstore_gbps:.1f} ×",
        )
    return table
