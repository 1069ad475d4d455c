"""Crops of an image and of its label at the same places: one loader with named arrays, beside two loaders in step and
beside worker processes with zarr-python, as a `DataLoader` has them. All read the same crops, by turns.

    python -m bench.pairs --reps 5 --out bench/results/pairs-host.json

Two loaders in step are the bound: they read and place the same bytes, and pair nothing. Rates are bytes of finished
batches per second and per second of processor time.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

import damacy
from bench import machine
from damacy.samplers import RandomCrops
from damacy.training import Loader

SHAPE, CHUNKS, CROP = (64, 512, 512), (16, 64, 64), (16, 96, 96)
BATCH, BATCHES, CHANNELS = 8, 24, 2
DTYPES = {"image": "f4", "label": "i8"}
BATCH_BYTES = BATCH * int(np.prod(CROP)) * (CHANNELS * 4 + 8)

_opened: dict[str, object] = {}  # of a worker process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="threads, or worker processes")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = machine.describe() | measure(pathlib.Path(folder), options.reps, options.threads)
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def measure(folder: pathlib.Path, reps: int, threads: int) -> dict:
    arrays = write(folder)
    readers = {"named arrays": named, "two loaders in step": in_step, "zarr-python, worker processes": workers}
    wall: dict[str, list[float]] = {name: [] for name in readers}
    cpu: dict[str, list[float]] = {name: [] for name in readers}
    sums: dict[str, float] = {}
    for rep in range(reps + 1):  # the first one is not counted
        for name, reader in readers.items():
            seconds, cpu_seconds, sums[name] = timed(reader, arrays, threads)
            if rep > 0:
                wall[name].append(seconds)
                cpu[name].append(cpu_seconds)
    if len(set(sums.values())) > 1:
        raise RuntimeError(f"the readers' batches differ: {sums}")
    gb = BATCHES * BATCH_BYTES / 1e9
    return {
        "what": "image u16 of 2 channels to f32 and label u8 to i64, zstd; crops of both at the same random places",
        "batch_bytes": BATCH_BYTES,
        "gb_per_s": {name: [round(gb / s, 3) for s in seconds] for name, seconds in wall.items()},
        "cpu_s_per_gb": {name: round(statistics.median(seconds) / gb, 3) for name, seconds in cpu.items()},
        "ratios": {
            f"named arrays / {name}": round(statistics.median(wall[name]) / statistics.median(wall["named arrays"]), 2)
            for name in readers
            if name != "named arrays"
        },
    }


def write(folder: pathlib.Path) -> dict[str, str]:
    import zarr

    rng = np.random.default_rng(0)
    image = rng.normal(500, 12, (CHANNELS, *SHAPE)).astype("u2")
    label = (rng.random(SHAPE) < 0.1).astype("u1")
    for name, data, chunks in (("image", image, (1, *CHUNKS)), ("label", label, CHUNKS)):
        zarr.create_array(folder / name, data=data, chunks=chunks)  # zstd by default
    return {name: str(folder / name) for name in ("image", "label")}


def timed(reader: Callable, arrays: dict[str, str], threads: int) -> tuple[float, float, float]:
    """Seconds from the first batch on, processor seconds with those of workers, and a sum over all batches."""
    batches = reader(arrays, threads)
    total = next(batches)
    start, cpu_before = time.perf_counter(), cpu_seconds()
    for one in batches:
        total += one
    return time.perf_counter() - start, cpu_seconds() - cpu_before, total


def cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(one.ru_utime + one.ru_stime for one in used)


def checked(image: np.ndarray, label: np.ndarray) -> float:
    """A few elements of every row, so that checking costs nothing."""
    return float(image[:, :, ::7, ::31, ::31].sum(dtype="f8") + label[:, ::7, ::31, ::31].sum())


def config(threads: int, **fields: object) -> damacy.Config:
    size = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    return damacy.Config(batch_size=BATCH, device="cpu", n_io_threads=threads, **size, **fields)


def named(arrays: dict[str, str], threads: int) -> Iterator[float]:
    crops = RandomCrops(arrays, CROP, length=BATCH * (BATCHES + 1), seed=1)
    specs = {name: damacy.ArraySpec(dtype=np.dtype(dtype)) for name, dtype in DTYPES.items()}
    with Loader(crops, config(threads, arrays=specs)) as loader:
        for batch in loader:
            with batch:
                yield checked(batch["image"].numpy(), batch["label"].numpy())


def in_step(arrays: dict[str, str], threads: int) -> Iterator[float]:
    def loader(name: str, extents: tuple[int, ...]) -> Loader:
        crops = RandomCrops([arrays[name]], extents, length=BATCH * (BATCHES + 1), seed=1)
        return Loader(crops, config(max(1, threads // 2), dtype=np.dtype(DTYPES[name])))

    with loader("image", (CHANNELS, *CROP)) as images, loader("label", CROP) as labels:
        for x, y in zip(images, labels):
            with x, y:
                yield checked(x.numpy(), y.numpy())


def workers(arrays: dict[str, str], threads: int) -> Iterator[float]:
    """A worker makes a whole batch, as with a `DataLoader`, and keeps it: what sending it would cost is not counted."""
    crops = RandomCrops(arrays, CROP, length=BATCH * (BATCHES + 1), seed=1)
    samples = crops.samples(0, 0, len(crops))
    with concurrent.futures.ProcessPoolExecutor(threads) as pool:
        yield from pool.map(_read, [samples[k : k + BATCH] for k in range(0, len(samples), BATCH)])


def _read(samples: list[damacy.Sample]) -> float:
    import zarr

    rows: dict[str, list[np.ndarray]] = {name: [] for name in DTYPES}
    for sample in samples:
        for name, ((uri, box),) in sample.arrays.items():
            if uri not in _opened:
                _opened[uri] = zarr.open_array(uri, mode="r")
            crop = _opened[uri][tuple(slice(*axis) for axis in box)]  # type: ignore[index]
            rows[name].append(crop.astype(DTYPES[name]))
    return checked(np.stack(rows["image"]), np.stack(rows["label"]))
