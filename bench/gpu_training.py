"""Measures how much a training-like loop slows down while batches are delivered: `python -m bench.gpu_training`.

Each step is a chain of matrix products that uses one batch. The number of products is chosen so that one batch per step
is the wanted rate. The loop runs in turn with one constant batch, with batches of damacy, and with as many bytes only
copied from page-locked memory, which is the minimum cost of any loader; all that several times. Knows torch and the
scenarios of bench.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import machine, workload, writer

# Feeds a loop: returns the tensor of the next batch, which is valid until the next call.
Feed = Callable[[], contextlib.AbstractContextManager[Any]]


class Model:
    """Square matrix products in bf16, and a reduction of the batch, so that the step depends on it."""

    def __init__(self, torch: Any, device: str, width: int) -> None:
        self._torch = torch
        self._device = device
        self._weights = torch.randn((width, width), device=device, dtype=torch.bfloat16) / width**0.5
        self.products = 1
        self.seen = torch.zeros((), device=device)

    def step(self, batch: Any) -> None:
        state = self._weights  # reset in each step, so that values, and the power that products use, stay typical
        for _ in range(self.products):
            state = state @ self._weights
        self.seen += batch.reshape(-1)[::4096].float().sum()

    def settle(self) -> None:
        if self._device != "cpu":
            self._torch.cuda.synchronize()

    def size_for(self, step_s: float, batch: Any) -> None:
        """Chooses the number of products so that a step takes `step_s`."""
        for self.products in (8, 8, 64):  # the first warms up
            took = seconds(self, constant(batch), 4) / 4
        per_product = took / self.products
        self.products = max(1, round(step_s / per_product))


def constant(batch: Any) -> Feed:
    return lambda: contextlib.nullcontext(batch)


def seconds(model: Model, feed: Feed, steps: int) -> float:
    model.settle()
    start = time.perf_counter()
    for _ in range(steps):
        with feed() as batch:
            model.step(batch)
    model.settle()
    return time.perf_counter() - start


def fed_by_damacy(torch: Any, pipeline: Any) -> Feed:
    @contextlib.contextmanager
    def feed() -> Iterator[Any]:
        with pipeline.pop() as batch:
            yield torch.from_dlpack(batch)

    return feed


def fed_by_copies(torch: Any, like: Any) -> Feed:
    """Two buffers on the device, filled in turn from page-locked memory on a stream of its own."""
    source = torch.ones(like.shape, dtype=like.dtype, pin_memory=like.is_cuda)
    places = [torch.empty_like(like) for _ in range(2)]
    side = torch.cuda.Stream() if like.is_cuda else None
    number = 0

    @contextlib.contextmanager
    def feed() -> Iterator[Any]:
        nonlocal number
        place = places[number % 2]
        number += 1
        if side is None:
            yield place.copy_(source)
            return
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            place.copy_(source, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        yield place

    return feed


def samples(damacy: Any, scenario: workload.Scenario) -> Iterator[Any]:
    paths = [str(array.path) for array in scenario.arrays]
    return (damacy.Sample(paths[array], box) for array, box in scenario.crops())


def measure(options: argparse.Namespace) -> dict:
    import torch

    import damacy

    if options.device == "cpu":
        torch.set_num_threads(1)
    scenario = workload.scenario(options.scenario, options.size)
    writer.prepare(scenario.arrays)
    config = damacy.Config(
        batch_size=scenario.batch_size,
        device=options.device,
        dtype=options.dtype,
        n_io_threads=options.threads,
        n_compute_threads=max(0, options.threads - 1),
        host_buffer_bytes=options.buffer_bytes,
        device_buffer_bytes=options.buffer_bytes,
    )
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(samples(damacy, scenario))
        with pipeline.pop() as first:
            still = torch.from_dlpack(first).clone()
        batch_bytes = still.numel() * still.element_size()
        model = Model(torch, options.device, options.width)
        model.size_for(batch_bytes / (options.gb_per_s * 1e9), still)
        alone_s = seconds(model, constant(still), 4) / 4
        steps = max(4, round(options.seconds / alone_s))
        feeds = {"alone": constant(still), "fed": fed_by_damacy(torch, pipeline), "copied": fed_by_copies(torch, still)}
        took: dict[str, list[float]] = {name: [] for name in feeds}
        seconds(model, feeds["fed"], steps // 4 + 1)
        for repetition in range(options.reps):
            for name in feeds if repetition % 2 == 0 else reversed(feeds):
                took[name].append(seconds(model, feeds[name], steps))
        waited = pipeline.stats().pop_wait_io.ms + pipeline.stats().pop_wait_compute.ms
    assert torch.isfinite(model.seen), "the batches were not looked at"
    return summary(took, steps, batch_bytes) | {"products": model.products, "width": options.width, "waited_ms": waited}


def summary(took: dict[str, list[float]], steps: int, batch_bytes: int) -> dict:
    """`slowdown` of a loop: the median over repetitions of the additional time per step, relative to the loop alone."""
    result: dict[str, Any] = {"steps": steps, "batch_bytes": batch_bytes}
    for name, times in took.items():
        result[name] = {
            "step_s": statistics.median(times) / steps,
            "each_step_s": [each / steps for each in times],
            "bytes_per_s": 0.0 if name == "alone" else steps * batch_bytes / statistics.median(times),
            "slowdown": statistics.median(t / alone - 1 for t, alone in zip(times, took["alone"], strict=True)),
        }
    return result


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.gpu_training", description="a loop with and without damacy")
    parser.add_argument("--scenario", default="throughput", choices=sorted(workload.SCENARIOS))
    parser.add_argument("--size", default="small", choices=workload.SIZES)
    parser.add_argument("--gb-per-s", type=float, default=5.0, help="of finished batches, in 10^9 bytes")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run of the loop")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--width", type=int, default=8192, help="of the matrices")
    parser.add_argument("--buffer-bytes", type=int, default=2 << 30)
    parser.add_argument("--limit", type=float, default=0.10, help="a greater slowdown fails")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    result = machine.describe() | {"options": {k: v for k, v in vars(options).items() if k != "out"}}
    result |= measure(options)
    fed = result["fed"]
    result["good"] = fed["slowdown"] < options.limit and fed["bytes_per_s"] > 0.9 * options.gb_per_s * 1e9
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    for name in ("alone", "fed", "copied"):
        loop = result[name]
        rate = loop["bytes_per_s"] / 1e9
        print(f"{name:>7}: {loop['step_s'] * 1e3:8.2f} ms a step, {rate:6.2f} GB/s, {loop['slowdown']:+.1%}")
    return 0 if result["good"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
