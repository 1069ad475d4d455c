"""Crops of an image and of its label that cross the border by reflection, are normalised, clipped, and turned: by one
loader, beside plain crops of the same places moved into the array, and beside worker processes that do the same with
zarr-python and NumPy, and, where torch is installed, beside its `DataLoader`. By turns.

    python -m bench.pairs.finished --reps 5 --out bench/results/finished-pairs-host.json

The plain crops are the bound: what finishing costs is the rest. Rates are bytes of finished batches per second.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import damacy
from bench.pairs import turns, volume

MARGIN = 7  # less than half a crop: a reader that pads a crop reflects its own voxels only
SPECS = {
    "image": damacy.ArraySpec(dtype=np.dtype("f4"), scale=1 / 4095, offset=-0.1, clip=(0, 1), pad="reflect"),
    "label": damacy.ArraySpec(dtype=np.dtype("i8"), pad="reflect"),
}
TURNS = [(turned, flip) for turned in (False, True) for flip in ((), (-2,), (-1,), (-2, -1))]


def main() -> None:
    turns.run(measure, __doc__)


def measure(folder: pathlib.Path, reps: int, threads: int) -> dict:
    readers = {"finished": finished, "plain": plain, "zarr-python and NumPy, worker processes": workers}
    if importlib.util.find_spec("torch"):
        readers["DataLoader, zarr-python and torch"] = data_loader
    result = turns.by_turns(readers, volume.write(folder), threads, reps, volume.BATCHES * volume.BATCH_BYTES)
    sums = result["sums"]
    if any(sums[name] != sums["finished"] for name in readers if name != "plain"):
        raise RuntimeError(f"the readers' batches differ: {sums}")
    what = "image u16 of 2 channels to f32 and label u8 to i64, zstd; reflected margin, scale, clip, flips, turns"
    return {"what": what, "batch_bytes": volume.BATCH_BYTES} | result


def places() -> list[tuple[int, ...]]:
    """The first voxels of crops, up to a margin beyond the array."""
    rng = np.random.default_rng(1)
    high = [size - crop + MARGIN + 1 for size, crop in zip(volume.SHAPE, volume.CROP)]
    starts = rng.integers(-MARGIN, high, (volume.BATCH * (volume.BATCHES + 1), 3))
    return [tuple(int(at) for at in start) for start in starts]


def samples_of(arrays: dict[str, str], finish: bool) -> list[damacy.Sample]:
    samples = []
    for k, start in enumerate(places()):
        if not finish:
            start = tuple(min(max(0, at), size - crop) for at, size, crop in zip(start, volume.SHAPE, volume.CROP))
        box = [(at, at + extent) for at, extent in zip(start, volume.CROP)]
        boxes = {"image": (arrays["image"], [(0, volume.CHANNELS), *box]), "label": (arrays["label"], box)}
        turned, flip = TURNS[k % 8] if finish else (False, ())
        samples.append(damacy.Sample(boxes, transpose=(-1, -2) if turned else None, flip=flip))
    return samples


def stream(samples: list[damacy.Sample], threads: int, specs: dict[str, damacy.ArraySpec]) -> Iterator[float]:
    with damacy.Pipeline(volume.config(threads, arrays=specs)) as pipeline:
        pipeline.push(samples)
        for batch in pipeline:
            with batch:
                yield volume.checked(batch["image"].numpy(), batch["label"].numpy())


def finished(arrays: dict[str, str], threads: int) -> Iterator[float]:
    return stream(samples_of(arrays, True), threads, SPECS)


def plain(arrays: dict[str, str], threads: int) -> Iterator[float]:
    specs = {name: damacy.ArraySpec(dtype=np.dtype(dtype)) for name, dtype in volume.DTYPES.items()}
    return stream(samples_of(arrays, False), threads, specs)


def workers(arrays: dict[str, str], threads: int) -> Iterator[float]:
    """A worker makes a whole batch, as with a `DataLoader`, and keeps it: what sending it would cost is not counted."""
    samples = samples_of(arrays, True)
    with concurrent.futures.ProcessPoolExecutor(threads) as pool:
        yield from pool.map(_read, [samples[k : k + volume.BATCH] for k in range(0, len(samples), volume.BATCH)])


def _read(samples: list[damacy.Sample]) -> float:
    rows: dict[str, list[np.ndarray]] = {name: [] for name in volume.DTYPES}
    for sample in samples:
        for name, ((uri, box),) in sample.arrays.items():
            crop = _crop(uri, box)
            if name == "image":
                crop = crop.astype("f4") * np.float32(1 / 4095) + np.float32(-0.1)
                crop = np.clip(crop, np.float32(0), np.float32(1))
            crop = np.swapaxes(crop, -1, -2) if sample.transpose else crop
            crop = np.flip(crop, sample.flip) if sample.flip else crop
            rows[name].append(np.ascontiguousarray(crop).astype(volume.DTYPES[name]))
    return volume.checked(np.stack(rows["image"]), np.stack(rows["label"]))


def data_loader(arrays: dict[str, str], threads: int) -> Iterator[float]:
    """What torch's users volume.write: a data set that reads one sample, and worker processes that collate batches."""
    import torch.utils.data

    loader = torch.utils.data.DataLoader(
        _Crops(samples_of(arrays, True)), volume.BATCH, num_workers=threads, multiprocessing_context="forkserver"
    )
    for batch in loader:
        yield volume.checked(batch["image"].numpy(), batch["label"].numpy())


class _Crops:
    def __init__(self, samples: list[damacy.Sample]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return _read_by_torch(self._samples[index])


def _read_by_torch(sample: damacy.Sample) -> dict[str, Any]:
    import torch

    row = {}
    for name, ((uri, box),) in sample.arrays.items():
        crop = torch.from_numpy(_crop(uri, box).astype("f4" if name == "image" else "i8"))
        if name == "image":
            crop = crop.mul_(np.float32(1 / 4095)).add_(np.float32(-0.1)).clamp_(0, 1)
        crop = crop.transpose(-1, -2) if sample.transpose else crop
        row[name] = (crop.flip(sample.flip) if sample.flip else crop).contiguous()
    return row


def _crop(uri: str, box: tuple) -> np.ndarray:
    array = volume.opened(uri)
    inside = tuple(slice(max(0, start), min(stop, size)) for (start, stop), size in zip(box, array.shape))
    beyond = [(max(0, -start), max(0, stop - size)) for (start, stop), size in zip(box, array.shape)]
    crop = array[inside]
    return np.pad(crop, beyond, mode="reflect") if any(map(any, beyond)) else crop


if __name__ == "__main__":
    main()
