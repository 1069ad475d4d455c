"""zarr-python with and without damacy.zarr: whole arrays, crops, strides, rows; compared with only decoding and only
reading.

    python -m bench.zarr_python --out FILE [--threads 2] [--cases A,B,C] [--reps 5] [--quarter]
    python -m bench.zarr_python --device cuda --out FILE

Results are compared first, then timed: medians, warm page cache, the same CPUs for all. With `--device cuda` results of
damacy are device arrays, and counters of copies are stored with the times. Knows only zarr-python's interface."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.codecs import ZstdCodec

import damacy.zarr
from bench import machine

Access = Callable[[Any], list[Any]]


def smooth(shape: tuple[int, ...], dtype: str, seed: int = 7) -> np.ndarray:
    """Values like a microscope's: a smooth field and some noise; zstd compresses them to about half."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 9, n, dtype="f4") for n in shape), indexing="ij", sparse=True)
    field = np.sin(axes[0])
    for axis in axes[1:]:
        field = field + np.cos(axis)
    field = (field + 3) * 500
    field += rng.integers(0, 60, shape, dtype="u2")
    return field.astype(dtype)


def crops(shape: tuple[int, ...], box: tuple[int, ...], count: int) -> Access:
    rng = np.random.default_rng(1234)
    starts = [tuple(int(rng.integers(0, n - b + 1)) for n, b in zip(shape, box)) for _ in range(count)]
    return lambda z: [z[tuple(slice(s, s + b) for s, b in zip(start, box))] for start in starts]


def cases(quarter: bool) -> Iterator[tuple[str, dict[str, Any], dict[str, Access]]]:
    """For each case its name, the options for writing the array, and the reads."""
    less = 2 if quarter else 1
    a = (128 // less, 1024 // less, 1024)
    zstd = ZstdCodec(level=1)
    whole: Access = lambda z: [z[:]]  # noqa: E731
    yield (
        "A",
        {"shape": a, "dtype": "u2", "chunks": (16, 128, 128), "shards": (64, 512, 512), "compressors": zstd},
        {"z[:]": whole, "60 crops": crops(a, (32, 128, 128), 60)},
    )
    b = (256 // less, 512 // less, 512)
    lz4 = numcodecs.Blosc(cname="lz4", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE)
    yield (
        "B",
        {"shape": b, "dtype": "f4", "chunks": (32, 128, 128), "zarr_format": 2, "compressors": lz4},
        {"z[:]": whole, "60 crops": crops(b, (48, 96, 96), 60)},
    )
    n = 512 // less
    rows = sorted(np.random.default_rng(5).choice(n, 24, replace=False).tolist())
    access: dict[str, Access] = {
        "z[:]": whole,
        "200 crops": crops((n, n, n), (64, 64, 64), 200),
        "z[::4, ::4, ::4]": lambda z: [z[::4, ::4, ::4]],
        "oindex rows": lambda z: [z.oindex[rows, :, :]],
    }
    for name, compressors in (("C zstd", zstd), ("C none", None)):
        layout = {"chunks": (32, 32, 32), "shards": (256 // less,) * 3}
        yield name, {"shape": (n, n, n), "dtype": "u2", "compressors": compressors, **layout}, access
    d = (256 // less, 1024 // less, 1024)
    large: dict[str, Access] = {"z[:]": whole, "12 crops of 21 MB": crops(d, (80, 256, 512), 12)}
    yield "D zstd", {"shape": d, "dtype": "u2"}, large
    yield "D sharded zstd", {"shape": d, "dtype": "u2", "chunks": (32, 128, 128), "shards": (128, 512, 512)}, large
    blosc = {"zarr_format": 2, "chunks": (32, 256, 256), "compressors": lz4}
    yield "D v2 blosc-lz4", {"shape": d, "dtype": "u2", **blosc}, large


@contextlib.contextmanager
def stock(threads: int) -> Iterator[None]:
    with zarr.config.set({"threading.max_workers": threads}):
        yield


@contextlib.contextmanager
def fused(threads: int) -> Iterator[None]:
    path = "zarr.core.codec_pipeline.FusedCodecPipeline"
    with zarr.config.set({"threading.max_workers": threads, "codec_pipeline.path": path}):
        yield


@contextlib.contextmanager
def ours(threads: int, gpu: bool) -> Iterator[None]:
    with damacy.zarr.enable(strict=True, gpu=gpu), zarr.config.set({"damacy.threads": threads}):
        yield


def on_host(results: list[Any]) -> list[np.ndarray]:
    return [r.numpy() if isinstance(r, damacy.DeviceArray) else np.asarray(r) for r in results]


def wait(results: list[Any]) -> None:
    """Waits until the device has written all results."""
    if isinstance(results[-1], damacy.DeviceArray) and results[-1].device != "cpu":
        from damacy._device.memory import queue_of

        queue_of(results[-1].device).sync()


def timed(access: Access, z: Any) -> float:
    start = time.perf_counter()
    wait(access(z))
    return time.perf_counter() - start


class Counted(zarr.storage.WrapperStore):  # type: ignore[misc,type-arg]
    """Records the requests, to repeat them."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.got: list[Any] = []

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        found = await self._store.get(key, prototype, byte_range)
        if found is not None and not key.endswith(("zarr.json", ".zarray", ".zattrs")):
            self.got.append((key, byte_range, found))
        return found


def ceilings(path: Path, options: dict[str, Any], access: Access, threads: int, reps: int) -> dict[str, float]:
    """Seconds for only decoding the chunks that zarr requests, and for only reading their bytes, on all CPUs."""
    store = Counted(zarr.storage.LocalStore(path))
    access(zarr.open_array(store, mode="r+"))  # "r" would make a store of its own
    packed = [found.to_bytes() for _, _, found in store.got]
    if options.get("shards") is not None:
        packed = list(inner_chunks(path, options, store.got, packed))
    codec = options.get("compressors", ZstdCodec())
    if isinstance(codec, ZstdCodec):
        codec = numcodecs.Zstd()
    shares = [packed[i::threads] for i in range(threads)]

    def decode(share: list[bytes]) -> None:
        for chunk in share:
            bytearray(chunk) if codec is None else codec.decode(chunk)

    def read(share: list[tuple[str, int]]) -> None:
        buffer = memoryview(bytearray(max(size for _, size in share)))
        for name, size in share:
            with open(name, "rb", buffering=0) as file:
                file.readinto(buffer[:size])

    files = [(str(path / key), len(found)) for key, _, found in store.got]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:

        def clock(work: Callable[[Any], None], parts: list[Any]) -> float:
            start = time.perf_counter()
            list(pool.map(work, [part for part in parts if part]))
            return time.perf_counter() - start

        decoding = statistics.median(clock(decode, shares) for _ in range(reps))
        reading = statistics.median(clock(read, [files[i::threads] for i in range(threads)]) for _ in range(reps))
    return {"decode_s": decoding, "read_s": reading}


def inner_chunks(path: Path, options: dict[str, Any], got: list[Any], packed: list[bytes]) -> Iterator[bytes]:
    """The chunks in the pieces of shards that were read; a whole shard is split by its index."""
    shards, chunks = options["shards"], options["chunks"]
    count = int(np.prod([s // c for s, c in zip(shards, chunks)]))
    index_bytes = 16 * count + 4
    for (_, byte_range, _), data in zip(got, packed):
        if byte_range is not None:
            if len(data) != index_bytes:
                yield data
            continue
        index = np.frombuffer(data[-index_bytes:-4], "<u8").reshape(-1, 2)
        for offset, size in index[index[:, 0] != 2**64 - 1]:
            yield data[offset : offset + size]


def measure(path: Path, options: dict[str, Any], access: Access, settings: argparse.Namespace) -> dict[str, Any]:
    gpu = settings.device == "cuda"
    loaders: dict[str, Any] = {"stock": lambda: stock(settings.threads)}
    if hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
        loaders["fused"] = lambda: fused(settings.threads)
    loaders["damacy"] = lambda: ours(settings.threads, gpu)
    opened: dict[str, Any] = {}
    times: dict[str, list[float]] = {name: [] for name in loaders}
    first: list[np.ndarray] = []
    for name, loader in loaders.items():
        with loader():
            opened[name] = zarr.open_array(path, mode="r")
            results = on_host(access(opened[name]))
        first = first or results
        assert all(np.array_equal(a, b) for a, b in zip(first, results, strict=True)), f"{name} reads something else"
    size = sum(result.nbytes for result in first)
    del first, results
    damacy.zarr.reset_stats()
    if settings.alone:
        loaders = {"damacy": loaders["damacy"]}
    for _ in range(settings.reps):
        for name, loader in loaders.items():
            with loader():
                times[name].append(timed(access, opened[name]))
    counters = {name: count // settings.reps for name, count in damacy.zarr.stats().items()}
    medians = {name: statistics.median(of) for name, of in times.items() if of}
    limits = ceilings(path, options, access, settings.threads, settings.reps)
    return {
        "bytes": size,
        "seconds": medians,
        "all_seconds": times,
        "GB/s": {name: round(size / s / 1e9, 3) for name, s in medians.items()},
        "ratio_to": {name: round(s / medians["damacy"], 2) for name, s in medians.items() if name != "damacy"},
        **limits,
        "decode_ceiling_ratio": round(limits["decode_s"] / medians["damacy"], 2),
        "counters": counters,
    }


def verdict(found: dict[str, Any]) -> str:
    if "stock" not in found["ratio_to"]:
        return ""
    if found["ratio_to"]["stock"] >= 2:
        return "2 x stock"
    return "90 % of the decode ceiling" if found["decode_ceiling_ratio"] >= 0.9 else "below"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cases", default="A,B,C")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--alone", action="store_true", help="compare bytes with stock, time only damacy")
    parser.add_argument("--quarter", action="store_true", help="use arrays of at most a quarter of the size")
    settings = parser.parse_args()
    report: dict[str, Any] = {"about": machine.describe(), "settings": {"zarr": zarr.__version__}, "cases": {}}
    report["settings"] |= {k: v for k, v in vars(settings).items() if k != "out"}
    folder = Path(tempfile.mkdtemp(prefix="zarr-python-"))
    try:
        for name, options, accesses in cases(settings.quarter):
            if name.split()[0] not in settings.cases.split(","):
                continue
            path = folder / name.replace(" ", "-")
            zarr.create_array(path, **options)[:] = smooth(options["shape"], options["dtype"])
            for what, access in accesses.items():
                found = report["cases"][f"{name} {what}"] = measure(path, options, access, settings)
                rates = "  ".join(f"{k} {v:.2f} GB/s" for k, v in found["GB/s"].items())
                print(
                    f"{name:7} {what:18} {rates}  x stock {found['ratio_to'].get('stock', 0):.2f}"
                    f"  of only decoding {found['decode_ceiling_ratio']:.2f}  {verdict(found)}",
                    flush=True,
                )
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if settings.out:
        settings.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
