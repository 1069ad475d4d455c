"""Times of `next` on two loaders: held in step by `zip`, and with each batch dropped before the next one is asked for.

    python -m bench.pairs.zipped --out bench/results/zipped-loaders-host.json

An image of u16 with 2 channels and its label of u8, zstd; crops of 16 x 96 x 96, 8 in a batch, default settings but one
reader thread each. Both consumers read every element once. `zip` holds a batch of both loaders while it asks for the
next, so loaders add slots. Runs by turns; each is a pair of new loaders, and the first 16 steps are not counted.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench import machine
from bench.pairs import volume
from damacy.samplers import RandomCrops
from damacy.training import Loader

Consumer = Callable[[Iterator[Any], Iterator[Any]], None]

SKIPPED, STEPS = 16, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    what = "milliseconds of next() on two loaders; of one run the median and the 99th percentile"
    result = machine.describe() | {"command": f"python -m bench.pairs.zipped --reps {arguments.reps}", "what": what}
    consumers: dict[str, Consumer] = {"dropped": dropped, "zip": zipped}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in consumers}
    with tempfile.TemporaryDirectory() as folder:
        arrays = volume.write(pathlib.Path(folder))
        for rep in range(arguments.reps + 1):
            for name in list(consumers)[:: 1 if rep % 2 else -1]:
                found = run(arrays, consumers[name])
                if rep > 0:
                    runs[name].append(found)
    result["runs"] = runs
    p99 = {name: [each["p99_ms"] for each in all_of_it] for name, all_of_it in runs.items()}
    result["p99_ms"] = {name: statistics.median(values) for name, values in p99.items()}
    result["ratio_of_medians"] = round(result["p99_ms"]["zip"] / result["p99_ms"]["dropped"], 3)
    pairs = [zip_ / drop for zip_, drop in zip(p99["zip"], p99["dropped"], strict=True)]
    result["ratio_by_turn"] = round(statistics.median(pairs), 3)
    print({key: result[key] for key in ("p99_ms", "ratio_of_medians", "ratio_by_turn")})
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def loader(uri: str, extents: tuple[int, ...], dtype: str) -> Loader:
    crops = RandomCrops([uri], extents, length=volume.BATCH * (SKIPPED + STEPS), seed=1)
    return Loader(crops, volume.config(1, dtype=np.dtype(dtype)))


def run(arrays: dict[str, str], consumer: Consumer) -> dict[str, float]:
    seconds: list[float] = []
    image = loader(arrays["image"], (volume.CHANNELS, *volume.CROP), volume.DTYPES["image"])
    label = loader(arrays["label"], volume.CROP, volume.DTYPES["label"])
    with image, label:
        consumer(Timed(image, seconds), Timed(label, seconds))
    counted = np.array(seconds[2 * SKIPPED :]) * 1e3
    assert len(counted) == 2 * STEPS
    return {"median_ms": round(float(np.median(counted)), 3), "p99_ms": round(float(np.percentile(counted, 99)), 3)}


class Timed:
    """Holds no reference to what it handed out, which a generator would."""

    def __init__(self, batches: Loader, seconds: list[float]) -> None:
        self._batches, self._seconds = iter(batches), seconds

    def __iter__(self) -> Timed:
        return self

    def __next__(self) -> Any:
        start = time.perf_counter()
        batch = next(self._batches)
        self._seconds.append(time.perf_counter() - start)
        return batch


def zipped(images: Iterator[Any], labels: Iterator[Any]) -> None:
    for x, y in zip(images, labels):
        volume.checked(x.numpy(), y.numpy())


def dropped(images: Iterator[Any], labels: Iterator[Any]) -> None:
    for x in images:
        image = x.numpy()
        float(image[:, :, ::7, ::31, ::31].sum(dtype="f8"))
        del x, image
        y = next(labels)
        label = y.numpy()
        float(label[:, ::7, ::31, ::31].sum())
        del y, label


if __name__ == "__main__":
    main()
