"""Single cases of remote reading, each compared with its peer.

    python -m bench.remote.cases --out bench/results/remote-cases-host.json [--rounds 3] [--only first_batch,arrays]

`first_batch`: 8 crops in a fresh process. `arrays`: 10,000 arrays opened. `late`: the time of `pop` where 1 % of the
answers come 2 s late. `disk`: the second epoch from the disk tier, against local files. `file`: `RemoteFile.read` of
1 GiB, against bare libcurl. `adapters`: stores of obstore and Icechunk by the adapter, against zarr-python on the same
store and the native store; that of Icechunk is on the local disk. `local`: whether a local program loads libcurl.
`gpu`, which only runs if it is named: batches on a GPU, compared with bare libcurl. Needs nginx, zarr, g++ and
libcurl's headers, `gpu` torch as well.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.remote import data, measure, nginx, ranges, readers

Rows = list[measure.Row]
ACCEPTED = 4096  # arrays of samples that wait in a pipeline


class Place:
    """Where the data are, and a server of them."""

    def __init__(self, top: pathlib.Path) -> None:
        self.top = top
        self.folder = top / "data"
        self.folder.mkdir()
        self.port = 0
        self.rounds = 5
        self.values = data.values()
        self.names = {layout: data.write(self.folder, self.values, layout, "zstd") for layout in data.LAYOUTS}
        self.program = ranges.compiled(top)

    def url(self, delay: str | int) -> str:
        return f"http://127.0.0.1:{self.port}/{delay}"


def shown(rows: Rows, case: str, arm: str, values: list[float], unit: str, **more: Any) -> None:
    median, spread = measure.spread(values, 3)
    rows.append(measure.show({"case": case, "arm": arm, unit: median, "range": spread} | more))


FIRST = {
    "damacy": """
import damacy
begin = time.perf_counter()
config = damacy.Config(batch_size=8, device="cpu", dtype="u16", host_buffer_bytes=256 << 20)
with damacy.Pipeline(config) as pipeline:
    pipeline.push([damacy.Sample(url, [(c, c + 64) for c in corner]) for corner in corners])
    pipeline.pop().release()
""",
    "tensorstore": """
import tensorstore
begin = time.perf_counter()
limits = {"http_request_concurrency": {"limit": 256}}
base, path = url.rsplit("/", 1)
spec = {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": url}, "context": limits}
array = tensorstore.open(spec, open=True, read=True).result()
[one.result() for one in [array[tuple(slice(c, c + 64) for c in corner)].read() for corner in corners]]
""",
    "zarr and obstore": """
import zarr
from obstore.store import HTTPStore
from zarr.storage import ObjectStore
begin = time.perf_counter()
zarr.config.set({"async.concurrency": 128})
array = zarr.open_array(ObjectStore(HTTPStore(url, client_options={"allow_http": True}), read_only=True), mode="r")
[array[tuple(slice(c, c + 64) for c in corner)] for corner in corners]
""",
}


def first_batch(place: Place) -> Rows:
    rows: Rows = []
    url, corners = f"{place.url(50)}/{place.names['sharded']}", data.corners(8, 64)

    def run(text: str) -> tuple[float, float]:
        program = f"import time\nurl, corners = {url!r}, {corners!r}\n{text}\nprint(time.perf_counter() - begin)"
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(done.stdout), time.perf_counter() - begin

    found = measure.in_turns({arm: functools.partial(run, text) for arm, text in FIRST.items()}, place.rounds)
    for arm, times in found.items():
        whole = round(statistics.median(process for _, process in times), 3)
        shown(rows, "first batch, 50 ms", arm, [after for after, _ in times], "s", with_imports_s=whole)
    return rows


def arrays(place: Place, count: int = 10_000) -> Rows:
    import tensorstore

    import damacy

    first = place.folder / "many" / "0.zarr"
    import zarr

    zarr.create_array(first, data=np.arange(64, dtype="u2"), chunks=(64,))
    for number in range(1, count):
        (place.folder / "many" / f"{number}.zarr").mkdir()
        shutil.copy(first / "zarr.json", place.folder / "many" / f"{number}.zarr" / "zarr.json")
    urls = [f"{place.url(50)}/many/{number}.zarr" for number in range(count)]

    def opened() -> tuple[float, int]:
        before = nginx.requests_answered(place.port)
        begin = time.perf_counter()
        found = damacy.open_many(urls)
        took = time.perf_counter() - begin
        assert all(array.shape == (64,) for array in found)
        return took, nginx.requests_answered(place.port) - before - 1

    def pushed() -> tuple[float, int]:
        memory = {"host_buffer_bytes": 64 << 20, "n_batches": 1, "lookahead_batches": ACCEPTED // 8}
        config = damacy.Config(batch_size=8, device="cpu", dtype="u16", **memory)
        with damacy.Pipeline(config) as pipeline:
            begin = time.perf_counter()
            pipeline.push([damacy.Sample(url, [(0, 64)]) for url in urls])
            took = time.perf_counter() - begin
            documents = pipeline.stats().requests
        return took, documents

    def by_tensorstore() -> float:
        context = tensorstore.Context({"http_request_concurrency": {"limit": 256}})
        begin = time.perf_counter()
        spec = {"driver": "zarr3", "open": True}
        asked = [
            tensorstore.open(spec | {"kvstore": {"driver": "http", "base_url": url}}, read=True, context=context)
            for url in urls
        ]
        assert all(one.result().shape == (64,) for one in asked)
        return time.perf_counter() - begin

    rows: Rows = []
    found = measure.in_turns({"open_many": opened, "push": pushed, "tensorstore": by_tensorstore}, min(place.rounds, 3))
    case = f"{count} arrays, 50 ms"
    for arm, name in {"open_many": "open_many", "push": f"push of {ACCEPTED}"}.items():
        times, requests = zip(*found[arm], strict=True)
        shown(rows, case, f"damacy, {name}", list(times), "s", requests=statistics.median(requests))
    shown(rows, case, "tensorstore, 256 requests", found["tensorstore"], "s")
    return rows


def late(place: Place) -> Rows:
    """p99 of the time that `pop` takes, without late answers and with them."""
    import damacy

    def pops(delay: str, hedge: str) -> dict[str, float]:
        url = f"{place.url(delay)}/{place.names['plain']}"
        known = {field for field in damacy.StoreOptions.__dataclass_fields__}
        options = damacy.StoreOptions(**({"hedge": hedge} if "hedge" in known else {}))
        damacy.mount(f"{url}/", options)
        config = damacy.Config(batch_size=4, device="cpu", dtype="u16", host_buffer_bytes=512 << 20)
        times = []
        with damacy.Pipeline(config) as pipeline:
            pipeline.push(damacy.Sample(url, [(c, c + 64) for c in corner]) for corner in data.corners(240, 64))
            for _ in range(60):
                begin = time.perf_counter()
                pipeline.pop().release()
                times.append(time.perf_counter() - begin)
            stats = pipeline.stats()
        return {"p99_s": float(np.quantile(times, 0.99)), "requests": stats.requests,
                "hedged": getattr(stats, "requests_hedged", 0)}  # fmt: skip

    arms = {
        "no late answers": lambda: pops("10", "off"),
        "1 % late, no hedging": lambda: pops("10l", "off"),
        "1 % late, hedging": lambda: pops("10l", "on"),
    }
    rows: Rows = []
    for arm, found in measure.in_turns(arms, min(place.rounds, 3)).items():
        more = {key: statistics.median(each[key] for each in found) for key in ("requests", "hedged")}
        shown(rows, "1 % of answers 2 s late, 10 ms", arm, [each["p99_s"] for each in found], "p99_of_pop_s", **more)
    return rows


def disk(place: Place) -> Rows:
    import damacy

    rows: Rows = []
    corners = data.corners(256, 64)
    for case, fields in {"immutable": {"immutable": True}, "default revalidate_s": {}}.items():
        url = f"{place.url(10)}/{place.names['sharded']}"
        damacy.mount(f"{url}/", damacy.StoreOptions(**fields))
        tier = {"disk_cache": place.top / f"tier-{len(rows)}", "disk_cache_bytes": 2 << 30}
        ahead = {"n_batches": 8, "lookahead_batches": 16}  # objects of accepted batches are asked for together
        remote, local = readers.Damacy(**ahead, **tier), readers.Damacy(**ahead)
        for found, corner in zip(remote(url, corners, 64), corners, strict=True):
            assert np.array_equal(found, place.values[data.box(corner, 64)])
        path = str(place.folder / place.names["sharded"])

        def rate(read: readers.Read, where: str) -> float:
            return len(corners) / measure.timed(lambda: readers.read_all(read(where, corners, 64)))[0]

        arms = {
            "epoch 2 from the disk tier": functools.partial(rate, remote, url),
            "local files": functools.partial(rate, local, path),
        }
        found = measure.in_turns(arms, place.rounds)
        more = {name: remote.counts[name] for name in ("requests", "disk_hits", "disk_misses")}
        ratios = [ours / theirs for ours, theirs in zip(*found.values(), strict=True)]
        name = f"disk tier, {case}, 10 ms, sharded"
        for arm, values in found.items():
            shown(rows, name, arm, values, "crops_per_s", **(more if "tier" in arm else {}))
        shown(rows, name, "ratio of a round", ratios, "ratio")
        damacy.unmount(f"{url}/")
    return rows


def file(place: Place) -> Rows:
    from damacy.remote_file import RemoteFile

    total = 1 << 30
    with (place.folder / "large").open("wb") as out:
        block = np.random.default_rng(3).bytes(64 << 20)
        for _ in range(total // len(block)):
            out.write(block)
    url, memory = f"{place.url(10)}/large", np.zeros(total, np.uint8)

    def ours() -> float:
        with RemoteFile.open_http(url, nbytes=total) as opened:
            return total / measure.timed(lambda: opened.read(memory))[0] / 1e6

    def bare(each: int, in_flight: int) -> float:
        run = [place.program, url, *map(str, (total, each, total // each, in_flight, 0))]
        found = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
        return total / found["seconds"] / 1e6

    ours()
    assert memory[: 64 << 20].tobytes() == block and memory[-(64 << 20) :].tobytes() == block
    arms = {"damacy": ours} | {
        f"bare libcurl, {each >> 20} MiB, {count} at once": functools.partial(bare, each, count)
        for each, count in ((4 << 20, 64), (8 << 20, 16))
    }
    rows: Rows = []
    for arm, values in measure.in_turns(arms, place.rounds).items():
        shown(rows, "RemoteFile.read of 1 GiB, 10 ms", arm, values, "mb_per_s")
    return rows


def adapters(place: Place) -> Rows:
    import zarr
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    import damacy

    url, corners = f"{place.url(10)}/{place.names['sharded']}", data.corners(64, 64)
    obstore_store = HTTPStore(url, client_options={"allow_http": True})
    stores = {"obstore, 10 ms": (damacy.mount(obstore_store), url, ObjectStore(obstore_store, read_only=True))}
    rows: Rows = []
    try:
        stores["Icechunk, local"] = icechunk_store(place)
    except ImportError as error:
        rows.append(measure.show({"case": "adapter of Icechunk", "missing": str(error)}))
    for name, (uri, native, theirs) in stores.items():
        ours = readers.Damacy(n_batches=8)

        def by_zarr(theirs: Any = theirs) -> Iterator[np.ndarray]:
            with zarr.config.set({"async.concurrency": 128}):
                array = zarr.open_array(theirs, mode="r")
                for corner in corners:
                    yield array[data.box(corner, 64)]

        calls: dict[str, Callable[[], Iterator[np.ndarray]]] = {
            "damacy, adapter": functools.partial(ours, uri, corners, 64),
            "damacy, native": functools.partial(readers.Damacy(n_batches=8), native, corners, 64),
            "zarr-python, 128 at once": by_zarr,
        }
        for call in calls.values():
            for found, corner in zip(call(), corners, strict=True):
                assert np.array_equal(found, place.values[data.box(corner, 64)])
        timed = {
            arm: functools.partial(measure.timed, lambda call=call: readers.read_all(call()))
            for arm, call in calls.items()
        }
        for arm, times in measure.in_turns(timed, place.rounds).items():
            rates = [len(corners) / took for took, _ in times]
            shown(rows, f"adapter of {name}", arm, rates, "crops_per_s")
    return rows


def icechunk_store(place: Place) -> tuple[str, str, Any]:
    """The sharded array in a repository, and beside it."""
    import icechunk
    import zarr

    import damacy

    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(place.folder / "icechunk")))
    session = repository.writable_session("main")
    zarr.create_array(session.store, data=place.values, name="a", **data.LAYOUTS["sharded"])
    session.commit("data")
    store = repository.readonly_session("main").store
    native = str(place.folder / place.names["sharded"])
    return damacy.mount(store) + "a", native, zarr.storage.StorePath(store, "a")


def gpu(place: Place) -> Rows:
    """Batches of 8 crops of 128³ u16 zstd in GPU memory, without delay; bare libcurl reads the same number of bytes."""
    import torch

    import damacy

    corners = data.corners(512, 128)
    rows: Rows = []
    for layout, name in place.names.items():
        url = f"{place.url(0)}/{name}"
        config = damacy.Config.for_this_machine(8, device="cuda", dtype="u16")

        def ours(url: str = url, config: damacy.Config = config) -> tuple[float, float]:
            with damacy.Pipeline(config) as pipeline:
                begin = time.perf_counter()
                pipeline.push([damacy.Sample(url, [(c, c + 128) for c in corner]) for corner in corners])
                for _ in range(len(corners) // 8):
                    pipeline.pop().release()
                return time.perf_counter() - begin, pipeline.stats().bytes_received

        def equal(url: str = url, config: damacy.Config = config) -> bool:
            with damacy.Pipeline(config) as pipeline:
                pipeline.push([damacy.Sample(url, [(c, c + 128) for c in corner]) for corner in corners[:240]])
                return all(
                    np.array_equal(row, place.values[data.box(corner, 128)])
                    for number in range(30)
                    for row, corner in zip(
                        torch.from_dlpack(pipeline.pop()).cpu().numpy(), corners[8 * number :], strict=False
                    )
                )

        def bare(url: str = url, name: str = name) -> tuple[float, float]:
            found = max((place.folder / name).rglob("c/*/*/*"), key=lambda path: path.stat().st_size)
            each = min(1 << 20, found.stat().st_size)
            of = f"{url}/{found.relative_to(place.folder / name)}"
            run = [place.program, of, *map(str, (found.stat().st_size, each, (1 << 30) // each, 64, 0))]
            done = subprocess.run(run, capture_output=True, text=True, check=True)
            return json.loads(done.stdout)["seconds"], 1 << 30

        assert equal()
        case = f"GPU, 128³ crops, zstd, {layout}, no delay"
        timed = measure.in_turns({"damacy": ours, "bare libcurl, 64 at once": bare}, place.rounds)
        for arm, found in timed.items():
            finished = len(corners) * 2 * 128**3 / statistics.median(took for took, _ in found) / 1e9
            more = {"finished_gb_per_s": round(finished, 3)} if arm == "damacy" else {}
            shown(rows, case, arm, [size / took / 1e9 for took, size in found], "received_gb_per_s", **more)
    return rows


def local(place: Place) -> Rows:
    program = f"""
import damacy
config = damacy.Config(batch_size=1, device="cpu", dtype="u16")
with damacy.Pipeline(config) as pipeline:
    pipeline.push([damacy.Sample({str(place.folder / place.names["sharded"])!r}, [(0, 64)] * 3)])
    pipeline.pop().release()
print("libcurl" in open("/proc/self/maps").read())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [measure.show({"case": "a local program", "loads_libcurl": done.stdout.strip() == "True"})]


CASES: dict[str, Callable[[Place], Rows]] = {
    each.__name__: each for each in (first_batch, arrays, late, disk, file, adapters, local)
}
NAMED_ONLY: dict[str, Callable[[Place], Rows]] = {"gpu": gpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    options = parser.parse_args()
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name).chmod(0o755)
        place = Place(pathlib.Path(name))
        place.rounds = options.rounds
        with nginx.serving(place.folder, place.top / "nginx") as place.port:
            rows = [row for case in options.only.split(",") for row in (CASES | NAMED_ONLY)[case](place)]
    measure.write(options.out, __doc__.splitlines()[0], rows, load, shape=data.SHAPE, server=nginx.described())


if __name__ == "__main__":
    main()
