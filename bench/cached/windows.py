"""The scenario `windows-cached`: overlapping time windows of an ERA5-like array, epochs 1 and 2, beside insitubatch.

    python -m bench.cached.windows --peer-python venv/bin/python --out bench/results/windows-cached-host.json

insitubatch needs Python 3.12: `--peer-python` is an interpreter that has it. Each run is a process of its own that
reads two epochs in random order, and the loaders take turns. damacy keeps the decoded array, as insitubatch does. A
batch is the four steps up to a time, as one array, and the step one later. Sums of a few elements of each window are
compared.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

STEPS, GRID, CHUNK = 2880, (181, 360), 24
PAST, LEAD, BATCH, EPOCHS = 4, 1, 16, 2
CACHE_BYTES = int(1.15 * STEPS * GRID[0] * GRID[1] * 4)
WINDOWS = STEPS - PAST - LEAD + 1  # the last batch is short
WINDOW_BYTES = (PAST + 1) * GRID[0] * GRID[1] * 4

Batch = tuple[np.ndarray, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--reader", choices=READERS, help="read the two epochs of --folder, and print figures as JSON")
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    if arguments.reader:
        print(json.dumps(two_epochs(READERS[arguments.reader](arguments.folder, arguments.threads))))
        return
    from bench import machine

    shown = ["PYTHON" if argument == arguments.peer_python else argument for argument in sys.argv[1:]]
    result = machine.describe() | {"command": ["python", "-m", "bench.cached.windows", *shown]}
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        runs = {"plain": sys.executable, "damacy": sys.executable, "insitubatch": arguments.peer_python}
        reps = []
        for number in range(-1, arguments.reps):  # the first brings files into the page cache
            names = [name for name, python in runs.items() if python][:: -1 if number % 2 else 1]
            found = {name: run(runs[name], name, folder, arguments.threads) for name in names}
            if number >= 0:
                reps.append({name: found[name] for name in runs if name in found})
    sums = {name: each["sums"] for name, each in reps[0].items()}
    if not all(np.allclose(one, sums["damacy"], rtol=1e-9) for one in sums.values()):
        raise RuntimeError(f"the readers' windows differ: {sums}")
    result |= {
        "scenario": "windows-cached",
        "cache_bytes": CACHE_BYTES,
        "window_bytes": WINDOW_BYTES,
        "batch": BATCH,
        "reps": reps,
    }
    for peer in [name for name in reps[0] if name != "damacy"]:
        for by in ("wall_gb_per_s", "cpu_gb_per_s"):
            result[f"damacy_to_{peer}_{by}"] = [
                statistics.median(each["damacy"][by][epoch] / each[peer][by][epoch] for each in reps)
                for epoch in range(EPOCHS)
            ]
            print(f"damacy to {peer}, {by}, epochs 1 and 2:", [round(x, 2) for x in result[f"damacy_to_{peer}_{by}"]])
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def write(folder: str) -> None:
    import zarr

    group = zarr.open_group(folder, mode="w")
    array = group.create_array(
        "t2m",
        shape=(STEPS, *GRID),
        chunks=(CHUNK, *GRID),
        dtype="f4",
        dimension_names=("time", "latitude", "longitude"),
    )
    rng = np.random.default_rng(0)
    smooth = np.sin(np.linspace(0, 6, GRID[0]))[:, None] + np.sin(np.linspace(0, 6, GRID[1]))
    for first in range(0, STEPS, CHUNK):
        values = 280 + 10 * (smooth + 0.05 * rng.standard_normal((CHUNK, *GRID)))
        array[first : first + CHUNK] = np.round(values, 1)  # as packed data have it


def run(python: str, reader: str, folder: str, threads: int) -> dict[str, Any]:
    options = ["--reader", reader, "--folder", folder, "--threads", str(threads)]
    done = subprocess.run([python, __file__, *options], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{reader}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def two_epochs(epochs: Iterator[Iterator[Batch]]) -> dict[str, Any]:
    """Rates of each epoch, and for each the sum of a few elements of all windows."""
    wall, cpu, sums = [], [], []
    np.ones(3 * CACHE_BYTES, "u1")  # a virtual machine may take a second for a GB that it never used
    for batches in epochs:
        start, used, number, total = time.perf_counter(), time.process_time(), 0, 0.0
        for x, y in batches:
            number += len(x)
            total += float(x[:, :, ::31, ::31].sum(dtype="f8") + y[..., ::31, ::31].sum(dtype="f8"))
        if number != WINDOWS:
            raise RuntimeError(f"{number} windows, not {WINDOWS}")
        wall.append(number * WINDOW_BYTES / (time.perf_counter() - start) / 1e9)
        cpu.append(number * WINDOW_BYTES / (time.process_time() - used) / 1e9)
        sums.append(total)
    return {"wall_gb_per_s": wall, "cpu_gb_per_s": cpu, "sums": sums}


def ours(folder: str, threads: int, cache_bytes: int = CACHE_BYTES) -> Iterator[Iterator[Batch]]:
    import damacy
    from damacy.samplers import Windows
    from damacy.training import Loader

    array = f"{folder}/t2m"
    windows = Windows({"x": (array, (1 - PAST, 1)), "y": (array, (LEAD, LEAD + 1))}, seed=0)
    config = damacy.Config(
        batch_size=BATCH,
        device="cpu",
        n_io_threads=threads,
        cache_bytes=cache_bytes,
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
    )

    def batches(loader: Loader) -> Iterator[Batch]:
        for batch in loader:
            with batch:
                yield batch["x"].numpy(), batch["y"].numpy()

    with Loader(windows, config, tail="short") as loader:
        for _ in range(EPOCHS):
            yield batches(loader)


def plain(folder: str, threads: int) -> Iterator[Iterator[Batch]]:
    return ours(folder, threads, 0)


def insitubatch(folder: str, threads: int) -> Iterator[Iterator[Batch]]:
    from insitubatch import InSituDataset, obstore_store, open_geometries, split_by_chunk

    store = obstore_store(f"file://{folder}")
    one = open_geometries(store, variables=["t2m"])["t2m"]
    geometries = {f"x{k}": one.shift(k) for k in range(1 - PAST, 1)} | {"y": one.shift(LEAD)}
    manifest = split_by_chunk(one, fractions=(1.0, 0.0, 0.0))
    # Its pool is as large as it asks for, which is more than the whole array.
    dataset = InSituDataset(
        store,
        manifest,
        geometries=geometries,
        batch_size=BATCH,
        max_inflight=2 * threads,
    )
    labels = [label for label in geometries if label != "y"]

    def batches() -> Iterator[Batch]:
        for batch in dataset.train:
            yield batch.stack(labels), batch.arrays["y"]

    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        yield batches()


READERS = {"plain": plain, "damacy": ours, "insitubatch": insitubatch}

if __name__ == "__main__":
    main()
