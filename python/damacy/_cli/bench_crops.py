"""Measures random crops of one array: the pipeline's rate and stages, upper bounds of this machine, and other readers.

Computes rates and advice; prints nothing."""

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
from typing import Any, cast

import damacy
from damacy._cli.plan import plan_reads
from damacy._core import counter_rng
from damacy._open.opening import array_or_image
from damacy.samplers import RandomCrops

_STAGES = ("plan", "io", "h2d", "decompress", "assemble", "pop_wait_io", "pop_wait_compute")
_CROP_ELEMENTS = 1 << 18
_PLANNED_CROPS = 32  # the read ceiling repeats the requests of so many crops


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
    path: str  # the array; its first level if the uri names an image

    @property
    def crop_bytes(self) -> int:
        return 4 * math.prod(self.crop)


@dataclasses.dataclass
class Report:
    """Rates in bytes of finished float32 batches per second. `peers` holds a rate, or text that says why there is none.

    `ceilings` has no entry for a stage that the crops did not use.
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
        """What limits the rate, and what would raise it."""
        lines = []
        reading, decoding = (self.ceilings.get(name, math.inf) for name in ("read", "decode"))
        if math.isinf(min(reading, decoding)):
            return ["nothing was read or decoded: all crops lie in chunks that are not stored (fill value)"]
        if reading < decoding:
            lines.append("storage is slower than decoding: use faster storage, or stronger compression")
        else:
            lines.append("decoding is slower than storage: use more cores, a GPU, or a faster codec such as LZ4")
        if self.bytes_per_s < 0.5 * min(reading, decoding):
            lines.append(
                "the rate is below half of both ceilings: try more threads, larger batches or more lookahead_batches"
            )
        if self.decode_amplification > 4:
            lines.append(
                f"{self.decode_amplification:.1f} bytes are decoded for each byte of a crop: chunks "
                f"{self.setting.chunks} are large for crops {self.setting.crop}; start crops on chunk borders "
                "(RandomCrops(align=...)) or write smaller chunks"
            )
        return lines


def setting(uri: str, crop: tuple[int, ...] | None, batch: int, seconds: float, threads: int, device: str) -> Setting:
    """Fills in defaults from the array at `uri`. Raises `ValueError` for a crop that does not fit."""
    info = array_or_image(uri)
    if not info.supported:
        raise ValueError(info.why_not)
    crop = _default_crop(info.shape) if crop is None else crop
    crops = RandomCrops({uri: info.shape}, crop, length=1 << 40, seed=1234)
    threads = threads or len(os.sched_getaffinity(0))
    path = os.path.join(uri, info.levels[0]) if info.levels else uri
    return Setting(uri, crop, batch, seconds, threads, device, crops, info.chunks, info.zarr_format, path)


def steps(setting: Setting, peers: bool) -> list[tuple[str, Callable[[Report], None]]]:
    """The measurements in order, each with its name."""
    found: list[tuple[str, Callable[[Report], None]]] = [
        ("damacy", _measure_pipeline),
        ("ceiling: read", _measure_reading),
        ("ceiling: decode", _measure_decoding),
    ]
    if peers:
        found += [(name, functools.partial(_measure_peer, name)) for name in _PEERS]
    return found


def _default_crop(shape: tuple[int, ...]) -> tuple[int, ...]:
    """About a cube in the last three axes, and one element in each axis before them."""
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
        pipeline.pop().release()  # warm-up: allocates slots and staging memory, reads documents and indices
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
    """Repeats the read requests of crops without decoding."""
    setting = report.setting
    requests = []
    for index in range(_PLANNED_CROPS):
        box = cast("tuple[tuple[int, int], ...]", setting.crops.sample(0, index).aabb)
        plan = plan_reads(setting.uri, box)
        requests += [(os.path.join(plan.store, read.key), read.bytes, read.offset) for read in plan.reads]
    if not requests:  # no chunk is stored
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
    """Decodes whole random chunks on as many threads; the time for reading them does not count."""
    from damacy import _native

    setting = report.setting
    verifier = _native.Verifier(setting.uri, setting.threads)
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
    """Bytes per second of `work(0)`, `work(1)`, ..., run by all threads until `setting.seconds` have passed."""
    end = time.perf_counter() + setting.seconds
    counter = itertools.count()

    def loop() -> int:
        total = work(next(counter))
        while time.perf_counter() < end:
            total += work(next(counter))
        return total

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(setting.threads, thread_name_prefix="damacy-bench") as pool:
        total = sum(task.result() for task in [pool.submit(loop) for _ in range(setting.threads)])
    return total / (time.perf_counter() - start)


def _measure_peer(name: str, report: Report) -> None:
    """Reads the same crops as float32 rows of a batch with another library, in its usual way."""
    try:
        read = _PEERS[name](report.setting)
    except ModuleNotFoundError as missing:
        report.peers[name] = f"{missing.name} is not installed"
        return
    except Exception as error:  # that library cannot open the array; the other results are still shown
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
