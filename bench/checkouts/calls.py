"""Start, small batches, halos and file I/O in two checkouts: instructions of a call, and processor time by turns.

    python -m bench.checkouts.calls --before FOLDER --out bench/results/before-after-host-2.json

FOLDER is a checkout of another commit with its extension built. Instructions are those of callgrind, of all threads and
Python included, of many calls less few; of each count the least of `--reps` runs, because threads that wait for each
other do not always wait alike. Processor time is that of the calls in whole processes, in turn.
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

from bench import machine
from bench.checkouts.plain_crops import commit_of, written

BATCHES = """
import damacy, numpy as np
corners = 16 * np.random.default_rng(1).integers(0, 16, (2 * 3000, 2))
samples = [damacy.Sample(sys.argv[1], [(y, y + 16), (x, x + 16)]) for y, x in corners.tolist()]
pipeline = damacy.Pipeline(damacy.Config(batch_size=2, device="cpu", n_io_threads=1, n_compute_threads=1,
                                         host_buffer_bytes=16 << 20, device_buffer_bytes=16 << 20))
def calls(count):
    pipeline.push(samples[: 2 * count])
    for batch in pipeline.batches(count):
        batch.release()
"""
IMPORT = """
def calls(count):
    if count:
        import damacy
"""
FIRST = """
def calls(count):
    if count:
        import damacy
        config = damacy.Config(batch_size=1, device="cpu", host_buffer_bytes=16 << 20, device_buffer_bytes=16 << 20)
        with damacy.Pipeline(config) as pipeline:
            pipeline.push([damacy.Sample(sys.argv[1], [(0, 16), (0, 16)])])
            pipeline.pop().release()
"""
HALO = """
import numpy as np
from bench.halo import fields_of, specs_of
from damacy import halo
specs, arrays = specs_of(fields_of("cpu", {order!r}, "float64", {cells}, 10), {cells})
transformer = halo.HaloDataTransformer.get(np, specs, wire={wire!r})
transformer.get_unpack_buffer().array[:] = 1
bound = transformer.bind(arrays)
def calls(count):
    for _ in range(count):
        {call}
"""
EXCHANGE = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from damacy import halo
from tests.support import fake_mpi
sys.modules["mpi4py"] = fake_mpi.module()
arrays = [np.full((6, 6), float(rank)) for rank in range(2)]
grid = halo.Cartesian((2,), True, dims=("i",))
plans = [halo.compile([halo.Field.like(a, ("j", "i"), (1, 1), (4, 4))], grid, r, 1) for r, a in enumerate(arrays)]
local, comms = halo.Local(2), fake_mpi.Comm.world(2)
with ThreadPoolExecutor(2) as pool:
    exchangers = list(pool.map(lambda r: halo.Exchanger(plans[r], {transport}), range(2)))
bound = [exchanger.bind([array]) for exchanger, array in zip(exchangers, arrays)]
def calls(count):
    for _ in range(count):
        for one, token in [(one, one.start()) for one in bound]:
            one.finish(token)
"""
FILE = """
from damacy.cufile import CuFile
path = sys.argv[1] + "/bytes"
if not os.path.exists(path):
    open(path, "wb").write(bytes(16 << 20))
file = CuFile(path)
def calls(count):
"""
READ = """
    buffer = bytearray(4096)
    for _ in range(count):
        file.read(buffer, 4096, 8192)
"""
QUEUED = """
    buffers = [bytearray({bytes}) for _ in range(count)]
    for future in [file.pread(buffer, {bytes}, k % 100 << 12) for k, buffer in enumerate(buffers)]:
        future.get()
"""
GATHER = """
    import numpy as np
    memory = np.zeros(count * 4096, np.uint8)
    sizes, offsets = np.full(count, 4096, np.int64), (np.arange(count, dtype=np.int64) * 7 % 4000) << 12
    file.preadv_packed(memory, sizes, offsets).get()
"""
BULK = """
    buffer = bytearray(16 << 20)
    for _ in range(count):
        file.read(buffer)
"""


def halo_of(call: str, cells: int = 48, order: str = "k", wire: str = "ndsl") -> str:
    return HALO.format(call=call, cells=cells, order=order, wire=wire)


# name: program, counts of calls under callgrind (few, many), calls of a turn
CASES = {
    "cold: import": (IMPORT, (0, 1), 1),
    "cold: import and first batch": (FIRST, (0, 1), 1),
    "small batches": (BATCHES, (100, 1100), 3000),
    "halo: bound pack, case C": (halo_of("bound.pack()", 192), (2, 6), 100),
    "halo: bound unpack, case C": (halo_of("bound.unpack()", 192), (2, 6), 100),
    "halo: bound pack, native wire": (halo_of("bound.pack()", 192, "i", "native"), (2, 6), 100),
    "halo: bound pack, 48 cells": (halo_of("bound.pack()"), (5, 105), 1000),
    "halo: pack of a list, 48 cells": (halo_of("transformer.async_pack(arrays)"), (5, 105), 1000),
    "halo: unpack of a list, 48 cells": (halo_of("transformer.async_unpack(arrays)"), (5, 105), 1000),
    "halo: exchange of two ranks of a process": (EXCHANGE.format(transport="local"), (5, 205), 2000),
    "halo: exchange over a fake MPI": (EXCHANGE.format(transport="halo.MPI(comms[r])"), (5, 205), 2000),
    "file I/O: read of 4 KiB": (FILE + READ, (100, 5100), 50_000),
    "file I/O: queued read of 4 KiB": (FILE + QUEUED.format(bytes=4 << 10), (100, 1100), 4000),
    "file I/O: queued read of 96 KiB": (FILE + QUEUED.format(bytes=96 << 10), (100, 1100), 4000),
    "file I/O: gathered range of 4 KiB": (FILE + GATHER, (100, 2100), 4000),
    "file I/O: read of 16 MiB": (FILE + BULK, (2, 12), 100),
}
CHILD = """
import os, sys, time
{program}
start = {start}
calls(int(sys.argv[2]))
print(time.process_time() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--cases", default="", help="the start of their names, separated by commas; all by default")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    trees = {"before": arguments.before.resolve(), "now": pathlib.Path(__file__).resolve().parents[2]}
    what = "instructions of a call (many less few) and processor seconds of a turn, two commits, the same data"
    result = machine.describe() | {"command": "python -m bench.checkouts.calls --before FOLDER", "what": what}
    result |= {"commits": {name: commit_of(tree) for name, tree in trees.items()}, "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, "chunks")
        for name in CASES:
            if name.startswith(tuple(arguments.cases.split(","))):
                result["cases"][name] = measured(trees, path, name, arguments.reps, arguments.turns)
                print(name, result["cases"][name], flush=True)
                if arguments.out:
                    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def measured(trees: dict[str, pathlib.Path], path: str, name: str, reps: int, turns: int) -> dict:
    (few, many), calls = CASES[name][1:]
    for tree in trees.values():
        child(tree, path, name, many)  # warms up
    counts: dict[tuple[str, int], list[int]] = {(tree, count): [] for tree in trees for count in (few, many)}
    for _ in range(reps):
        for (tree, count), found in counts.items():
            found.append(instructions(trees[tree], path, name, count))
    of_call = {tree: (min(counts[tree, many]) - min(counts[tree, few])) // (many - few) for tree in trees}
    seconds: dict[str, list[float]] = {tree: [] for tree in trees}
    for turn in range(turns + 1):
        for tree in trees if turn % 2 else reversed(trees):
            took = float(child(trees[tree], path, name, calls).split()[0])
            if turn > 0:  # the first turn warms up
                seconds[tree].append(took)
    pairs = [now / before for before, now in zip(seconds["before"], seconds["now"], strict=True)]
    return {
        "instructions": of_call,
        "instructions_now_to_before": round(of_call["now"] / of_call["before"], 4),
        "cpu_s": {tree: [round(s, 5) for s in times] for tree, times in seconds.items()},
        "cpu_now_to_before_least": round(min(seconds["now"]) / min(seconds["before"]), 4),
        "cpu_now_to_before_by_pair": round(statistics.median(pairs), 4) if pairs else None,
    }


def child(tree: pathlib.Path, path: str, name: str, count: int, tool: tuple[str, ...] = ()) -> str:
    program = CHILD.format(program=CASES[name][0], start=0 if name.startswith("cold") else "time.process_time()")
    # Threads of OpenBLAS would spin while they wait. Bytecode is kept, as that of installed packages.
    places = {"PYTHONPATH": f"{tree / 'python'}:{tree}", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    places |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": path + "/bytecode"}
    command = [*tool, sys.executable, "-c", program, path, str(count)]
    done = subprocess.run(command, env=os.environ | places, cwd=path, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise RuntimeError(f"{name} in {tree}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def instructions(tree: pathlib.Path, path: str, name: str, count: int) -> int:
    tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    found = re.search(r"Collected : (\d+)", child(tree, path, name, count, tool))
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    main()
