"""The loaders that are measured: damacy (also with elements finished), tensorstore (used in two ways) and zarr-python.
All that finish nothing produce the same batches.

Knows each library's user interface, how to limit its threads, and how to disable caches of decoded data. Measures
nothing; worker.py does.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bench.workload import Crop, Scenario

Batches = Iterable[list[Crop]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """The options of every loader."""

    scenario: Scenario
    threads: int
    dtype: str = "f32"
    device: str = "cpu"
    config: dict[str, Any] = dataclasses.field(default_factory=dict)  # more fields of damacy.Config

    @property
    def numpy_dtype(self) -> np.dtype:
        if self.dtype == "bf16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype({"f16": "f2", "f32": "f4", "f64": "f8", "u8": "u1", "u16": "u2"}[self.dtype])

    @property
    def batch_bytes(self) -> int:
        return self.scenario.batch_bytes(self.numpy_dtype.itemsize)

    def new_batch(self) -> np.ndarray:
        """Memory for a batch, already written once, so that no loader has page faults."""
        batch = np.empty((self.scenario.batch_size, *self.scenario.crop), self.numpy_dtype)
        batch.fill(0)
        return batch


class Loader:
    """`batches` yields finished batches in order; each is valid until the next one is taken."""

    same_batches = True  # byte for byte, as the other loaders

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.load()

    def load(self) -> None:
        """Imports the library, before memory is measured."""

    def open(self) -> None:
        raise NotImplementedError

    def batches(self, wanted: Batches) -> Iterator[Any]:
        raise NotImplementedError

    def as_array(self, batch: Any) -> np.ndarray:
        """The batch in host memory, for comparisons; never called while time is measured."""
        return batch

    def counters(self) -> dict[str, Any]:
        """Exact counts of the work since the last call, if the library has them."""
        return {}

    def memory_bound(self) -> int | None:
        return None

    def explain(self) -> str | None:
        """The bottleneck that the library reports, if it does."""
        return None

    def close(self) -> None:
        pass


class Damacy(Loader):
    name = "damacy"

    def load(self) -> None:
        import damacy

        self._damacy = damacy

    def open(self) -> None:
        self._config = self._damacy.Config(**self.fields())
        self._pipeline = self._damacy.Pipeline(self._config)
        self._uris = [str(array.path) for array in self.setting.scenario.arrays]

    def fields(self) -> dict[str, Any]:
        setting = self.setting
        fields = {"host_buffer_bytes": 256 << 20, "device_buffer_bytes": 256 << 20, "n_io_threads": setting.threads}
        fields |= {"batch_size": setting.scenario.batch_size, "dtype": setting.dtype, "device": setting.device}
        return fields | setting.config

    def samples(self, wanted: list[list[Crop]]) -> Iterator[Any]:
        uris, sample = self._uris, self._damacy.Sample
        return (sample(uris[array], box) for batch in wanted for array, box in batch)

    def batches(self, wanted: Batches) -> Iterator[Any]:
        wanted = list(wanted)
        self._pipeline.push(self.samples(wanted))
        for batch in self._pipeline.batches(len(wanted)):
            with batch:
                yield batch

    def as_array(self, batch: Any) -> np.ndarray:
        return batch.numpy()

    def counters(self) -> dict[str, Any]:
        stats = dataclasses.asdict(self._pipeline.stats())
        self._pipeline.stats_reset()
        return stats

    def memory_bound(self) -> int:
        """The allowed growth of the process: the memory that the configuration allows, metadata, and 64 MiB."""
        config = self._config
        slots = config.n_batches * self.setting.batch_bytes
        metadata = max(config.host_buffer_bytes // 4, 1 << 20)
        return config.host_buffer_bytes + config.device_buffer_bytes + slots + metadata + (64 << 20)

    def explain(self) -> str | None:
        explain = getattr(self._pipeline, "explain", None)
        return str(explain().text) if explain else None

    def close(self) -> None:
        self._pipeline.close()


class DamacyFinished(Damacy):
    """damacy with every element finished: crops that may lie half outside and are reflected there, scaled, clipped,
    flipped. Its batches are not those of the others; beside `damacy` it shows what finishing costs."""

    name = "damacy-finished"
    same_batches = False

    def fields(self) -> dict[str, Any]:
        spec = self._damacy.ArraySpec(dtype=self.setting.dtype, scale=1 / 4095, offset=-0.1, clip=(0, 1), pad="reflect")
        return super().fields() | {"arrays": {"image": spec}}

    def samples(self, wanted: list[list[Crop]]) -> Iterator[Any]:
        rng = np.random.default_rng(1)
        for number, (array, box) in enumerate(itertools.chain.from_iterable(wanted)):
            moves = [int(rng.integers(-(stop - start) // 2, (stop - start) // 2)) for start, stop in box]
            moved = [(start + move, stop + move) for (start, stop), move in zip(box, moves)]
            flip = [-1 - axis for axis in range(3) if number >> axis & 1]
            yield self._damacy.Sample({"image": (self._uris[array], moved)}, flip=flip)


class DamacyScaled(Damacy):
    """damacy with every element scaled and clipped, at the same places."""

    name = "damacy-scaled"
    same_batches = False

    def fields(self) -> dict[str, Any]:
        spec = self._damacy.ArraySpec(dtype=self.setting.dtype, scale=1 / 4095, offset=-0.1, clip=(0, 1))
        return super().fields() | {"arrays": spec}


class TensorStore(Loader):
    """tensorstore's own threads cast and place, while the next batch is under way: the fastest use that we found."""

    name = "tensorstore"
    ahead = 2  # batches under way, as many as the pipeline's slots
    cache_bytes = 0  # of decoded chunks

    def load(self) -> None:
        import tensorstore

        self._ts = tensorstore

    def open(self) -> None:
        limit = {"limit": self.setting.threads}
        cache = {"total_bytes_limit": self.cache_bytes}
        context = self._ts.Context({"cache_pool": cache, "data_copy_concurrency": limit, "file_io_concurrency": limit})
        self._arrays = [
            self._ts.open(
                {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(array.path)}},
                context=context,
                read=True,
                recheck_cached_data="open",
                recheck_cached_metadata="open",
            ).result()
            for array in self.setting.scenario.arrays
        ]
        self._prepare()

    def _prepare(self) -> None:
        self._cast = [self._ts.cast(array, self.setting.numpy_dtype) for array in self._arrays]
        self._slots = [self.setting.new_batch() for _ in range(self.ahead)]

    def batches(self, wanted: Batches) -> Iterator[Any]:
        under_way: deque = deque()
        for number, crops in enumerate(wanted):
            slot = self._slots[number % self.ahead]
            under_way.append((slot, self._start(slot, crops)))
            if len(under_way) == self.ahead:
                yield self._finish(*under_way.popleft())
        while under_way:
            yield self._finish(*under_way.popleft())

    def _start(self, slot: np.ndarray, crops: list[Crop]) -> list:
        to_origin = self._ts.d[:].translate_to[0]
        return [
            self._ts.array(row).write(self._cast[array][_slices(box)][to_origin])
            for row, (array, box) in zip(slot, crops)
        ]

    def _finish(self, slot: np.ndarray, pending: list) -> Any:
        for write in pending:
            write.result()
        return slot


class TensorStoreRead(TensorStore):
    """The use that the documentation shows: read every sample of the batch, then convert into the batch with NumPy."""

    name = "tensorstore-read"
    ahead = 1

    def _start(self, slot: np.ndarray, crops: list[Crop]) -> list:
        return [self._arrays[array][_slices(box)].read() for array, box in crops]

    def _finish(self, slot: np.ndarray, pending: list) -> Any:
        for row, read in zip(slot, pending):
            row[...] = read.result()
        return slot


class TensorStoreGpu(TensorStore):
    """Reads into page-locked memory in the stored type, copies each batch to the GPU, and casts there with torch."""

    name = "tensorstore-gpu"

    def _prepare(self) -> None:
        import torch

        setting = self.setting
        stored = getattr(torch, setting.scenario.dtype)
        shape = (setting.scenario.batch_size, *setting.scenario.crop)
        self._torch = torch
        self._cast = self._arrays
        self._pinned = [torch.empty(shape, dtype=stored).pin_memory() for _ in range(self.ahead)]
        self._slots = [pinned.numpy() for pinned in self._pinned]
        self._on_gpu = torch.empty(shape, dtype=stored, device="cuda")
        target = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[setting.dtype]
        self._batch = torch.empty(shape, dtype=target, device="cuda")

    def _finish(self, slot: np.ndarray, pending: list) -> Any:
        super()._finish(slot, pending)
        pinned = next(p for p, s in zip(self._pinned, self._slots) if s is slot)
        self._on_gpu.copy_(pinned, non_blocking=True)
        self._batch.copy_(self._on_gpu)
        self._torch.cuda.synchronize()  # the slot is filled again next
        return self._batch

    def as_array(self, batch: Any) -> np.ndarray:
        host = batch.cpu()
        if self.setting.dtype == "bf16":
            return host.view(self._torch.uint16).numpy().view(self.setting.numpy_dtype)
        return host.numpy()


class Zarr(Loader):
    """Reads samples one by one on a pool of threads: the fastest of three tried ways (one thread, pool, asyncio)."""

    name = "zarr"

    def load(self) -> None:
        import zarr

        self._zarr = zarr

    def open(self) -> None:
        threads = self.setting.threads
        limits = {"async.concurrency": threads, "threading.max_workers": threads}
        self._limits = contextlib.ExitStack()
        self._limits.enter_context(self._zarr.config.set(limits))
        self._arrays = [self._zarr.open_array(array.path, mode="r") for array in self.setting.scenario.arrays]
        self._pool = self._limits.enter_context(concurrent.futures.ThreadPoolExecutor(threads))
        self._batch = self.setting.new_batch()

    def batches(self, wanted: Batches) -> Iterator[Any]:
        for crops in wanted:
            list(self._pool.map(self._place, self._batch, crops))
            yield self._batch

    def _place(self, row: np.ndarray, crop: Crop) -> None:
        array, box = crop
        row[...] = self._arrays[array][_slices(box)]

    def close(self) -> None:
        self._limits.close()


LOADERS = {
    loader.name: loader
    for loader in (Damacy, DamacyFinished, DamacyScaled, TensorStore, TensorStoreRead, TensorStoreGpu, Zarr)
}


def _slices(box: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    return tuple(slice(a, b) for a, b in box)
