"""Cases behind a line of 1 Gbit/s: the share of the line that a pipeline uses, and a disk tier of half the data.

    python -m bench.remote.line --out bench/results/remote-line-host.json [--rounds 3] [--only rates,twice]

The program runs itself again in a network namespace, where `tc` limits loopback to 1 Gbit/s (token bucket), in both
directions together. `rates`: a stream of 1 MiB chunks by 1, 4 and 16 reader threads, beside bare libcurl. `twice`:
epochs of random chunks of 64 KiB with a disk tier of half the data, beside none. Needs root, `tc`, nginx, zarr,
g++ and libcurl's headers.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.remote import measure, nginx, ranges

LINE = 125e6  # bytes per second, with the headers of frames
MTU = 1500
# With a bucket of few packets, a processor that others use takes a timer for each and misses the rate.
LIMIT = f"ip link set lo up mtu {MTU} && tc qdisc add dev lo root tbf rate 1gbit burst 256kb latency 50ms"
INSIDE = "DAMACY_BENCH_LINE"
LARGE, SMALL = 1 << 20, 64 << 10  # bytes of a chunk
TIER = ranges.OBJECT // 2
DELAY = 1  # ms

Rows = list[measure.Row]


class Streams:
    """Batches of whole chunks, in a given order, of the array of chunks of `each` bytes."""

    def __init__(self, url: str, each: int, **fields: Any) -> None:
        import damacy

        self.uri, self.each = f"{url}/raw-{each}.zarr", each
        memory = {"host_buffer_bytes": 512 << 20, "n_batches": 4, "lookahead_batches": 8}
        batch = max(1, (8 << 20) // each)
        self.config = damacy.Config(**({"batch_size": batch, "device": "cpu", "dtype": "u16"} | memory | fields))

    def samples(self, places: np.ndarray) -> Iterator[Any]:
        import damacy

        elements = self.each // 2
        for place in places.tolist():
            yield damacy.Sample(self.uri, [(place * elements, (place + 1) * elements)])

    def read(self, pipeline: Any, places: np.ndarray) -> None:
        pipeline.push(self.samples(places))
        for batch in pipeline.batches(len(places) // self.config.batch_size):
            batch.release()

    def check(self, pipeline: Any, place: int, expected: np.ndarray) -> None:
        size = self.config.batch_size
        pipeline.push(self.samples(np.full(size, place)))
        begin = place * self.each // 2
        with pipeline.pop() as batch:
            assert np.array_equal(batch.numpy()[0], expected[begin : begin + self.each // 2])


def rates(url: str, expected: np.ndarray, program: pathlib.Path, rounds: int) -> Rows:
    import damacy

    places = np.random.default_rng(1).permutation(ranges.OBJECT // LARGE)[:256]

    def ours(threads: int) -> float:
        streams = Streams(url, LARGE, n_io_threads=threads)
        with damacy.Pipeline(streams.config) as pipeline:
            streams.check(pipeline, 7, expected)
            return places.size * LARGE / measure.timed(lambda: streams.read(pipeline, places))[0]

    setting = ranges.Setting(url, LARGE, DELAY, places.tolist(), expected.view(np.uint8))
    arms = {f"damacy, {threads} reader threads": functools.partial(ours, threads) for threads in (1, 4, 16)}
    arms["bare libcurl"] = lambda: places.size * LARGE / ranges.bare(setting, program)[0]
    rows: Rows = []
    for arm, found in measure.in_turns(arms, rounds).items():
        rate, spread = measure.spread([rate / 1e6 for rate in found])
        share = round(float(np.median(found)) / LINE, 3)
        rows.append(
            measure.show({"case": "line", "arm": arm, "mb_per_s": rate, "range": spread, "share_of_line": share})
        )
    return rows


def twice(url: str, expected: np.ndarray, top: pathlib.Path, epochs: int = 5) -> Rows:
    """Epochs in new random orders, in one pipeline each with the tier and without."""
    import damacy

    damacy.mount(f"{url}/", damacy.StoreOptions(immutable=True))
    chunks = ranges.OBJECT // SMALL
    tier = {"disk_cache": top / "tier", "disk_cache_bytes": TIER}
    found: dict[str, list[dict[str, float]]] = {}
    for arm, fields in {"no tier": {}, "tier of half the data": tier}.items():
        streams = Streams(url, SMALL, **fields)
        found[arm] = []
        with damacy.Pipeline(streams.config) as pipeline:
            streams.check(pipeline, 7, expected)
            for epoch in range(epochs):
                before = pipeline.stats()
                order = np.random.default_rng(epoch).permutation(chunks)
                seconds, _ = measure.timed(functools.partial(streams.read, pipeline, order))
                after = pipeline.stats()
                found[arm].append(
                    {
                        "mb_per_s": ranges.OBJECT / seconds / 1e6,
                        "hits": (after.disk_hits - before.disk_hits) / chunks,
                        "written": (after.disk_kept_bytes - before.disk_kept_bytes) / TIER,
                    }
                )
    rows: Rows = []
    for arm, of_epochs in found.items():
        row: measure.Row = {"case": f"set of twice the tier, epochs 2 to {epochs}", "arm": arm}
        for key, digits in (("mb_per_s", 1), ("hits", 3), ("written", 3)):
            row[key] = measure.spread([each[key] for each in of_epochs[1:]], digits)[0]
            row[f"{key}_of_epochs"] = [round(each[key], digits) for each in of_epochs]
        rows.append(measure.show(row))
    ratio = rows[1]["mb_per_s"] / rows[0]["mb_per_s"]
    rows.append(measure.show({"case": rows[0]["case"], "arm": "rate with the tier", "ratio": round(ratio, 2)}))
    return rows


def inside(options: argparse.Namespace) -> None:
    load = os.getloadavg()
    rows: Rows = []
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        top.chmod(0o755)
        folder = top / "data"
        folder.mkdir()
        program = ranges.compiled(top)
        expected = [ranges.make_data(folder, each) for each in (LARGE, SMALL)][0]
        with nginx.serving(folder, top / "nginx") as port:
            url = f"http://127.0.0.1:{port}/{DELAY}"
            if "rates" in options.only:
                rows += rates(url, expected, program, options.rounds)
            if "twice" in options.only:
                rows += twice(url, expected, top)
    measure.write(options.out, __doc__.splitlines()[0], rows, load, server="nginx", line=LIMIT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["rates", "twice"])
    options = parser.parse_args()
    if os.environ.get(INSIDE):
        inside(options)
        return
    again = [sys.executable, "-m", "bench.remote.line", *sys.argv[1:]]
    unshare = ["unshare", "-n", "sh", "-c", f'{LIMIT} && exec "$@"', "sh", *again]
    sys.exit(subprocess.run(unshare, env=os.environ | {INSIDE: "1"}).returncode)


if __name__ == "__main__":
    main()
