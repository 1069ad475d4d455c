"""Packing and unpacking of halos compared with one memcpy of the same bytes, in the same run.

    python -m bench.halo --device cpu --out bench/results/halo-host.json
    python -m bench.halo --device cuda --out bench/results/halo-h200.json

Case C is 10 fields of C192L79: 80 specs in one transformer, 14.8 MB. Knows cases and clocks; machine.py describes the
machine.

* GPU time: events over 50 calls back to back, also after the L2 cache was flushed.
* Host time: from the call to the end of the stream's wait, median of 60.
* On the host, calls and memcpy take turns. `cold`: none of the case's memory is in the caches. `bound`: the time in
  which a core touches the cache lines of both sides (lines.py).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from pathlib import Path

import numpy as np

from bench import machine
from bench.lines import Touching, addresses_of
from damacy import _native, halo
from damacy.halo import topology

DIMS = ("i", "j", "k")
WIDTH = 3
TURNS = {halo.WEST: 1, halo.NORTH: 3}
TARGETS = {
    ("cpu", "k", "ndsl", "float64"): {"memcpy_ratio": 1.2},
    ("cpu", "i", "native", "float64"): {"memcpy_ratio": 1.2},
    ("cuda", "k", "ndsl", "float64"): {"gpu_us": 10, "host_us": 18, "memcpy_ratio": 1.3},
    ("cuda", "i", "native", "float64"): {"gpu_us": 22, "memcpy_ratio": 2.8},
}


def fields_of(device, order, dtype, cells, count):
    """Allocations of (cells + 7)² × 80 with a compute domain of cells² × 79; `order`: the contiguous dimension."""
    shape = (cells + 7, cells + 7, 80)
    memory = shape if order == "k" else shape[::-1]
    out = []
    for _ in range(count):
        if device == "cpu":
            array = np.ones(memory, dtype)
        else:
            import torch

            array = torch.ones(memory, dtype=getattr(torch, dtype), device="cuda")
        out.append(array if order == "k" else array.transpose(2, 1, 0) if device == "cpu" else array.permute(2, 1, 0))
    return out


def specs_of(fields, cells):
    specs, arrays = [], []
    for side in range(8):
        for array in fields:
            q = halo.Quantity(array, DIMS, origin=(WIDTH, WIDTH, 0), extent=(cells, cells, 79))
            s = q.halo_spec(WIDTH)
            boxes = [topology.boundary_slice(DIMS, q.origin, q.extent, q.shape, side, WIDTH, inner) for inner in (1, 0)]
            specs.append(halo.HaloExchangeSpec(s, boxes[0], TURNS.get(side, 0), boxes[1]))
            arrays.append(array)
    return specs, arrays


class HostClock:
    """Times of calls on one thread, in turns; `cold` after 64 MiB of other memory was read."""

    def __init__(self):
        self._other = np.ones(64 << 20, np.uint8)

    def memcpy(self, size):
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        return lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, size)

    def times(self, calls):
        rows = {name: {} for name in calls}
        for state, repeat in (("warm", 60), ("cold", 12)):
            taken = {name: [] for name in calls}
            for _ in range(repeat):
                for name, call in calls.items():
                    call() if state == "warm" else self._other.sum()
                    start = time.perf_counter()
                    call()
                    taken[name].append((time.perf_counter() - start) * 1e6)
            for name, row in rows.items():
                row[f"{state}_us"] = statistics.median(taken[name])
                row[f"{state}_best_us"] = min(taken[name])
        return rows


class GpuClock:
    def __init__(self):
        import torch

        self._torch = torch
        self._flush = torch.ones(256 << 20, dtype=torch.uint8, device="cuda")

    def memcpy(self, size):
        source = self._torch.ones(size, dtype=self._torch.uint8, device="cuda")
        target = self._torch.zeros_like(source)
        return lambda: target.copy_(source)

    def times(self, calls):
        return {name: self._times(call) for name, call in calls.items()}

    def _times(self, call, repeat=50):
        torch = self._torch
        for _ in range(5):
            call()
        torch.cuda.synchronize()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Enqueues other work first, so that the host runs ahead and the calls run back to back on the device.
        torch.cuda._sleep(20_000_000)
        start.record()
        for _ in range(repeat):
            call()
        stop.record()
        torch.cuda.synchronize()
        out = {"gpu_us": start.elapsed_time(stop) / repeat * 1e3}
        flushed = []
        for _ in range(20):
            self._flush.add_(1)
            torch.cuda._sleep(2_000_000)
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            flushed.append(start.elapsed_time(stop) * 1e3)
        out["gpu_flushed_us"] = statistics.median(flushed)
        taken = []
        stream = torch.cuda.current_stream()
        for _ in range(60):
            before = time.perf_counter()
            call()
            stream.synchronize()
            taken.append(time.perf_counter() - before)
        out["host_us"] = statistics.median(taken) * 1e6
        return out


def ratios(row, reference, ending="_ratio"):
    return {k.replace("_us", ending): row[k] / reference[k] for k in row}


def touching(transformer, specs, arrays):
    """The cache lines that packing and unpacking touch: those of the boxes and those of the buffer."""
    bounds = {}
    for name, buffer in (("pack", transformer.get_pack_buffer()), ("unpack", transformer.get_unpack_buffer())):
        boxes = [array[getattr(spec, f"{name}_slices")] for spec, array in zip(specs, arrays)]
        sides = [np.concatenate([addresses_of(box) for box in boxes]), addresses_of(buffer.array)]
        bounds[name] = Touching(*(sides if name == "pack" else sides[::-1]))
    return bounds


def measure(device, clock, order, wire, dtype, cells, count):
    """The rows of one case."""
    specs, arrays = specs_of(fields_of(device, order, dtype, cells, count), cells)
    module = np if device == "cpu" else __import__("torch")
    options = {} if device == "cpu" else {"device": "cuda"}
    rows = []
    with halo.HaloDataTransformer.get(module, specs, wire=wire, **options) as t:
        size = t._plans[False].bytes
        bound_arrays = t.bind(arrays)
        t.get_unpack_buffer().array[:] = 1  # all pages of memory that was never written map to one page of zeros
        calls = {
            "memcpy": clock.memcpy(size),
            "pack": bound_arrays.pack,
            "unpack": bound_arrays.unpack,
            "async_pack(list)": lambda: t.async_pack(arrays),
            "async_unpack(list)": lambda: t.async_unpack(arrays),
        }
        bounds = touching(t, specs, arrays) if device == "cpu" else {}
        ways = {(name, i): way for name, lines in bounds.items() for i, way in enumerate(lines.ways)}
        times = clock.times(calls | ways)
        for name in list(calls)[1:]:
            unpacks = "unpack" in name
            row = {
                "case": f"{order}-cont. {wire} {dtype} {cells}x{cells} {count} fields",
                "what": name,
                "bytes": size,
                "launches": t._plans[unpacks].launches,
                **times[name],
                "memcpy": times["memcpy"],
                **ratios(times[name], times["memcpy"]),
                "target": TARGETS.get((device, order, wire, dtype)) if (cells, count) == (192, 10) else None,
            }
            if bounds:
                way = "unpack" if unpacks else "pack"
                lines, taken = bounds[way], [times[key] for key in ways if key[0] == way]
                bound = {what: min(row[what] for row in taken) for what in taken[0]}
                row["bound"] = {"lines_read": lines.read_lines, "lines_written": lines.written_lines, **bound}
                row |= ratios(bound, times["memcpy"], "_bound_ratio")
            rows.append(row)
    return rows


def rates_relative_to(wide, narrow):
    """The rows of `narrow`, each with its rate divided by the rate of the matching row of `wide` with as many bytes."""
    for row in narrow:
        same = next(r for r in wide if (r["what"], r.get("bytes")) == (row["what"], row["bytes"]))
        row["rate_ratio"] = same["gpu_us"] / row["gpu_us"]
        row["target"] = {"rate_ratio": 0.85}
    return narrow


def compile_row():
    """Compiles case C from integers to a plan, without the cache."""
    specs, _ = specs_of(fields_of("cpu", "k", "float64", 192, 1) * 10, 192)
    native = [spec._native for spec in specs]
    taken = []
    for _ in range(40):
        halo.INDICES_CACHE.clear()
        start = time.perf_counter()
        _native.HaloTransformer(native, None, False)  # two plans
        taken.append((time.perf_counter() - start) / 2)
    return {
        "case": "compile case C",
        "what": "compile",
        "host_us": statistics.median(taken) * 1e6,
        "target": {"host_us": 1000},
    }


def pad_row():
    """halo.torch.pad of [1, 64, 1024, 1024] bfloat16 in padded storage, halo 1: host time of the call."""
    import torch

    from damacy.halo.torch import empty_padded, pad, padding

    plan = padding(halo.Cartesian((1, 1), True, dims=("h", "w")), 0, 1, halo.Local(1), dims="nchw")
    x = empty_padded((1, 64, 1024, 1024), plan, dtype=torch.bfloat16, device="cuda")
    taken = []
    for _ in range(60):
        torch.cuda.synchronize()
        start = time.perf_counter()
        pad(x, plan)
        taken.append(time.perf_counter() - start)
    return {
        "case": "pad [1,64,1024,1024] bfloat16",
        "what": "pad",
        "host_us": statistics.median(taken) * 1e6,
        "target": {"host_us": 15},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cells", type=int, default=192, help="another size, for quick tests")
    arguments = parser.parse_args()
    device, cells = arguments.device, arguments.cells
    clock = HostClock() if device == "cpu" else GpuClock()
    rows = [compile_row()]
    for order, wire in (("k", "ndsl"), ("i", "native"), ("k", "native"), ("i", "ndsl")):
        rows += measure(device, clock, order, wire, "float64", cells, 10)
    rows += measure(device, clock, "k", "ndsl", "float32" if device == "cpu" else "bfloat16", cells, 10)
    rows += measure(device, clock, "k", "ndsl", "float64", cells, 1)
    rows += measure(device, clock, "k", "ndsl", "float64", 48, 10)
    if device == "cuda":
        rows += rates_relative_to(rows, measure(device, clock, "k", "ndsl", "bfloat16", cells, 40))
        rows.append(pad_row())
    for row in rows:
        times = {k: round(v, 2) for k, v in row.items() if k.endswith(("_us", "_ratio"))}
        print(
            f"{row['case']:45} {row['what']:20} {times}  memcpy {row.get('memcpy')}  target {row['target']}", flush=True
        )
    if arguments.out:
        result = machine.describe() | {"benchmark": "halo", "device": device, "rows": rows}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
