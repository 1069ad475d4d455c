"""Kills processes by SIGKILL while their pipelines fill one disk cache, then reads everything through it.

    python -m support.disk_kills FOLDER --kills 1000 > counts.json

The arrays are behind HTTP, in a process of its own. Each child is forked from a process that has not read yet.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import time
from typing import Any

import numpy as np

import damacy

SHAPE = (64, 96, 96)
LEAST = 256 << 20


def data() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")


def _serve(folder: str, urls: Any) -> None:
    from support.fault_server import FaultServer

    with FaultServer(pathlib.Path(folder)) as server:
        urls.put(server.url)
        signal.pause()


def _config(directory: pathlib.Path) -> damacy.Config:
    return damacy.Config(
        batch_size=4,
        device="cpu",
        dtype="u16",
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
        disk_cache=directory,
        disk_cache_bytes=LEAST,
    )


def _read(url: str, directory: pathlib.Path, seed: int, batches: int | None, expected: np.ndarray | None) -> Any:
    """Random crops, forever if `batches` is None. The number of rows that differ, and the statistics."""
    wrong = 0
    chance = random.Random(seed)
    with damacy.Pipeline(_config(directory)) as pipeline:
        done = 0
        while batches is None or done < batches:
            boxes = []
            for _ in range(4):
                begin = [chance.randrange(size - 20) for size in SHAPE]
                boxes.append((chance.choice(["plain", "sharded"]), [(at, at + 20) for at in begin]))
            pipeline.push([damacy.Sample(f"{url}/{name}.zarr", box) for name, box in boxes])
            with pipeline.pop() as batch:
                if expected is not None:
                    rows = batch.numpy()
                    for row, (_, box) in zip(rows, boxes, strict=True):
                        wrong += not np.array_equal(row, expected[tuple(slice(*axis) for axis in box)])
            done += 1
        return wrong, pipeline.stats()


def run(folder: pathlib.Path, kills: int, seed: int = 0, every: int = 10) -> dict[str, int]:
    """The counts; `wrong_rows` and `failed_readers` must be 0."""
    import zarr

    served, directory = folder / "served", folder / "cache"
    served.mkdir()
    expected = data()
    zarr.create_array(served / "plain.zarr", data=expected, chunks=(16, 48, 48))
    zarr.create_array(served / "sharded.zarr", data=expected, chunks=(8, 24, 24), shards=(32, 96, 96))
    context = multiprocessing.get_context("spawn")
    urls = context.Queue()
    server = context.Process(target=_serve, args=(str(served), urls), daemon=True)
    server.start()
    url = urls.get(timeout=60)
    damacy.mount(f"{url}/", damacy.StoreOptions(immutable=True))
    chance = random.Random(seed)
    counts = {"kills": 0, "wrong_rows": 0, "failed_readers": 0, "readers": 0, "rows_read": 0, "disk_hits": 0}
    try:
        for number in range(kills):
            child = os.fork()
            if child == 0:
                try:
                    _read(url, directory, seed + number, None, None)
                finally:
                    os._exit(1)
            time.sleep(chance.uniform(0.02, 0.35))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            counts["kills"] += os.WIFSIGNALED(status)
            if number % every != every - 1 and number + 1 != kills:
                continue
            receiver, sender = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    wrong, stats = _read(url, directory, number, 30, expected)
                    os.write(sender, json.dumps([wrong, 120, stats.disk_hits]).encode())
                    os._exit(0)
                finally:
                    os._exit(1)
            os.close(sender)
            with os.fdopen(receiver) as answer:
                found = answer.read()
            os.waitpid(child, 0)
            counts["readers"] += 1
            if not found:
                counts["failed_readers"] += 1
                continue
            wrong, rows, hits = json.loads(found)
            counts["wrong_rows"] += wrong
            counts["rows_read"] += rows
            counts["disk_hits"] += hits
    finally:
        damacy.unmount(f"{url}/")
        server.terminate()
    counts["cache_bytes"] = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=1000)
    asked = parser.parse_args()
    json.dump(run(asked.folder, asked.kills), sys.stdout, indent=2)
    print()
