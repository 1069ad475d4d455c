"""Random crops from a server that answers late: damacy beside TensorStore and zarr-python with obstore.

    python -m bench.remote.crops --out bench/results/remote-crops-host.json [--rounds 5] [--delays 1,10,50] [--crops 64]

The server is a process of this program, on loopback, which sleeps before each answer. Arms are interleaved: each round
runs every arm once. Before the rounds each arm's crops are compared with the array in memory. Needs zarr; arms whose
package is missing are left out, and the result says so. Knows no other benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

SHAPE = (256, 256, 512)
CROP = 64
ARRAYS = {"plain": {"chunks": (64, 64, 64)}, "sharded": {"chunks": (32, 32, 32), "shards": (256, 256, 256)}}


# The server.


def ranged(text: str, size: int) -> tuple[int, int] | None:
    """First and last byte of a Range header."""
    found = re.search(r"\r\nrange: bytes=(\d*)-(\d*)\r\n", text, re.IGNORECASE)
    if not found:
        return None
    if not found[1]:
        return max(size - int(found[2]), 0), size - 1
    return int(found[1]), min(int(found[2]) if found[2] else size - 1, size - 1)


async def serve(folder: pathlib.Path, pipe) -> None:
    """Answers GET and HEAD of files, each after the delay that its path begins with: /10/plain.zarr/zarr.json."""
    files: dict[str, bytes] = {}

    def content(key: str) -> bytes | None:
        if key not in files and (folder / key).is_file():
            files[key] = (folder / key).read_bytes()
        return files.get(key)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, path, _ = text.split(" ", 2)
                delay, key = path.lstrip("/").split("/", 1)
                await asyncio.sleep(int(delay) / 1000)
                body = content(key)
                if body is None:
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                window = ranged(text, len(body))
                first, last = window or (0, len(body) - 1)
                head = (
                    f"HTTP/1.1 206 X\r\nContent-Range: bytes {first}-{last}/{len(body)}\r\n"
                    if window
                    else "HTTP/1.1 200 OK\r\n"
                )
                head += f'ETag: "1"\r\nAccept-Ranges: bytes\r\nContent-Length: {last - first + 1}\r\n'
                head += "Last-Modified: Mon, 23 Nov 2026 10:00:00 GMT\r\n\r\n"
                writer.write(head.encode() + (b"" if method == "HEAD" else body[first : last + 1]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=1024)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def run_server(folder: pathlib.Path, pipe) -> None:
    asyncio.run(serve(folder, pipe))


# The arms: each gives a function of (url, corners) that returns the crops.

Read = Callable[[str, list[tuple[int, ...]]], list[np.ndarray]]


def damacy_arm() -> Read:
    import damacy

    def read(url: str, corners: list[tuple[int, ...]]) -> list[np.ndarray]:
        config = damacy.Config(batch_size=8, device="cpu", dtype="u16", host_buffer_bytes=512 << 20)
        crops = []
        with damacy.Pipeline(config) as pipeline:
            pipeline.push(damacy.Sample(url, [(c, c + CROP) for c in corner]) for corner in corners)
            for batch in pipeline:
                with batch as held:
                    crops += [row.copy() for row in held.numpy()]
        return crops

    return read


def tensorstore_arm(requests: int | None) -> Read:
    import tensorstore

    def read(url: str, corners: list[tuple[int, ...]]) -> list[np.ndarray]:
        limits = {} if requests is None else {"http_request_concurrency": {"limit": requests}}
        base, path = re.fullmatch(r"(http://[^/]+)/(.*)", url).groups()
        spec = {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": f"{base}/{path}"}, "context": limits}
        array = tensorstore.open(spec, open=True, read=True).result()
        reads = [array[tuple(slice(c, c + CROP) for c in corner)].read() for corner in corners]
        return [one.result() for one in reads]

    return read


def zarr_arm(requests: int) -> Read:
    import zarr
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    def read(url: str, corners: list[tuple[int, ...]]) -> list[np.ndarray]:
        with zarr.config.set({"async.concurrency": requests}):
            store = ObjectStore(HTTPStore(url, client_options={"allow_http": True}), read_only=True)
            array = zarr.open_array(store, mode="r")
            return [array[tuple(slice(c, c + CROP) for c in corner)] for corner in corners]

    return read


ARMS: dict[str, Callable[[], Read]] = {
    "damacy": damacy_arm,
    "tensorstore": lambda: tensorstore_arm(None),
    "tensorstore, 256 requests": lambda: tensorstore_arm(256),
    "zarr and obstore": lambda: zarr_arm(10),
    "zarr and obstore, 128 at once": lambda: zarr_arm(128),
}


def make_arms() -> tuple[dict[str, Read], dict[str, str]]:
    arms, missing = {}, {}
    for name, make in ARMS.items():
        try:
            arms[name] = make()
        except ImportError as error:
            missing[name] = str(error)
    return arms, missing


def make_data(folder: pathlib.Path) -> np.ndarray:
    """Values as of a microscope: smooth, with noise in the low bits, so that zstd keeps about half."""
    import zarr

    rng = np.random.default_rng(0)
    data = (np.add.outer(np.add.outer(np.arange(256), np.arange(256)), np.arange(512)) * 8).astype("u2")
    data += rng.integers(0, 64, SHAPE, dtype="u2")
    for name, layout in ARRAYS.items():
        zarr.create_array(folder / f"{name}.zarr", data=data, compressors=zarr.codecs.ZstdCodec(level=1), **layout)
    return data


def commit() -> str:
    here = pathlib.Path(__file__).parent
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delays", default="1,10,50")
    parser.add_argument("--crops", type=int, default=64)
    options = parser.parse_args()
    arms, missing = make_arms()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = make_data(folder)
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        server = multiprocessing.get_context("spawn").Process(target=run_server, args=(folder, theirs), daemon=True)
        server.start()
        port = ours.recv()
        rng = np.random.default_rng(1)
        for array in ARRAYS:
            for delay in options.delays.split(","):
                url = f"http://127.0.0.1:{port}/{delay}/{array}.zarr"
                corners = [tuple(int(c) for c in rng.integers(0, np.array(SHAPE) - CROP)) for _ in range(options.crops)]
                for arm, read in arms.items():
                    for crop, corner in zip(read(url, corners), corners, strict=True):
                        if not np.array_equal(crop, data[tuple(slice(c, c + CROP) for c in corner)]):
                            sys.exit(f"{arm}: {array}: the crop at {corner} differs")
                times: dict[str, list[float]] = {arm: [] for arm in arms}
                for _ in range(options.rounds):
                    for arm, read in arms.items():
                        begin = time.perf_counter()
                        read(url, corners)
                        times[arm].append(time.perf_counter() - begin)
                for arm, seconds in times.items():
                    rates = sorted(options.crops / s for s in seconds)
                    row = {"array": array, "delay_ms": int(delay), "arm": arm}
                    row |= {
                        "crops_per_s": round(statistics.median(rates), 1),
                        "range": [round(rates[0], 1), round(rates[-1], 1)],
                    }
                    rows.append(row)
                    print(row, flush=True)
        server.terminate()
    result = {
        "what": f"crops of {CROP}^3 u16, zstd, {SHAPE}; plain: 64^3 chunks, sharded: 32^3 chunks in 256^3 shards",
        "command": " ".join(
            [
                "python -m bench.remote.crops",
                f"--rounds {options.rounds}",
                f"--delays {options.delays}",
                f"--crops {options.crops}",
            ]
        ),
        "commit": commit(),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "note": "The server is asyncio in Python, on the same cores: its own limit is part of every rate.",
        "missing": missing,
        "rows": rows,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
