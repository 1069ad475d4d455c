"""`Config`: every setting of a pipeline, checked when it is built. Does not know devices or whether sizes fit: the
native library judges those when a `Pipeline` is made."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from damacy._core.dtype import Dtype
from damacy._core.integers import as_int, shown
from damacy._core.sizes import as_bytes
from damacy._pipeline.array_spec import ArraySpec, specs_of
from damacy._pipeline.foreign_values import device_of, dtype_of
from damacy._pipeline.shared_cache import SharedCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from damacy._pipeline.memory import MemoryPlan
    from damacy.typing import Device, DtypeLike, OnError, ThreadCores, Verify

MAX_CHUNK_UNCOMPRESSED_BYTES = 1 << 30
_LEAST_DISK_CACHE = 256 << 20

_ON_ERROR = ("raise", "skip", "fill")
_VERIFY = ("needed", "whole")
_THREAD_CORES = ("rank", "all")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of a `Pipeline`; immutable, comparable, hashable, picklable.

    >>> base = Config(batch_size=8, host_buffer_bytes=1 << 30, device_buffer_bytes=1 << 30)
    >>> base.dtype is Dtype.F32, dataclasses.replace(base, batch_size=64).batch_size
    (True, 64)
    >>> Config(batch_size=0, host_buffer_bytes=1, device_buffer_bytes=1)
    Traceback (most recent call last):
    ValueError: batch_size must be >= 1 (got 0)

    Args:
        batch_size: samples per batch.
        host_buffer_bytes: staging memory for reads, a hard cap; page-locked on the CUDA back end.
        device_buffer_bytes: memory for encoded and decoded chunks, a hard cap; on the host back end a cap on scratch.
        dtype: element type of batches: a `Dtype`, its name or number, a NumPy dtype or scalar type, or a type of
            ml_dtypes, torch or JAX. Names count bits: `"float32"` or `"f32"`, `"uint16"` or `"u16"`. Other byte orders,
            and Python's own `float` and `int`, are refused. Values outside an integer type's range become the nearest
            value in range.
        lookahead_batches: depth of the queue of accepted samples, in batches. None means 8 on a GPU, which decodes
            chunks of several small batches together; on the host 2, and 8 from the first sample of a remote store on,
            which is asked for the objects of all batches in the queue.
        n_io_threads: reader threads; on the host back end they also decode and place what they read.
        n_compute_threads: workers in addition to these; 0 is none.
        n_zarrs_meta_cache: arrays whose metadata are cached; the least recently used is evicted first.
        n_shards_meta_cache: shard indices that are cached, likewise.
        max_chunk_uncompressed_bytes: hard limit on a decoded chunk; 0 allows any chunk that the buffers can hold.
        max_gpu_memory_bytes: hard cap on all device memory of the pipeline; 0 is none.
        max_bytes_per_element: largest source element accepted; 0 means 8.
        device: the device of batches: None (the current CUDA context, or the host if there is no GPU), a device number,
            `"cpu"`, `"cuda"` or `"cuda:N"`, or a device of torch, JAX or CuPy.
        n_batches: number of slots, that is, of batches that are held or in production.
        on_error: what happens to a sample that fails after it was accepted: `"raise"`, `"skip"` or `"fill"`.
        pop_timeout_s: timeout of one `pop`, in seconds; None is no timeout, 0 never waits.
        cache_bytes: memory for decoded chunks that are kept for later batches, with their index: an int of bytes, or
            text with a unit, such as `"2GiB"`; 0 keeps none. Only for batches on the host (`device="cpu"`).
        host_cache_bytes: page-locked host memory for encoded chunks, in the same forms. Only for batches on a GPU.
        host_cache: a `SharedCache`: memory for encoded chunks that several processes share, page-locked for batches on
            a GPU; None shares none. In place of `host_cache_bytes`.
        device_cache_bytes: GPU memory for encoded chunks that are kept for later batches, in the same forms. Their
            index is in host memory. Only for batches on a GPU.
        disk_cache: directory on a local disk in which encoded chunks, shard indices and documents of remote stores are
            kept, for all pipelines and processes that name it; None keeps none.
        disk_cache_bytes: what it may hold, at least 256 MiB, in the same forms; required with `disk_cache`.
        disk_cache_shared: whether other users of the directory's group may use it, too. They can read all that is kept.
        verify: how much of a chunk is decoded and checked: `"needed"`, the parts that samples need, or `"whole"`, every
            chunk to its end with all offsets, lengths and checksums, at the cost of reading and decoding more.
        thread_cores: where threads of the pipeline run: `"rank"`, on this rank's share of the cores if a launcher says
            which of several ranks of the host it is (`LOCAL_RANK` of `LOCAL_WORLD_SIZE`, or Slurm's), those nearest its
            GPU first; or `"all"`, on all cores of the process. Threads of the program are not moved.
        keep_bytes: memory for slots beyond `n_batches`, added while batches or their tensors are held: an int of bytes,
            or text with a unit, such as `"2GiB"`. If it is 0 or used up, `pop` raises `TryAgain`, reason `held`. None
            means 0 in `Pipeline`. In `damacy.training.Loader`, and so in `damacy.torch`, `damacy.lightning` and
            `damacy.jax`, None means the larger of 2 GiB and 8 batches, but at most a quarter of the host's free memory
            or an eighth of the GPU's. Slots never exceed `max_gpu_memory_bytes`.
        arrays: what is wanted of each array of a sample: a mapping from name to `ArraySpec`, and every sample has
            exactly these names; an `ArraySpec` for samples of one array without a name; or None, and the first sample
            says the names.
    """

    class _Unset(int):
        """A default that the caller did not set. Equals the number, and stays known as a default in copies and pickles,
        which find it by a public name."""

        __module__ = "damacy"

    batch_size: int
    host_buffer_bytes: int = _Unset(1 << 30)
    device_buffer_bytes: int = _Unset(4 << 30)
    dtype: Dtype = Dtype.F32
    lookahead_batches: int | None = None
    n_io_threads: int = _Unset(4)
    n_compute_threads: int = _Unset(0)
    n_zarrs_meta_cache: int = 64
    n_shards_meta_cache: int = 256
    max_chunk_uncompressed_bytes: int = 0
    max_gpu_memory_bytes: int = 0
    max_bytes_per_element: int = 0
    device: int | str | None = None
    n_batches: int = _Unset(2)
    on_error: OnError = "raise"
    pop_timeout_s: float | None = None
    cache_bytes: int = 0
    host_cache_bytes: int = 0
    host_cache: SharedCache | None = None
    device_cache_bytes: int = 0
    disk_cache: str | None = None
    disk_cache_bytes: int = 0
    disk_cache_shared: bool = False
    verify: Verify = "needed"
    thread_cores: ThreadCores = "rank"
    keep_bytes: int | None = None
    arrays: Mapping[str, ArraySpec] | None = None

    # The fields have the stored types; the parameters accept more, and have the same defaults.
    def __init__(
        self,
        *,
        batch_size: int,
        host_buffer_bytes: int = _Unset(1 << 30),
        device_buffer_bytes: int = _Unset(4 << 30),
        dtype: DtypeLike = Dtype.F32,
        lookahead_batches: int | None = None,
        n_io_threads: int = _Unset(4),
        n_compute_threads: int = _Unset(0),
        n_zarrs_meta_cache: int = 64,
        n_shards_meta_cache: int = 256,
        max_chunk_uncompressed_bytes: int = 0,
        max_gpu_memory_bytes: int = 0,
        max_bytes_per_element: int = 0,
        device: Device = None,
        n_batches: int = _Unset(2),
        on_error: OnError = "raise",
        pop_timeout_s: float | None = None,
        cache_bytes: int | str = 0,
        host_cache_bytes: int | str = 0,
        host_cache: SharedCache | None = None,
        device_cache_bytes: int | str = 0,
        disk_cache: str | os.PathLike[str] | None = None,
        disk_cache_bytes: int | str = 0,
        disk_cache_shared: bool = False,
        verify: Verify = "needed",
        thread_cores: ThreadCores = "rank",
        keep_bytes: int | str | None = None,
        arrays: Mapping[str, ArraySpec] | ArraySpec | None = None,
    ) -> None:
        for name, value in list(locals().items()):
            if name != "self":
                self._keep(name, value)
        self._check()

    @classmethod
    def for_this_machine(cls, batch_size: int, **fields: Any) -> Config:
        """A configuration whose threads, buffers and slots are chosen for this machine, unless `fields` set them.

        Counts the cores and the free memory that this process may use, divided among the ranks on this host
        (`LOCAL_WORLD_SIZE`, or Slurm's tasks per node). Queries the driver for a GPU, unless `device="cpu"`.
        `damacy doctor` prints what it would choose, and why.

        >>> Config.for_this_machine(8, device="cpu", n_io_threads=3).n_io_threads
        3
        """
        return cls(batch_size=batch_size, **fields)._completed()

    def memory(
        self, extents: Sequence[int] | Mapping[str, Sequence[int]] | None = None, *, loader: bool = False
    ) -> MemoryPlan:
        """Every part of memory that a pipeline with these settings takes or may take on this machine, in bytes.

        `print` shows a table with sums. Nothing is allocated; the driver is asked whether there is a GPU, unless
        `device="cpu"`.

        Args:
            extents: the shape of one sample, in elements; of several arrays a mapping from name to shape. Without it,
                slots are not known.
            loader: as in a `damacy.training.Loader`, which chooses the fields that are not set, and `keep_bytes`.

        Raises:
            InvalidArgument: as `Pipeline` does for these settings.
            OutOfMemory: slots for such samples do not fit the machine or `max_gpu_memory_bytes`.

        >>> config = Config(batch_size=8, device="cpu", host_buffer_bytes=1 << 26, device_buffer_bytes=1 << 26)
        >>> {part.name: part.bytes for part in config.memory((64, 256, 256)).parts}  # doctest: +NORMALIZE_WHITESPACE
        {'staging': 67108864, 'scratch': 67108864, 'metadata': 16777216, 'slots': 268435456, 'added slots': 0}
        """
        from damacy import _native
        from damacy._core.machine import this_machine
        from damacy._pipeline.memory import memory_plan_from

        config = self._completed() if loader else self
        rows = None if extents is None else self._rows(extents if isinstance(extents, Mapping) else {"": extents})
        machine = dataclasses.asdict(this_machine(self.device))
        return memory_plan_from(_native.plan_memory(config._native_fields(), machine, rows, loader))

    def _rows(self, extents: Mapping[str, Sequence[int]]) -> list[tuple[int, int]]:
        """For each array the elements of a row and the number of their type."""
        specs = self.arrays or {}
        if specs and set(specs) != set(extents):
            raise ValueError(f"extents must have the names {', '.join(map(repr, specs))} (got {list(extents)!r})")
        rows = []
        for name, shape in extents.items():
            spec = specs.get(name)
            dtype = self.dtype if spec is None or spec.dtype is None else spec.dtype
            rows.append((min(math.prod(_extent(value) for value in shape), (1 << 63) - 1), int(dtype)))
        return rows

    def _native_fields(self) -> dict[str, Any]:
        """By name, as the native library takes them."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["dtype"] = int(self.dtype)
        fields["device"] = "" if self.device is None else str(self.device)
        shared = fields.pop("host_cache")
        fields["shared_cache"] = shared.name if shared else ""
        fields["shared_cache_bytes"] = shared.bytes if shared else 0
        fields["disk_cache"] = self.disk_cache or ""
        specs = () if self.arrays is None else self.arrays.items()
        fields["arrays"] = [(name, spec._native()) for name, spec in specs]
        return fields

    def _completed(self) -> Config:
        """The configuration with values of this machine in all fields that were not set."""
        unset = self._unset_fields()
        if not unset:
            return self
        from damacy._core.machine import this_machine
        from damacy._pipeline.machine_settings import choices

        found = choices(
            this_machine(self.device),
            chunk_bytes=self.max_chunk_uncompressed_bytes,
            max_gpu_bytes=self.max_gpu_memory_bytes,
        )
        values: dict[str, Any] = {name: found[name].value for name in unset}
        return dataclasses.replace(self, **values)

    def _unset_fields(self) -> tuple[str, ...]:
        """Names of the fields that a machine decides and that the caller did not set."""
        return tuple(
            field.name for field in dataclasses.fields(self) if isinstance(getattr(self, field.name), Config._Unset)
        )

    def _check(self) -> None:
        # The order of these lines is the order in which failures are reported.
        self._keep_int("batch_size", 1)
        if self.lookahead_batches is not None:
            self._keep_int("lookahead_batches", 2)
        self._keep_int("n_io_threads", 1)
        self._keep_int("n_compute_threads", 0)
        self._keep_buffers()
        self._keep_int("max_chunk_uncompressed_bytes", 0)
        self._keep("dtype", dtype_of(self.dtype))
        self._keep_int("n_zarrs_meta_cache", 1)
        self._keep_int("n_shards_meta_cache", 1)
        self._keep_int("max_gpu_memory_bytes", 0)
        self._keep_int("max_bytes_per_element", 0)
        self._keep("device", _device(device_of(self.device)))
        self._keep_int("n_batches", 1)
        self._keep("on_error", _one_of("on_error", self.on_error, _ON_ERROR))
        self._keep("pop_timeout_s", _timeout(self.pop_timeout_s))
        self._keep("cache_bytes", as_bytes(self.cache_bytes, "cache_bytes"))
        self._keep("host_cache_bytes", as_bytes(self.host_cache_bytes, "host_cache_bytes"))
        self._check_host_cache()
        self._keep("device_cache_bytes", as_bytes(self.device_cache_bytes, "device_cache_bytes"))
        self._keep_disk_cache()
        self._keep("verify", _one_of("verify", self.verify, _VERIFY))
        self._keep("thread_cores", _one_of("thread_cores", self.thread_cores, _THREAD_CORES))
        if self.keep_bytes is not None:
            self._keep("keep_bytes", as_bytes(self.keep_bytes, "keep_bytes"))
        self._keep("arrays", specs_of(self.arrays))
        for spec in (self.arrays or {}).values():
            if spec.dtype is None:
                spec.check_values(self.dtype)

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen

    def _keep_int(self, name: str, least: int) -> None:
        given = getattr(self, name)
        value = as_int(given, name)
        if value < least:
            raise ValueError(f"{name} must be >= {least} (got {shown(value)})")
        self._keep(name, given if isinstance(given, Config._Unset) else _below_2_63(name, value))

    def _check_host_cache(self) -> None:
        if self.host_cache is None:
            return
        if not isinstance(self.host_cache, SharedCache):
            raise TypeError(f"host_cache must be a SharedCache or None (got {type(self.host_cache).__name__})")
        if self.host_cache_bytes:
            raise ValueError(
                "host_cache and host_cache_bytes exclude each other: set one of them "
                f"(got {self.host_cache} and {self.host_cache_bytes})"
            )

    def _keep_disk_cache(self) -> None:
        size = as_bytes(self.disk_cache_bytes, "disk_cache_bytes")
        directory = self.disk_cache
        if directory is not None:
            directory = os.fspath(directory)
            if not isinstance(directory, str):
                raise TypeError(f"disk_cache must be a path as str or None (got {type(directory).__name__})")
            if not directory or "\0" in directory:
                raise ValueError(f"disk_cache must be the path of a directory (got {directory!r})")
            if size < _LEAST_DISK_CACHE:
                raise ValueError(f"disk_cache_bytes must be >= {_LEAST_DISK_CACHE} with disk_cache (got {size})")
        elif size:
            raise ValueError(f"disk_cache_bytes needs a directory in disk_cache (got {size})")
        self._keep("disk_cache", directory)
        self._keep("disk_cache_bytes", size)
        if not isinstance(self.disk_cache_shared, bool):
            raise TypeError(f"disk_cache_shared must be a bool (got {type(self.disk_cache_shared).__name__})")

    def _keep_buffers(self) -> None:
        host = as_int(self.host_buffer_bytes, "host_buffer_bytes")
        device = as_int(self.device_buffer_bytes, "device_buffer_bytes")
        if host <= 0 or device <= 0:
            raise ValueError(
                f"host_buffer_bytes and device_buffer_bytes must be > 0 (got {shown(host)} and {shown(device)})"
            )
        self._keep_int("host_buffer_bytes", 1)
        self._keep_int("device_buffer_bytes", 1)


def _extent(value: object) -> int:
    number = as_int(value, "extents")
    if number < 1:
        raise ValueError(f"extents must be >= 1 (got {shown(number)})")
    return number


def _below_2_63(name: str, value: int) -> int:
    if value >= 1 << 63:
        raise ValueError(f"{name} must be < 2**63 (got {shown(value)})")
    return value


def _device(value: object) -> int | str | None:
    if value is None:
        return None
    if isinstance(value, str):
        name = value.lower()
        if name in ("cpu", "cuda"):
            return name
        if numbered := re.fullmatch(r"cuda:([0-9]{1,19})", name):
            return _below_2_63("device", int(numbered[1]))
    else:
        number = as_int(value, "device")
        if number >= 0:
            return _below_2_63("device", number)
        value = number
    raise ValueError(f"device must be None, an int >= 0, 'cpu', 'cuda' or 'cuda:N' (got {_given(value)})")


def _given(value: object) -> str:
    return shown(value) if isinstance(value, int) else repr(value)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    for word in allowed:
        if isinstance(value, str) and value == word:
            return word
    *first, last = map(repr, allowed)
    raise ValueError(f"{name} must be {', '.join(first)} or {last} (got {value!r})")


def _timeout(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    raise ValueError(f"pop_timeout_s must be None or a finite number >= 0 (got {_given(value)})")
