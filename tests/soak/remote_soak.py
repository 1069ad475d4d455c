"""Reads arrays from a server of which 1 % of the answers have a fault, for as long as wanted.

Every batch is compared, and none may fail. The memory, the open files and the threads of this process must stay as they
were after the first tenth of the time.

    python tests/soak/remote_soak.py --minutes 20 --out bench/results/remote-soak-host.json

The server is a process of its own. A seed replays its choice of faults, not the order of the requests. `--rate` limits
the batches per second, so that other programs have the processor. SIGTERM ends the reading; then the result has what
was found so far.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from support.fault_server import FaultServer  # noqa: E402
from support.fault_table import KINDS, RIGHT, ROWS, kind_of  # noqa: E402

SHAPE = (16, 64, 64)
SHARE = 0.01
SLOW = {"silent", "stalled", "bytes that drip", "200 with 10 GiB", "endless chunk extensions", "2 MiB of headers"}
NAMES = ("plain", "sharded", "small")
MEASURED = """Batches of 4 boxes, each of half of every axis of one of three arrays of 16 x 64 x 64 u16: in chunks of
4 x 64 x 64, in chunks of 4 x 16 x 16, and in shards of such chunks. A new pipeline for each 50 batches; documents are
asked for again after 0.5 s. One answer of 100 has a fault of the fault table that one repeat heals; one of ten of those
stalls for a second instead. `wrong_elements` were delivered and are not those that were written. `states` are of the
reading process; growth is the most above the state after a tenth of the time."""


def faults(seed: int):
    """Of 1 % of the requests; one of ten of those holds its connection for a second. A repeat, which may begin behind
    the bytes that came, has none."""
    rng, lock = random.Random(seed), threading.Lock()
    healed = [name for name, row in ROWS.items() if row.repeats == 1 and name not in SLOW]
    passing = {kind: [name for name in healed if ROWS[name].outcome(kind, False) == {RIGHT}] for kind in KINDS}
    counts: dict[str, int] = {}
    failed: set[tuple[str, str]] = set()

    def apply(request, answer) -> None:
        wanted = (request.path, request.headers.get("range", "").rpartition("-")[2])
        with lock:
            if wanted in failed:
                return failed.remove(wanted)
            if rng.random() >= SHARE:
                return
            failed.add(wanted)
            name = "stalled" if rng.random() < 0.1 else rng.choice(passing[kind_of(request)])
            fault = ROWS[name].make(rng)
            counts[name] = counts.get(name, 0) + 1
        if answer.body:
            fault(request, answer)

    return apply, counts


def serve(folder: pathlib.Path, seed: int, pipe) -> None:
    """Answers "count" with the numbers of requests and of faults since the start."""
    with FaultServer(folder) as server:
        fault, counts = faults(seed)
        server.faults = fault
        pipe.send(server.url)
        requests = 0
        while pipe.recv() == "count":
            requests += len(server.requests)
            server.reset(fault)
            pipe.send((requests, dict(counts)))


def state() -> dict[str, int]:
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return {
        "resident_kib": int(fields["VmRSS"].split()[0]),
        "threads": int(fields["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
    }


def soak(url: str, data: dict[str, np.ndarray], seconds: float, rate: float, ask) -> dict:
    import damacy

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())

    options = damacy.StoreOptions(stall_timeout_s=1, first_byte_timeout_s=5, revalidate_s=0.5)
    damacy.mount(f"{url}/", options)
    config = damacy.Config(
        batch_size=4, device="cpu", dtype="u16", host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20, n_batches=3
    )
    rng, begin, batches, seen = random.Random(1), time.monotonic(), 0, []
    errors: dict[str, int] = {}
    repeated = wrong = 0
    while time.monotonic() - begin < seconds and not ended.is_set():
        with damacy.Pipeline(config) as pipeline:
            for _ in range(50):
                if rate > 0:
                    ended.wait(max(begin + batches / rate - time.monotonic(), 0))
                boxes = []
                for _ in range(4):
                    name = rng.choice(NAMES)
                    starts = [rng.randrange(extent // 2) for extent in SHAPE]
                    boxes.append((name, [(start, start + extent // 2) for start, extent in zip(starts, SHAPE)]))
                try:
                    pipeline.push([damacy.Sample(f"{url}/{name}.zarr", box) for name, box in boxes])
                    with pipeline.pop() as batch:
                        for row, (name, box) in zip(batch.numpy(), boxes, strict=True):
                            wrong += int(np.count_nonzero(row != data[name][tuple(slice(*axis) for axis in box)]))
                except damacy.DamacyError as error:
                    errors[error.reason] = errors.get(error.reason, 0) + 1
                batches += 1
            repeated += pipeline.stats().requests_repeated
        seen.append({"s": round(time.monotonic() - begin, 1)} | state())
    took = time.monotonic() - begin
    used = os.times()
    requests, applied = ask()
    tenth = [one for one in seen if one["s"] >= took / 10] or seen
    grown = {key: max(one[key] for one in tenth) - tenth[0][key] for key in ("resident_kib", "threads", "files")}
    return {
        "batches": batches, "batches_with_an_error": errors, "requests": requests, "requests_repeated": repeated,
        "faults": applied, "wrong_elements": wrong, "growth_after_a_tenth_of_the_time": grown, "seconds": round(took),
        "processor_seconds": round(used.user + used.system), "states": seen[:: max(1, len(seen) // 40)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=float, default=0, help="batches per second, at most (0: no limit)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout.strip()
    import zarr

    layouts = {
        "plain": {"chunks": (4, 64, 64)},
        "sharded": {"chunks": (4, 16, 16), "shards": (8, 64, 64)},
        "small": {"chunks": (4, 16, 16)},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = {}
        for number, (array, layout) in enumerate(layouts.items()):
            data[array] = np.random.default_rng(number).integers(0, 60000, SHAPE, dtype="u2")
            zarr.create_array(folder / f"{array}.zarr", data=data[array], **layout)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        server = context.Process(target=serve, args=(folder, options.seed, theirs), daemon=True)
        server.start()
        url = ours.recv()
        lock = threading.Lock()

        def ask():
            with lock:
                ours.send("count")
                return ours.recv()

        def forget() -> None:  # what the server remembers of requests does not grow
            while server.is_alive():
                time.sleep(10)
                ask()

        threading.Thread(target=forget, daemon=True).start()
        load_before = os.getloadavg()
        found = soak(url, data, options.minutes * 60, options.rate, ask)
        server.terminate()
    result = {
        "what": __doc__.splitlines()[0], "measured": " ".join(MEASURED.split()),
        "command": " ".join(["python tests/soak/remote_soak.py", *sys.argv[1:]]), "commit": commit,
        "cores": len(os.sched_getaffinity(0)), "machine": platform.machine(),
        "load_before": [round(load, 1) for load in load_before],
        "load_after": [round(load, 1) for load in os.getloadavg()], "seed": options.seed, **found,
    }  # fmt: skip
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print({key: value for key, value in result.items() if key != "states"})
    grown = found["growth_after_a_tenth_of_the_time"]
    if found["wrong_elements"] or found["batches_with_an_error"]:
        sys.exit("elements are wrong, or batches failed")
    if grown["resident_kib"] > 32 << 10 or grown["threads"] > 0 or grown["files"] > 64:
        sys.exit(f"memory, files or threads grow: {grown}")


if __name__ == "__main__":
    main()
