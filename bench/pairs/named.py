"""Crops of an image and of its label at the same places: one loader with named arrays, beside two loaders in step and
beside worker processes with zarr-python, as a `DataLoader` has them. All read the same crops, by turns.

    python -m bench.pairs --reps 5 --out bench/results/pairs-host.json

Two loaders in step are the bound: they read and place the same bytes, and pair nothing. Rates are bytes of finished
batches per second and per second of processor time.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Iterator

import numpy as np

import damacy
from bench.pairs import turns, volume
from damacy.samplers import RandomCrops
from damacy.training import Loader


def main() -> None:
    turns.run(measure, __doc__)


def measure(folder: pathlib.Path, reps: int, threads: int) -> dict:
    readers = {"named arrays": named, "two loaders in step": in_step, "zarr-python, worker processes": workers}
    result = turns.by_turns(readers, volume.write(folder), threads, reps, volume.BATCHES * volume.BATCH_BYTES)
    if len(set(result["sums"].values())) > 1:
        raise RuntimeError(f"the readers' batches differ: {result['sums']}")
    what = "image u16 of 2 channels to f32 and label u8 to i64, zstd; crops of both at the same random places"
    return {"what": what, "batch_bytes": volume.BATCH_BYTES} | result


def named(arrays: dict[str, str], threads: int) -> Iterator[float]:
    crops = RandomCrops(arrays, volume.CROP, length=volume.BATCH * (volume.BATCHES + 1), seed=1)
    specs = {name: damacy.ArraySpec(dtype=np.dtype(dtype)) for name, dtype in volume.DTYPES.items()}
    with Loader(crops, volume.config(threads, arrays=specs)) as loader:
        for batch in loader:
            with batch:
                yield volume.checked(batch["image"].numpy(), batch["label"].numpy())


def in_step(arrays: dict[str, str], threads: int) -> Iterator[float]:
    def loader(name: str, extents: tuple[int, ...]) -> Loader:
        crops = RandomCrops([arrays[name]], extents, length=volume.BATCH * (volume.BATCHES + 1), seed=1)
        return Loader(crops, volume.config(max(1, threads // 2), dtype=np.dtype(volume.DTYPES[name])))

    with loader("image", (volume.CHANNELS, *volume.CROP)) as images, loader("label", volume.CROP) as labels:
        for x, y in zip(images, labels):
            with x, y:
                yield volume.checked(x.numpy(), y.numpy())


def workers(arrays: dict[str, str], threads: int) -> Iterator[float]:
    """A worker makes a whole batch, as with a `DataLoader`, and keeps it: what sending it would cost is not counted."""
    crops = RandomCrops(arrays, volume.CROP, length=volume.BATCH * (volume.BATCHES + 1), seed=1)
    samples = crops.samples(0, 0, len(crops))
    with concurrent.futures.ProcessPoolExecutor(threads) as pool:
        yield from pool.map(_read, [samples[k : k + volume.BATCH] for k in range(0, len(samples), volume.BATCH)])


def _read(samples: list[damacy.Sample]) -> float:
    rows: dict[str, list[np.ndarray]] = {name: [] for name in volume.DTYPES}
    for sample in samples:
        for name, ((uri, box),) in sample.arrays.items():
            rows[name].append(volume.opened(uri)[tuple(slice(*axis) for axis in box)].astype(volume.DTYPES[name]))
    return volume.checked(np.stack(rows["image"]), np.stack(rows["label"]))
