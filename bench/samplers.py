"""Rates of samplers on one core: samples and boxes of one array per second, in portions of 4,096 as loaders ask for
them. Needs no data; reads nothing.

    python -m bench.samplers --reps 9 --out bench/results/samplers-host.json

Rates are per second of processor time of the thread. The goals are 200,000 samples and 2,000,000 boxes.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable

from bench import machine
from damacy.samplers import Indexed, RandomCrops, SlidingGrid, Weighted

PORTION = 4096
EPOCH = 50 * PORTION
ARRAYS = {f"/data/images/{k}.zarr": (64, 1024, 1024) for k in range(100)}
CROP = (16, 96, 96)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    result = machine.describe() | {"portion": PORTION, "per_second": {}}
    for name, sampler in samplers().items():
        rates = {
            what: round(statistics.median(rate(getattr(sampler, what)) for _ in range(arguments.reps)))
            for what in ("samples", "boxes")
        }
        result["per_second"][name] = rates
        print(f"{name:23}{rates['samples']:>12,} samples{rates['boxes']:>14,} boxes", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def samplers() -> dict:
    crops = RandomCrops(ARRAYS, CROP, length=EPOCH, seed=1)
    return {
        "Indexed": Indexed(crops, range(EPOCH - 1, -1, -1)),
        "Weighted": Weighted(crops, range(EPOCH), length=EPOCH, seed=1),
        "RandomCrops": crops,
        "SlidingGrid": SlidingGrid(ARRAYS, CROP, stride=(16, 48, 48)),
        "SlidingGrid, shuffled": SlidingGrid(ARRAYS, CROP, stride=(16, 48, 48), seed=1),
    }


def rate(draw: Callable[[int, int, int], object]) -> float:
    begin = time.thread_time()
    for start in range(0, 10 * PORTION, PORTION):
        draw(0, start, start + PORTION)
    return 10 * PORTION / (time.thread_time() - begin)


if __name__ == "__main__":
    main()
