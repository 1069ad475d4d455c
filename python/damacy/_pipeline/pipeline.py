"""`Pipeline`: samples in, batches out. Wraps the native pipeline, which does the work and is thread-safe; adds type
checks, iteration, the `LOCAL_RANK` warning and errors."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from damacy._core import log
from damacy._core.errors import DamacyError, TryAgain
from damacy._core.integers import as_int
from damacy._pipeline.batch import Batch, NamedBatch
from damacy._pipeline.config import Config
from damacy._pipeline.sample import Sample

if TYPE_CHECKING:
    from types import TracebackType

    from damacy._pipeline.explanation import Explanation
    from damacy._pipeline.stats import Stats

_LOOK_S = 0.005  # how late what another thread has read may be seen by an iteration


class Pipeline:
    """Reads, decodes and places boxes of chunked arrays into batches while you work on the previous batch.

    Push samples, pop batches, in the same order; `with` closes it. Any member may be called from any thread.
    """

    __slots__ = ("__weakref__", "_batch_type", "_config", "_native", "_stats_from")

    _keeps_batches = False  # of Config.keep_bytes None: True chooses a size, False takes 0

    def __init__(self, config: Config) -> None:
        if not isinstance(config, Config):
            raise TypeError(f"config must be a damacy.Config (got {type(config).__name__})")
        from damacy import _native
        from damacy._pipeline.stats import stats_from

        self._stats_from = stats_from  # a finalizer cannot import at exit
        self._config = config
        self._batch_type: type[Batch] | None = None  # once a sample was accepted
        with log.drained:
            self._native = _native.Pipeline(_native_settings(config) | {"keeps_batches": self._keeps_batches})
        _warn_of_other_rank(self)

    @property
    def config(self) -> Config:
        """The settings of the pipeline; also after `close`."""
        return self._config

    @property
    def device(self) -> int | str:
        """The device of batches: a CUDA device's index, or `"cpu"`."""
        name = self._native.device
        return int(name) if name.isdigit() else name

    @property
    def pending(self) -> bool:
        """True while a pushed source is not known to be exhausted; False after `close`."""
        return self._native.pending

    def push(self, samples: Iterable[Sample]) -> None:
        """Queue a source of samples. Later calls pull the samples that do not fit now.

        Raises the error of a bad sample that this call finds; samples before it are kept.
        """
        if isinstance(samples, Sample):
            raise TypeError("push takes an iterable of samples (got one Sample: write push([sample]))")
        if samples is None:  # native code does not accept None as an object
            raise TypeError("push takes an iterable of samples (got None)")
        with log.drained:
            self._native.push(samples)

    def pop(self) -> Batch:
        """Wait for the next complete batch and return it. `TryAgain` if there is none to wait for."""
        until = self._deadline()
        while True:
            self._await_due(until)
            batch = self._empty_batch()
            # A signal handler may run, and raise, at any call. There is no call between taking the batch and returning
            # it, so an exception leaves the batch either in the pipeline or with the caller.
            batch._native = self._native.due
            if batch._native is not None:
                return batch

    def _empty_batch(self) -> Batch:
        if self._batch_type is None and (is_named := self._native.is_named) is not None:
            self._batch_type = NamedBatch if is_named else Batch
        return (self._batch_type or Batch)._empty()

    def _deadline(self) -> float | None:
        timeout = self._config.pop_timeout_s
        return None if timeout is None else time.monotonic() + timeout

    def _await_due(self, until: float | None) -> None:
        with log.drained:
            self._native.await_due(until)

    def flush(self) -> None:
        """End the run after the queued samples. Samples that do not fill a batch come as one short batch."""
        with log.drained:
            self._native.flush()

    def close(self) -> None:
        """Stop all work, and free everything except memory that batches and tensors still use. Idempotent. `stats`,
        `explain` and `config` still work."""
        with log.drained_at_end:
            self._native.close()

    def batches(self, n: int) -> Iterator[Batch]:
        """Iterate over `n` batches. After an error, `next()` continues with the batch after it."""
        return _Batches(self, as_int(n, "n"))

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the batches of all pushed sources. When the sources are exhausted, it flushes, so that the
        remainder comes as one short batch, and ends. After another push it can be iterated again. After an error,
        `next()` continues with the batch after it.
        """
        return _AllBatches(self)

    def stats(self) -> Stats:
        """Exact counts and times since the start, or since `stats_reset`. After `close`: the last values; gauges then
        show what was in use at the time of closing."""
        return self._stats_from(self._native.stats())

    def explain(self) -> Explanation:
        """What limits the pipeline, its share of the measured ceiling, and the setting that would help; `print` it.

        Covers the time since the start, or since `stats_reset`: reset when batches arrive steadily, then call this.
        After `close`: the last values.
        """
        from damacy._pipeline.explanation import explanation_from

        return explanation_from(self._native.explain())

    def stats_reset(self) -> None:
        """Zero all counts except the gauges. `ShutdownError` after `close`."""
        self._native.stats_reset()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            where = f"on {self.device}"
        except DamacyError:
            where = "closed"
        return f"<damacy.Pipeline batch_size={self._config.batch_size} {self._config.dtype.name.lower()} {where}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Pipeline cannot be pickled or copied: make one from its Config where it is needed")


class KeepingPipeline(Pipeline):
    """A `Pipeline` for loops that may keep batches: with `keep_bytes=None`, free memory decides the size."""

    __slots__ = ()

    _keeps_batches = True


class _Batches(Iterator[Batch]):
    """Counts delivered and failed batches. Other errors of `pop` do not count."""

    def __init__(self, pipeline: Pipeline, n: int) -> None:
        self._pipeline = pipeline
        self._left = n

    def __next__(self) -> Batch:
        pipeline = self._pipeline
        until = pipeline._deadline()
        while self._left > 0:
            pipeline._await_due(until)
            batch = pipeline._empty_batch()
            if self._left <= 0:
                break
            # As in Pipeline.pop, there is no call from here on: no signal handler and no other thread can interfere.
            try:
                batch._native = pipeline._native.due
            except DamacyError as error:
                if error.batch_id is not None:
                    self._left -= 1
                raise
            if batch._native is not None:
                self._left -= 1
                return batch
        raise StopIteration


class _AllBatches(Iterator[Batch]):
    """Pops until no batch is left, flushes, and pops until no batch is left again."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __next__(self) -> Batch:
        batch = self._pop()
        while batch is None and self._pipeline.pending:  # another thread reads a source: its samples are not the last
            time.sleep(_LOOK_S)
            batch = self._pop()
        if batch is None:
            self._pipeline.flush()
            batch = self._pop()
        if batch is None:
            raise StopIteration
        return batch

    def _pop(self) -> Batch | None:
        """None if `pop` would wait for another push. It is still an error if all slots are held."""
        try:
            return self._pipeline.pop()
        except TryAgain as nothing:
            if nothing.reason != "empty":
                raise
            return None


def _native_settings(config: Config) -> dict[str, Any]:
    return config._native_fields()


_warned_ranks: set[tuple[int, int]] = set()


def _warn_of_other_rank(pipeline: Pipeline) -> None:
    """Warns once if this process, one of several on a machine, uses another device than its rank suggests."""
    if pipeline.config.device is not None or not isinstance(pipeline.device, int):
        return
    try:
        rank = int(os.environ.get("LOCAL_RANK", ""))
    except ValueError:
        return
    pair = (rank, pipeline.device)
    if rank == pipeline.device or pair in _warned_ranks:
        return
    _warned_ranks.add(pair)
    try:
        warnings.warn(
            f"LOCAL_RANK is {rank}, but the pipeline uses CUDA device {pipeline.device}, whose context is current; "
            "say device= in Config to choose another",
            UserWarning,
            stacklevel=3,
        )
    except Warning:  # warnings are errors here: the constructor fails, and its caller has nothing to close
        pipeline.close()
        raise
