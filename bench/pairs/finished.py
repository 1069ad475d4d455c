"""Crops of an image and of its label that cross the border by reflection, are normalised, clipped, and turned: by one
loader, beside plain crops of the same places moved into the array, and beside worker processes that do the same with
zarr-python and NumPy, as a `DataLoader` has them. By turns.

    python -m bench.pairs.finished --reps 5 --out bench/results/finished-pairs-host.json

The plain crops are the bound: what finishing costs is the rest. Rates are bytes of finished batches per second.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

import numpy as np

import damacy
from bench import machine, pairs

MARGIN = 7  # less than half a crop: a reader that pads a crop reflects its own voxels only
SPECS = {
    "image": damacy.ArraySpec(dtype=np.dtype("f4"), scale=1 / 4095, offset=-0.1, clip=(0, 1), pad="reflect"),
    "label": damacy.ArraySpec(dtype=np.dtype("i8"), pad="reflect"),
}
TURNS = [(turned, flip) for turned in (False, True) for flip in ((), (-2,), (-1,), (-2, -1))]


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
    arrays = pairs.write(folder)
    readers = {"finished": finished, "plain": plain, "zarr-python and NumPy, worker processes": workers}
    wall: dict[str, list[float]] = {name: [] for name in readers}
    cpu: dict[str, list[float]] = {name: [] for name in readers}
    sums: dict[str, float] = {}
    for rep in range(reps + 1):  # the first one is not counted
        for name, reader in readers.items():
            seconds, cpu_seconds, sums[name] = pairs.timed(reader, arrays, threads)
            if rep > 0:
                wall[name].append(seconds)
                cpu[name].append(cpu_seconds)
    if sums["finished"] != sums["zarr-python and NumPy, worker processes"]:
        raise RuntimeError(f"the readers' batches differ: {sums}")
    gb = pairs.BATCHES * pairs.BATCH_BYTES / 1e9
    return {
        "what": "image u16 of 2 channels to f32 and label u8 to i64, zstd; reflected margin, scale, clip, flips, turns",
        "batch_bytes": pairs.BATCH_BYTES,
        "gb_per_s": {name: [round(gb / s, 3) for s in seconds] for name, seconds in wall.items()},
        "cpu_s_per_gb": {name: round(statistics.median(seconds) / gb, 3) for name, seconds in cpu.items()},
        "ratios": {
            f"finished / {name}": round(statistics.median(wall[name]) / statistics.median(wall["finished"]), 2)
            for name in readers
            if name != "finished"
        },
    }


def places() -> list[tuple[int, ...]]:
    """The first voxels of crops, up to a margin beyond the array."""
    rng = np.random.default_rng(1)
    high = [size - crop + MARGIN + 1 for size, crop in zip(pairs.SHAPE, pairs.CROP)]
    starts = rng.integers(-MARGIN, high, (pairs.BATCH * (pairs.BATCHES + 1), 3))
    return [tuple(int(at) for at in start) for start in starts]


def samples_of(arrays: dict[str, str], finish: bool) -> list[damacy.Sample]:
    samples = []
    for k, start in enumerate(places()):
        if not finish:
            start = tuple(min(max(0, at), size - crop) for at, size, crop in zip(start, pairs.SHAPE, pairs.CROP))
        box = [(at, at + extent) for at, extent in zip(start, pairs.CROP)]
        boxes = {"image": (arrays["image"], [(0, pairs.CHANNELS), *box]), "label": (arrays["label"], box)}
        turned, flip = TURNS[k % 8] if finish else (False, ())
        samples.append(damacy.Sample(boxes, transpose=(-1, -2) if turned else None, flip=flip))
    return samples


def stream(samples: list[damacy.Sample], threads: int, specs: dict[str, damacy.ArraySpec]) -> Iterator[float]:
    with damacy.Pipeline(pairs.config(threads, arrays=specs)) as pipeline:
        pipeline.push(samples)
        for batch in pipeline:
            with batch:
                yield pairs.checked(batch["image"].numpy(), batch["label"].numpy())


def finished(arrays: dict[str, str], threads: int) -> Iterator[float]:
    return stream(samples_of(arrays, True), threads, SPECS)


def plain(arrays: dict[str, str], threads: int) -> Iterator[float]:
    specs = {name: damacy.ArraySpec(dtype=np.dtype(dtype)) for name, dtype in pairs.DTYPES.items()}
    return stream(samples_of(arrays, False), threads, specs)


def workers(arrays: dict[str, str], threads: int) -> Iterator[float]:
    """A worker makes a whole batch, as with a `DataLoader`, and keeps it: what sending it would cost is not counted."""
    samples = samples_of(arrays, True)
    with concurrent.futures.ProcessPoolExecutor(threads) as pool:
        yield from pool.map(_read, [samples[k : k + pairs.BATCH] for k in range(0, len(samples), pairs.BATCH)])


def _read(samples: list[damacy.Sample]) -> float:
    rows: dict[str, list[np.ndarray]] = {name: [] for name in pairs.DTYPES}
    for sample in samples:
        for name, ((uri, box),) in sample.arrays.items():
            crop = _crop(uri, box)
            if name == "image":
                crop = crop.astype("f4") * np.float32(1 / 4095) + np.float32(-0.1)
                crop = np.clip(crop, np.float32(0), np.float32(1))
            crop = np.swapaxes(crop, -1, -2) if sample.transpose else crop
            crop = np.flip(crop, sample.flip) if sample.flip else crop
            rows[name].append(np.ascontiguousarray(crop).astype(pairs.DTYPES[name]))
    return pairs.checked(np.stack(rows["image"]), np.stack(rows["label"]))


def _crop(uri: str, box: tuple) -> np.ndarray:
    import zarr

    if uri not in pairs._opened:
        pairs._opened[uri] = zarr.open_array(uri, mode="r")
    array = pairs._opened[uri]
    shape = array.shape  # type: ignore[attr-defined]
    inside = tuple(slice(max(0, start), min(stop, size)) for (start, stop), size in zip(box, shape))
    beyond = [(max(0, -start), max(0, stop - size)) for (start, stop), size in zip(box, shape)]
    crop = array[inside]  # type: ignore[index]
    return np.pad(crop, beyond, mode="reflect") if any(map(any, beyond)) else crop


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
