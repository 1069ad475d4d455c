"""Four processes that share one directory of a disk tier: what they fetch, and how long they wait for its locks.

    python -m bench.remote.processes --out bench/results/remote-processes-host.json

The directory is filled by one epoch of each process, each in its own order, beginning together. A second epoch is in
new processes. `fetched` is how often a byte of the data was fetched, on average. With strace, the waits for locks are
those of `flock` in the second epoch. Needs nginx and zarr.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from bench.remote import data, measure, nginx

PROCESSES, EXTENT, DELAY = 4, 64, 10
BOUND = 2 << 30
CHILD = """
import itertools, json, random, sys
import damacy
url, directory, seed, bound, extent, *shape = sys.argv[1:]
extent, shape = int(extent), [int(size) for size in shape]
damacy.mount(url.rsplit("/", 1)[0] + "/", damacy.StoreOptions(immutable=True))
memory = {"host_buffer_bytes": 512 << 20, "n_batches": 4, "lookahead_batches": 8}
disk = {"disk_cache": directory, "disk_cache_bytes": int(bound)}
corners = list(itertools.product(*(range(0, size, extent) for size in shape)))
random.Random(int(seed)).shuffle(corners)
with damacy.Pipeline(damacy.Config(batch_size=8, device="cpu", dtype="u16", **memory, **disk)) as pipeline:
    print("ready", flush=True)
    sys.stdin.readline()
    pipeline.push(damacy.Sample(url, [(begin, begin + extent) for begin in corner]) for corner in corners)
    for batch in pipeline.batches(len(corners) // 8):
        batch.release()
    stats = pipeline.stats()
print(json.dumps({name: getattr(stats, name) for name in ("bytes_received", "requests", "disk_hits", "disk_misses")}))
"""


def epoch(url: str, directory: pathlib.Path, first_seed: int, trace: pathlib.Path | None) -> list[dict[str, int]]:
    """One of each process, begun together."""
    wrap = ["strace", "-f", "-T", "-e", "trace=flock", "-o"] if trace else []
    children = []
    for number in range(PROCESSES):
        given = [url, directory, first_seed + number, BOUND, EXTENT, *data.SHAPE]
        run = [*wrap, *([f"{trace}-{number}"] if trace else []), sys.executable, "-c", CHILD, *map(str, given)]
        children.append(subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    outputs = [child.communicate()[0] for child in children]
    assert not any(child.returncode for child in children)
    return [json.loads(output) for output in outputs]


def waits(trace: pathlib.Path) -> list[float]:
    """Milliseconds of each `flock`."""
    found = []
    for path in trace.parent.glob(f"{trace.name}-*"):
        found += [1000 * float(took) for took in re.findall(r"flock\(.*<([\d.]+)>$", path.read_text(), re.MULTILINE)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    load = os.getloadavg()
    rows: list[measure.Row] = []
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        top.chmod(0o755)
        folder = top / "data"
        folder.mkdir()
        array = data.write(folder, data.values(), "sharded", "zstd")
        stored = sum(path.stat().st_size for path in (folder / array).rglob("*") if path.is_file())
        trace = top / "trace" if shutil.which("strace") else None
        with nginx.serving(folder, top / "nginx") as port:
            url = f"http://127.0.0.1:{port}/{DELAY}/{array}"
            for number, traced in ((1, None), (2, trace)):
                found = epoch(url, top / "tier", 10 * number, traced)
                row: dict[str, Any] = {"case": f"{PROCESSES} processes, one directory, epoch {number}"}
                row |= {key: sum(each[key] for each in found) for key in found[0]}
                row["fetched"] = round(row["bytes_received"] / stored, 3)
                if traced:
                    all_waits = waits(traced)
                    row |= {"locks": len(all_waits), "longest_lock_ms": round(max(all_waits), 2)}
                rows.append(measure.show(row))
    measure.write(options.out, __doc__.splitlines()[0], rows, load, stored_bytes=stored, server="nginx")


if __name__ == "__main__":
    main()
