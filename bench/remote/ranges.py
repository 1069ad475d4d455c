"""Ranges of one large object from a server that answers late: damacy next to bare libcurl, obstore and TensorStore.

    python -m bench.remote.ranges --out bench/results/remote-ranges-host.json [--rounds 5] [--delays 1,10,50]

Each arm keeps the bytes. damacy has two: `RemoteFile`, and a pipeline that reads an array of the same bytes, stored
without compression in one shard. Bare libcurl is `raw_ranges.cpp`, compiled here; it needs g++ and libcurl's headers.
Before the rounds every arm's bytes are compared with the file, except those of libcurl, which counts them. Needs nginx
(bench/remote/nginx.py) and zarr; arms whose package is missing are left out, and the result says so.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.remote import measure, nginx

IN_FLIGHT = {1: 16, 10: 64, 50: 256}  # requests under way, by delay in ms
SIZES = {64 << 10: 2048, 1 << 20: 256}  # bytes of a range: how many
OBJECT = 512 << 20
# Of (base url, places in units of a range, bytes of one): what was read, one item a range. With `keep` false the memory
# may be that of the last call.
Read = Callable[[str, list[int], int, bool], Sequence[Any]]


def make_data(folder: pathlib.Path, each: int) -> np.ndarray:
    """One shard of chunks of `each` bytes; the same bytes are in `blob`."""
    import zarr

    data = np.random.default_rng(0).integers(0, 65536, OBJECT // 2, dtype="u2")
    count = OBJECT // 2
    zarr.create_array(folder / f"raw-{each}.zarr", data=data, chunks=(each // 2,), shards=(count,), compressors=None)
    if not (folder / "blob").exists():
        data.tofile(folder / "blob")
    return data


def remote_file_arm(in_flight: int) -> Read:
    import damacy
    from damacy.remote_file import RemoteFile

    memory = np.zeros(max(each * count for each, count in SIZES.items()), np.uint8)

    def read(url: str, places: list[int], each: int, keep: bool) -> Sequence[Any]:
        count = len(places)
        with RemoteFile.open_url(f"{url}/blob", damacy.StoreOptions(max_requests=in_flight), nbytes=OBJECT) as file:
            file.preadv_packed(memory, np.full(count, each, np.int64), np.array(places, np.int64) * each).get()
        return memory[: count * each].reshape(count, each)

    return read


def pipeline_arm(in_flight: int) -> Read:
    import damacy

    def read(url: str, places: list[int], each: int, keep: bool) -> Sequence[Any]:
        uri = f"{url}/raw-{each}.zarr"
        damacy.mount(f"{uri}/", damacy.StoreOptions(max_requests=in_flight))
        memory = {"host_buffer_bytes": 512 << 20, "n_batches": 8, "lookahead_batches": 8}
        config = damacy.Config(batch_size=max(1, (8 << 20) // each), device="cpu", dtype="u16", **memory)
        rows: list[Any] = []
        with damacy.Pipeline(config) as pipeline:
            elements = each // 2
            pipeline.push(damacy.Sample(uri, [(place * elements, (place + 1) * elements)]) for place in places)
            for batch in pipeline:
                with batch as held:
                    rows += [row.tobytes() for row in held.numpy()] if keep else [None] * len(held.samples)
        assert len(rows) == len(places)
        return rows

    return read


def obstore_arm(in_flight: int) -> Read:
    import obstore
    from obstore.store import HTTPStore

    def read(url: str, places: list[int], each: int, keep: bool) -> Sequence[Any]:
        store = HTTPStore(url, client_options={"allow_http": True})

        async def all_of_them() -> Sequence[Any]:
            free = asyncio.Semaphore(in_flight)

            async def one(place: int) -> Any:
                async with free:
                    return await obstore.get_range_async(store, "blob", start=place * each, length=each)

            return await asyncio.gather(*(one(place) for place in places))

        return asyncio.run(all_of_them())

    return read


def tensorstore_arm(in_flight: int) -> Read:
    import tensorstore

    def read(url: str, places: list[int], each: int, keep: bool) -> Sequence[Any]:
        limits = tensorstore.Context({"http_request_concurrency": {"limit": in_flight}})
        store = tensorstore.KvStore.open({"driver": "http", "base_url": url}, context=limits).result()
        ranges = [slice(place * each, (place + 1) * each) for place in places]
        return [one.result().value for one in [store.read("/blob", byte_range=each) for each in ranges]]

    return read


def compiled(folder: pathlib.Path) -> pathlib.Path:
    """The program of bare libcurl. Raises OSError or CalledProcessError if it cannot be compiled."""
    program = folder / "raw_ranges"
    source = pathlib.Path(__file__).with_name("raw_ranges.cpp")
    subprocess.run(["g++", "-O2", "-std=c++20", source, "-o", program, "-lcurl"], check=True, capture_output=True)
    return program


ARMS: dict[str, Callable[[int], Read]] = {
    "damacy, RemoteFile": remote_file_arm,
    "damacy, pipeline": pipeline_arm,
    "obstore": obstore_arm,
    "tensorstore": tensorstore_arm,
}


def rates(results: list[tuple[float, float]], bytes_read: int) -> measure.Row:
    rate, rate_range = measure.spread([bytes_read / seconds / 1e6 for seconds, _ in results])
    used, used_range = measure.spread([used / bytes_read * 1e9 for _, used in results], 2)
    return {"mb_per_s": rate, "range": rate_range, "processor_s_per_gb": used, "processor_range": used_range}


@dataclasses.dataclass(frozen=True)
class Setting:
    url: str
    each: int  # bytes of a range
    delay: int  # ms
    places: list[int]
    expected: np.ndarray  # bytes of the object


def calls_of(setting: Setting, program: pathlib.Path, missing: dict[str, str]) -> dict[str, Callable[[], Any]]:
    """One call for each arm, whose bytes are right."""
    calls: dict[str, Callable[[], Any]] = {}
    for arm, make in ARMS.items():
        try:
            read = make(IN_FLIGHT[setting.delay])
        except ImportError as error:
            missing[arm] = str(error)
            continue
        some = setting.places[:32]
        for place, found in zip(some, read(setting.url, some, setting.each, True), strict=True):
            start = place * setting.each
            if bytes(found) != setting.expected[start : start + setting.each].tobytes():
                sys.exit(f"{arm}: the range at {start} differs")
        whole = functools.partial(read, setting.url, setting.places, setting.each, False)
        calls[arm] = functools.partial(measure.timed, whole)
    calls["bare libcurl"] = functools.partial(bare, setting, program)
    return calls


def bare(setting: Setting, program: pathlib.Path) -> tuple[float, float]:
    numbers = [OBJECT, setting.each, len(setting.places), IN_FLIGHT[setting.delay], 1]
    run = [program, f"{setting.url}/blob", *map(str, numbers)]
    found = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert found["bytes"] == setting.each * len(setting.places)
    return found["seconds"], found["processor_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delays", default="1,10,50")
    options = parser.parse_args()
    load = os.getloadavg()
    rows: list[measure.Row] = []
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        data = folder / "data"
        data.mkdir()
        program = compiled(folder)
        expected = [make_data(data, each) for each in SIZES][0].view(np.uint8)
        delays = [int(delay) for delay in options.delays.split(",")]
        with nginx.serving_each(data, folder / "nginx", delays) as urls:
            for each, count in SIZES.items():
                places = np.random.default_rng(1).integers(0, OBJECT // each, count).tolist()
                for delay, url in urls.items():
                    setting = Setting(url, each, delay, places, expected)
                    results = measure.in_turns(calls_of(setting, program, missing), options.rounds)
                    for arm, found in results.items():
                        row = {"range_bytes": each, "delay_ms": delay, "requests": IN_FLIGHT[delay], "arm": arm}
                        rows.append(measure.show(row | rates(found, count * each)))
    measure.write(options.out, __doc__.splitlines()[0], rows, load, missing=missing, server="nginx")


if __name__ == "__main__":
    main()
