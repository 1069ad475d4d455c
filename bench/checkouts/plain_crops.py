"""Plain crops of single arrays in two checkouts: instructions, and processor time by turns.

    python -m bench.checkouts.plain_crops --before FOLDER --out bench/results/plain-crops-host.json

FOLDER is a checkout of another commit with its extension built. `crops`: 16 x 96 x 96 elements of u16 at random places
to f32, 8 in a batch, zstd. `chunks`: 2 single chunks of 16 x 16 elements in a batch, which shows what a batch costs
before its bytes do. Instructions are those of callgrind, of all threads and Python included: of a batch from its push
to its release, and of making one sample with its random place; of many less a few, so that the start is not counted.
Processor time is that of pushing and reading in whole processes, in turn, each after a first pass that is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from bench import machine

# name: shape, chunks, crop, samples of a batch, batches under callgrind (few, many), batches of a turn
CASES = {
    "crops": ((64, 384, 384), (16, 64, 64), (16, 96, 96), 8, (2, 8), 150),
    "chunks": ((256, 256), (16, 16), (16, 16), 2, (50, 350), 10_000),
}

CHILD = """
import sys, time
import numpy as np
import damacy
path, crop, batch_size, made, batches, passes = sys.argv[1], eval(sys.argv[2]), *map(int, sys.argv[3:])
shape, grid = eval(open(path + "/shape").read())
random = np.random.default_rng(1)
samples = []
for _ in range(batch_size * made):
    low = [step * int(random.integers(0, (n - c) // step + 1)) for n, c, step in zip(shape, crop, grid)]
    samples.append(damacy.Sample(path, [(a, a + c) for a, c in zip(low, crop)]))
config = damacy.Config(batch_size=batch_size, device="cpu", n_io_threads=1, n_compute_threads=1,
                       host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20)
with damacy.Pipeline(config) as pipeline:
    for _ in range(passes):
        start = time.process_time()
        pipeline.push(samples[: batch_size * batches])
        for batch in pipeline.batches(batches):
            batch.release()
        seconds = time.process_time() - start
print(seconds)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    trees = {"before": arguments.before.resolve(), "now": pathlib.Path(__file__).resolve().parents[2]}
    commits = {name: commit_of(tree) for name, tree in trees.items()}
    what = "plain crops of single arrays on one reader thread, two commits, the same data and places"
    result = machine.describe() | {"command": "python -m bench.checkouts.plain_crops --before FOLDER", "what": what}
    result |= {"commits": commits, "turns": arguments.turns, "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            path = written(folder, name)
            counts = {tree: instructions(trees[tree], path, name) for tree in trees}
            seconds = by_turns(trees, path, name, arguments.turns)
            median = {tree: statistics.median(times) for tree, times in seconds.items()}
            pairs = [now / before for before, now in zip(seconds["before"], seconds["now"], strict=True)]
            result["cases"][name] = {
                "instructions": counts,
                "instructions_now_to_before": {
                    what: round(counts["now"][what] / count, 4) for what, count in counts["before"].items()
                },
                "cpu_s": {tree: [round(s, 4) for s in times] for tree, times in seconds.items()},
                "cpu_now_to_before": round(median["now"] / median["before"], 4),
                "cpu_now_to_before_by_pair": round(statistics.median(pairs), 4),
            }
            print(name, {k: v for k, v in result["cases"][name].items() if k != "cpu_s"}, flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def written(folder: str, name: str) -> str:
    import zarr

    shape, chunks, crop, *_ = CASES[name]
    path = f"{folder}/{name}.zarr"
    array = zarr.create_array(path, shape=shape, chunks=chunks, dtype="u2")
    noise = np.random.default_rng(0).integers(0, 64, shape)
    array[:] = np.add.outer(np.arange(shape[0]) * 4, np.zeros(shape[1:], np.int64)) + noise
    # Places of `chunks` are whole chunks, those of `crops` any voxel.
    pathlib.Path(path, "shape").write_text(repr((shape, chunks if crop == chunks else (1,) * len(shape))))
    return path


def child(tree: pathlib.Path, path: str, name: str, counts: tuple[int, int, int], tool: tuple[str, ...] = ()) -> str:
    """`counts`: batches whose samples are made, batches that are read of them, and how often."""
    _, _, crop, batch_size, *_ = CASES[name]
    # Threads of OpenBLAS would spin while they wait.
    environment = os.environ | {
        "PYTHONPATH": str(tree / "python"),
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }
    arguments = [path, repr(crop), *map(str, (batch_size, *counts))]
    command = [*tool, sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, env=environment, cwd=path, capture_output=True, text=True, timeout=1800, check=True)
    return done.stdout + done.stderr


def instructions(tree: pathlib.Path, path: str, name: str) -> dict[str, int]:
    """Of one batch from push to release and, where there are enough of them, of making one sample."""
    few, many = CASES[name][4]
    tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    collected = {}
    for made, read in ((few, few), (many, few), (many, many)):
        found = re.search(r"Collected : (\d+)", child(tree, path, name, (made, read, 1), tool))
        assert found is not None
        collected[made, read] = int(found[1])
    samples = (many - few) * CASES[name][3]
    counts = {"batch": (collected[many, many] - collected[many, few]) // (many - few)}
    if samples >= 500:  # of fewer, the difference is less than that of two starts
        counts["sample"] = (collected[many, few] - collected[few, few]) // samples
    return counts


def by_turns(trees: dict[str, pathlib.Path], path: str, name: str, turns: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {tree: [] for tree in trees}
    for turn in range(turns + 1):
        order = list(trees) if turn % 2 else list(reversed(trees))
        for tree in order:
            took = float(child(trees[tree], path, name, (CASES[name][5], CASES[name][5], 2)).split()[0])
            if turn > 0:
                seconds[tree].append(took)
    return seconds


def commit_of(tree: pathlib.Path) -> str:
    command = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
