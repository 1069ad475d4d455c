"""Measures random crops of one array: the pipeline's rate and stages, what the machine allows, and other readers.

Knows rates and what to conclude from them; shows nothing."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import damacy
from damacy._cli.plan import plan_reads
from damacy._core import counter_rng
from damacy.samplers import RandomCrops

_STAGES = ("plan", "io", "h2d", "decompress", "assemble", "pop_wait_io", "pop_wait_compute")
_CROP_ELEMENTS = 1 << 18
_PLANNED_CROPS = 32  # whose requests the read ceiling repeats


@dataclasses.dataclass(frozen=True)
class Setting:
    uri: str
    crop: tuple[int, ...]
    batch: int
    seconds: float
    threads: int
    device: str
    crops: RandomCrops = dataclasses.field(repr=False)
    chunks: tuple[int, ...]
    zarr_format: int
    path: str  # of the array itself, where the uri names an image

    @property
    def crop_bytes(self) -> int:
        return 4 * math.prod(self.crop)


@dataclasses.dataclass
class Report:
    """Rates in bytes of finished float32 batches a second; a peer that was not measured says why.

    There is no ceiling of what the crops did not take.
    """

    setting: Setting
    batches: int = 0
    elapsed: float = 0.0
    stages: dict[str, damacy.Metric] = dataclasses.field(default_factory=dict)
    ceilings: dict[str, float] = dataclasses.field(default_factory=dict)
    peers: dict[str, float | str] = dataclasses.field(default_factory=dict)
    read_amplification: float = 0.0
    decode_amplification: float = 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.batches * self.setting.batch * self.setting.crop_bytes / self.elapsed

    def as_dict(self) -> dict[str, Any]:
        setting = {f.name: getattr(self.setting, f.name) for f in dataclasses.fields(Setting) if f.name != "crops"}
        return setting | {
            "batches": self.batches,
            "elapsed_s": self.elapsed,
            "bytes_per_s": self.bytes_per_s,
            "crops_per_s": self.bytes_per_s / self.setting.crop_bytes,
            "stages": {name: dataclasses.asdict(metric) for name, metric in self.stages.items()},
            "ceilings": self.ceilings,
            "peers": self.peers,
            "read_amplification": self.read_amplification,
            "decode_amplification": self.decode_amplification,
            "advice": self.advice(),
        }

    def advice(self) -> list[str]:
        """What bounds the rate, and what would raise it."""
        lines = []
        reading, decoding = (self.ceilings.get(name, math.inf) for name in ("read", "decode"))
        if math.isinf(min(reading, decoding)):
            return ["nothing was read or decoded: there is only fill where the crops fell"]
        if reading < decoding:
            lines.append("storage is the slower part: faster storage, or stronger compression, would help most")
        else:
            lines.append(
                "decoding is the slower part: more cores, a GPU, or a quicker codec such as LZ4 would help most"
            )
        if self.bytes_per_s < 0.5 * min(reading, decoding):
            lines.append(
                "the rate is below half of both ceilings: try more threads, larger batches or more lookahead_batches"
            )
        if self.decode_amplification > 4:
            lines.append(
                f"each byte of a crop costs {self.decode_amplification:.1f} decoded ones: chunks "
                f"{self.setting.chunks} are large for crops {self.setting.crop}; crops that start on chunk borders "
                "(RandomCrops(align=...)) or smaller chunks need fewer"
            )
        return lines


def setting(uri: str, crop: tuple[int, ...] | None, batch: int, seconds: float, threads: int, device: str) -> Setting:
    """Checked against the array; `ValueError` for a crop that does not fit."""
    info = damacy.open(uri)
    if not info.supported:
        raise ValueError(info.why_not)
    crop = _default_crop(info.shape) if crop is None else crop
    crops = RandomCrops({uri: info.shape}, crop, length=1 << 40, seed=1234)
    threads = threads or len(os.sched_getaffinity(0))
    path = os.path.join(uri, info.levels[0]) if info.levels else uri
    return Setting(uri, crop, batch, seconds, threads, device, crops, info.chunks, info.zarr_format, path)


def steps(setting: Setting, peers: bool) -> list[tuple[str, Callable[[Report], None]]]:
    """What to run, in order, each with its name."""
    found: list[tuple[str, Callable[[Report], None]]] = [
        ("damacy", _measure_pipeline),
        ("ceiling: read", _measure_reading),
        ("ceiling: decode", _measure_decoding),
    ]
    if peers:
        found += [(name, functools.partial(_measure_peer, name)) for name in _PEERS]
    return found


def _default_crop(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Near a cube over the last three axes, one element of each axis before them."""
    crop = [1] * len(shape)
    elements = _CROP_ELEMENTS
    axes = sorted(range(max(0, len(shape) - 3), len(shape)), key=lambda k: shape[k])
    for left, axis in zip(range(len(axes), 0, -1), axes):
        crop[axis] = max(1, min(shape[axis], round(elements ** (1 / left))))
        elements //= crop[axis]
    return tuple(crop)


def _samples(setting: Setting) -> Iterator[damacy.Sample]:
    for index in range(len(setting.crops)):
        yield setting.crops.sample(0, index)


def _measure_pipeline(report: Report) -> None:
    setting = report.setting
    config = damacy.Config(batch_size=setting.batch, device=setting.device, n_io_threads=setting.threads)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(_samples(setting))
        pipeline.pop().release()  # slots and staging are made, documents and indices read
        pipeline.stats_reset()
        start = time.perf_counter()
        while report.elapsed < setting.seconds:
            pipeline.pop().release()
            report.batches += 1
            report.elapsed = time.perf_counter() - start
        stats = pipeline.stats()
    report.stages = {name: getattr(stats, name) for name in _STAGES}
    placed = stats.assemble.output_bytes or 1
    report.read_amplification = stats.io.input_bytes / placed
    report.decode_amplification = stats.decompress.output_bytes / max(stats.assemble.input_bytes, 1)


def _measure_reading(report: Report) -> None:
    """The crops' own requests again, without decoding anything."""
    setting = report.setting
    requests = []
    for index in range(_PLANNED_CROPS):
        plan = plan_reads(setting.uri, setting.crops.sample(0, index).aabb)
        requests += [(os.path.join(plan.store, read.key), read.bytes, read.offset) for read in plan.reads]
    if not requests:  # all of it is fill
        return
    with contextlib.ExitStack() as stack:
        files = {path: os.open(path, os.O_RDONLY) for path in {path for path, _, _ in requests}}
        for file in files.values():
            stack.callback(os.close, file)

        def read(k: int) -> int:
            path, size, offset = requests[k % len(requests)]
            return len(os.pread(files[path], size, offset))

        rate = _rate(setting, read)
    total = sum(size for _, size, _ in requests)
    report.ceilings["read"] = rate * _PLANNED_CROPS * setting.crop_bytes / total


def _measure_decoding(report: Report) -> None:
    """Random chunks of the array, whole, on as many threads; the time for reading them is left out."""
    from damacy import _native

    setting = report.setting
    verifier = _native.Verifier(setting.uri)
    decoded, nanoseconds = [], []

    def decode(k: int) -> int:
        found = verifier.verify(counter_rng.below(counter_rng.hash64(k), verifier.places), 1)
        decoded.append(int(found["decoded_bytes"]))
        nanoseconds.append(found["decode_ns"])
        return decoded[-1]

    _rate(setting, decode)
    stages = report.stages
    if not sum(nanoseconds) or not stages["decompress"].output_bytes:
        return
    useful = stages["assemble"].output_bytes / stages["decompress"].output_bytes
    report.ceilings["decode"] = sum(decoded) / sum(nanoseconds) * 1e9 * setting.threads * useful


def _rate(setting: Setting, work: Callable[[int], int]) -> float:
    """Bytes a second of `work(0)`, `work(1)`, ... shared out among the threads until time is up."""
    end = time.perf_counter() + setting.seconds
    counter = itertools.count()

    def loop() -> int:
        total = work(next(counter))
        while time.perf_counter() < end:
            total += work(next(counter))
        return total

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(setting.threads) as pool:
        total = sum(task.result() for task in [pool.submit(loop) for _ in range(setting.threads)])
    return total / (time.perf_counter() - start)


def _measure_peer(name: str, report: Report) -> None:
    """The same crops as float32 rows of a batch, by a reader as people use it."""
    try:
        read = _PEERS[name](report.setting)
    except ModuleNotFoundError as missing:
        report.peers[name] = f"{missing.name} is not installed"
        return
    except Exception as error:  # a reader that cannot open the array is no failure of ours
        report.peers[name] = f"cannot open it: {error}"
        return
    setting = report.setting
    crops = 0
    start = time.perf_counter()
    while time.perf_counter() - start < setting.seconds:
        read([setting.crops.sample(0, crops + k) for k in range(setting.batch)])
        crops += setting.batch
    report.peers[name] = crops * setting.crop_bytes / (time.perf_counter() - start)


ReadBatch = Callable[[list[damacy.Sample]], Any]


def _tensorstore(setting: Setting) -> ReadBatch:
    import numpy
    import tensorstore

    driver = "zarr3" if setting.zarr_format == 3 else "zarr"
    threads = {"limit": setting.threads}
    context = {"data_copy_concurrency": threads, "file_io_concurrency": threads, "cache_pool": {"total_bytes_limit": 0}}
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{setting.path}/"}, "context": context}
    store = tensorstore.cast(tensorstore.open(spec, open=True, read=True).result(), tensorstore.float32)

    def read(samples: list[damacy.Sample]) -> numpy.ndarray:
        waiting = [store[_slices(sample)].read() for sample in samples]
        return numpy.stack([task.result() for task in waiting])

    return read


def _zarr(setting: Setting) -> ReadBatch:
    import numpy
    import zarr

    array = zarr.open_array(setting.path, mode="r")

    def read(samples: list[damacy.Sample]) -> numpy.ndarray:
        return numpy.stack([array[_slices(sample)] for sample in samples]).astype("f4")

    return read


_PEERS: dict[str, Callable[[Setting], ReadBatch]] = {"tensorstore": _tensorstore, "zarr": _zarr}


def _slices(sample: damacy.Sample) -> tuple[slice, ...]:
    return tuple(slice(*axis) for axis in sample.aabb)
