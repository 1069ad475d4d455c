"""Random crops from a server that answers late: damacy beside TensorStore and zarr-python with obstore.

    python -m bench.remote.crops --out bench/results/remote-crops-host.json [--rounds 3] [--delays 1,10,50]

Three arms show what this machine allows. `local files`: the same crops without a server. `local files beside a server`:
the same while another program fetches as many ranges of as many bytes from the server. `raw ranges`: those ranges
alone, by bare libcurl. `bound` of a row is 0.9 times the smaller of the last two. Arms take turns: each round runs
every arm once. Crops are taken in order and not kept, as in a training loop: pipelines and arrays are open before the
rounds, and each round has other crops. TensorStore's pool of chunks is new in each round: the whole array fits it.
Before the rounds some crops of each arm are compared with the array in memory. zarr-python reads crop after crop, as
many as fit a round (`of`). `--extents 64,128` adds crops of 128. Of the codec `none` there are only shards. A row is
`reached` at the bound, or at so many times the best peer: 2, at 1 ms 1.2, without a codec 0.9.
Needs nginx (bench/remote/nginx.py), zarr, g++ and libcurl's headers; arms whose package is missing are left out, and
the result says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.remote import data, measure, nginx, ranges, readers

OURS = "damacy, 8 batches"
LOCAL, BESIDE, RAW = "local files", "local files beside a server", "raw ranges"
BLOB = 256 << 20  # bytes of the object that raw ranges are of
COMPARED = 4  # crops of an arm, before the rounds
LONGEST_S = 1.5  # of a round of the arm that reads crop after crop, so that fewer crops have the same rate


@dataclasses.dataclass(frozen=True)
class Setting:
    folder: pathlib.Path
    name: str  # of the array
    url: str  # of the folder
    delay: int  # ms
    crop: int
    count: int  # of crops
    program: pathlib.Path

    def corners(self, seed: int) -> list[tuple[int, ...]]:
        return data.corners(self.count, self.crop, seed)

    def raw(self, requests: int, received: int) -> list[str]:
        """The command that fetches as many ranges of as many bytes."""
        each = max(1, received // requests)
        numbers = [BLOB, each, requests, ranges.IN_FLIGHT.get(self.delay, 64), 1]
        return [str(self.program), f"{self.url}/blob", *map(str, numbers)]


def beside(setting: Setting, read: readers.Read, raw: list[str], seeds: Iterator[int]) -> float:
    """Crops per second, until both have ended."""
    corners = setting.corners(next(seeds))
    begin = time.perf_counter()
    with subprocess.Popen(raw, stdout=subprocess.DEVNULL) as other:
        readers.read_all(read(str(setting.folder / setting.name), corners, setting.crop))
    assert other.returncode == 0
    return setting.count / (time.perf_counter() - begin)


def seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def rate_of(setting: Setting, read: readers.Read, where: str, count: int, seeds: Iterator[int]) -> float:
    corners = setting.corners(next(seeds))[:count]
    return len(corners) / seconds(lambda: readers.read_all(read(where, corners, setting.crop)))


def calls_of(
    setting: Setting, arms: dict[str, readers.Read], values: np.ndarray
) -> tuple[dict[str, Callable[[], float]], dict[str, int]]:
    """Each gives crops per second. By arm, how many crops it reads, where these are not all."""
    url = f"{setting.url}/{setting.name}"
    local = readers.READERS[OURS]()
    calls: dict[str, Callable[[], float]] = {}
    parts: dict[str, int] = {}
    count = setting.count
    for name, read in (arms | {LOCAL: local}).items():
        where = str(setting.folder / setting.name) if name == LOCAL else url
        corners = setting.corners(0)[:COMPARED]
        begin = time.perf_counter()
        for found, corner in zip(read(where, corners, setting.crop), corners, strict=True):
            if not np.array_equal(found, values[data.box(corner, setting.crop)]):
                sys.exit(f"{name}: {setting.name}: the crop at {corner} differs")
        took = time.perf_counter() - begin
        if name.startswith("zarr"):
            parts[name] = min(max(1, int(COMPARED * LONGEST_S / took)), count)
        calls[name] = functools.partial(rate_of, setting, read, where, parts.get(name, count), itertools.count(1))
    readers.read_all(arms[OURS](url, setting.corners(0), setting.crop))
    raw = setting.raw(arms[OURS].counts["requests"], arms[OURS].counts["bytes_received"])
    calls[BESIDE] = functools.partial(beside, setting, local, raw, itertools.count(1))
    alone = functools.partial(subprocess.run, raw, check=True, stdout=subprocess.DEVNULL)
    calls[RAW] = lambda: count / seconds(alone)
    return calls, parts


def rows_of(
    setting: Setting, rates: dict[str, list[float]], parts: dict[str, int], counts: dict[str, int]
) -> list[measure.Row]:
    medians = {arm: statistics.median(found) for arm, found in rates.items()}
    bound = 0.9 * min(medians[RAW], medians[BESIDE])
    peers = [rate for arm, rate in medians.items() if arm.startswith(("tensorstore", "zarr"))]
    ours = max(rate for arm, rate in medians.items() if arm.startswith("damacy"))
    where = {"array": setting.name, "crop": setting.crop, "delay_ms": setting.delay}
    rows = []
    for arm, found in rates.items():
        rate, rate_range = measure.spread(found)
        row = where | {"arm": arm, "crops_per_s": rate, "range": rate_range}
        rows.append(measure.show(row | ({"of": parts[arm]} if arm in parts else {})))
    summary = {"ours": round(ours, 1), "best_peer": round(max(peers), 1) if peers else None, "bound": round(bound, 1)}
    summary["ratio"] = round(ours / max(peers), 2) if peers else None
    times = 0.9 if "-none." in setting.name else 2 if setting.delay >= 10 else 1.2
    summary |= {"reached": bool(not peers or ours >= times * max(peers) or ours >= bound)}
    summary |= {"requests_per_crop": round(counts["requests"] / setting.count, 1)}
    summary |= {"kb_per_crop": round(counts["bytes_received"] / setting.count / 1e3, 1)}
    rows.append(measure.show(where | summary))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delays", default="1,10,50")
    parser.add_argument("--extents", default="64")
    parser.add_argument("--layouts", default="plain,sharded")
    parser.add_argument("--codecs", default=",".join(data.CODECS))
    parser.add_argument("--crops", type=int, default=128, help="crops of 64; of 128 a quarter")
    options = parser.parse_args()
    arms, missing = readers.available()
    load, rows = os.getloadavg(), []
    values = data.values()
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        top.chmod(0o755)
        folder = top / "data"
        folder.mkdir()
        (folder / "blob").write_bytes(np.random.default_rng(2).bytes(BLOB))
        program = ranges.compiled(top)
        delays = [int(delay) for delay in options.delays.split(",")]
        with nginx.serving_each(folder, top / "nginx", delays) as urls:
            for layout in options.layouts.split(","):
                for codec in options.codecs.split(","):
                    if (layout, codec) == ("plain", "none"):
                        continue
                    array = data.write(folder, values, layout, codec)
                    for crop in map(int, options.extents.split(",")):
                        count = options.crops if crop <= 64 else options.crops // 4
                        for delay, url in urls.items():
                            setting = Setting(folder, array, url, delay, crop, count, program)
                            calls, parts = calls_of(setting, arms, values)
                            found = measure.in_turns(calls, options.rounds)
                            rows += rows_of(setting, found, parts, arms[OURS].counts)
    measure.write(
        options.out, __doc__.splitlines()[0], rows, load, missing=missing, shape=data.SHAPE, server=nginx.described()
    )


if __name__ == "__main__":
    main()
