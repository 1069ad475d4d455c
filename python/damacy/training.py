"""Batches for a training run: epochs, ranks, and a state of a few integers that resumes it exactly.

Divides the samples of a `damacy.samplers.Sampler` among steps and ranks. Uses no framework: `damacy.torch`,
`damacy.lightning` and `damacy.jax` use its batches::

    crops = damacy.samplers.RandomCrops(["a.zarr", "b.zarr"], (64, 128, 128), length=10_000, seed=1)
    with damacy.training.Loader(crops, damacy.Config(batch_size=8)) as loader:
        for epoch in range(10):
            for batch in loader:
                with batch as b:
                    step(torch.from_dlpack(b))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, cast, get_args

from damacy._core.errors import DamacyError
from damacy._core.integers import as_int
from damacy._pipeline.batch import Batch
from damacy._pipeline.config import Config
from damacy._pipeline.explanation import Explanation
from damacy._pipeline.pipeline import KeepingPipeline, Pipeline
from damacy._pipeline.ranks import rank_and_ranks
from damacy._pipeline.sample import Sample
from damacy._pipeline.stats import Stats
from damacy._training.chunk_order import Shards
from damacy._training.schedule import Schedule
from damacy.samplers import Sampler
from damacy.typing import ShardBy as ShardBy
from damacy.typing import Tail as Tail

_Position = tuple[int, int, Shards | None, int]  # epoch, samples, shards and passes of a `Loader`


class Loader:
    """Iterate over it once per epoch. It reads ahead, also across the end of an epoch.

    A step takes `ranks * config.batch_size` samples of the epoch, in order; this rank gets the `rank`-th part of them.
    All ranks make the same number of steps. `rank="auto", ranks="auto"`: those of this process, as
    `damacy.torch.rank_and_ranks` finds them at the first batch or `len`.

    `tail` says what happens to the samples at an epoch's end that do not fill a whole step: `"drop"` leaves them out;
    `"wrap"` fills the step up from the epoch's beginning; `"pad"` does so too and sets `Batch.valid` to False for these
    rows, so that each sample counts once; `"short"`, on one rank only, makes the last batch short.

    With `shard_by="chunk"` ranks read disjoint chunks as far as boxes allow, in every epoch nearly the same ones. So
    the caches of all ranks together hold more. Every sample of an epoch is still delivered exactly once, in another
    order: a step takes `batch_size` samples of each rank's chunks. Chunks are those of the first array of a sample.
    The samples of the last step, which `tail` is about, are not divided by chunks. Each rank draws all samples of an
    epoch, in portions of about 262,144, to see where they lie, and opens at most `ranks - 1` arrays a portion.

    Threads, buffers and slots that `config` leaves at their defaults are chosen for the machine, as in
    `Config.for_this_machine`.

    Batches, and tensors made from them, may be kept, up to `config.keep_bytes`. The loader keeps no reference to them.

    Every `for` begins an epoch: after a whole one the next epoch, after `break` or `next(iter(loader))` the same one
    again. After `load_state_dict` it begins at the position of the state. An error of a batch (`on_error="raise"`) ends
    the `for`; the next one continues after that batch. After Ctrl-C or an error of the sampler while the loader makes a
    batch, the next one continues after the last batch that the loop got. A loader has one position: an older iterator
    raises `RuntimeError` when a newer one has begun.

    With `restart=True` every `for` gives the same epoch, also after a whole one: for validation. `set_epoch` chooses
    another one. Training loops do not need it.

    `transform` is called in order, on the consumer's thread, with the value that the loop would get: a `Batch` here, a
    tensor in `damacy.torch`, an array in `damacy.jax`, a pair with `info=True`. The loop gets its result.
    """

    def __init__(
        self,
        sampler: Sampler,
        config: Config,
        *,
        rank: int | Literal["auto"] = 0,
        ranks: int | Literal["auto"] = 1,
        tail: Tail = "drop",
        shard_by: ShardBy = "order",
        restart: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if not hasattr(sampler, "sample"):
            advice = ": say Indexed(samples, range(len(samples)))" if isinstance(sampler, (list, tuple)) else ""
            raise TypeError(
                f"sampler must have sample(epoch, index), a length and a seed (got {type(sampler).__name__}){advice}"
            )
        if not isinstance(config, Config):
            raise TypeError(f"config must be a Config (got {type(config).__name__})")
        self._sampler = sampler
        self._config = config
        self._is_auto = _is_auto(rank, ranks)
        if tail not in get_args(Tail):
            raise ValueError(f"tail must be 'drop', 'wrap', 'pad' or 'short' (got {tail!r})")
        if shard_by not in get_args(ShardBy):
            raise ValueError(f"shard_by must be 'order' or 'chunk' (got {shard_by!r})")
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be callable (got {type(transform).__name__})")
        if config.arrays is not None and callable(check_pads := getattr(sampler, "_check_pads", None)):
            check_pads(config.arrays)
        self._tail: Tail = tail
        self._shard_by: ShardBy = shard_by
        self._restart = bool(restart)
        self._transform = transform
        self._epoch = self._samples = 0
        self._begin = 0  # `_samples` where the next `for` begins
        self._iterations = 0  # number of the current `for`
        self._passes = 0  # number of epochs that reached their end
        self._back_to: _Position | None = None  # before a step that was cut short
        self._delivered = 0  # batches of the pipeline with smaller ids were delivered or skipped
        self._pipeline: Pipeline | None = None
        self._closed: Pipeline | None = None  # the last closed pipeline, for its statistics
        self._refused: DamacyError | None = None  # an error of the pipeline's push
        self._early: Batch | None = None  # a batch of the next pass, popped because the last ones of this were skipped
        self._shards: Shards | None = None  # of the epoch, if other ranks began it
        self._schedule: Schedule | None = None  # until the ranks are known
        if not self._is_auto:
            self._set_ranks(as_int(rank, "rank"), as_int(ranks, "ranks"))

    def __repr__(self) -> str:
        schedule = self._schedule
        share = f"rank {schedule.rank} of {schedule.ranks}" if schedule else "ranks not looked up yet"
        if self._shard_by != "order":
            share += f", shard_by={self._shard_by!r}"
        return (
            f"<damacy.training.Loader of {self._sampler!r}: batch_size={self._config.batch_size}, {share}, "
            f"tail={self._tail!r}, at sample {self._samples} of epoch {self._epoch}>"
        )

    @property
    def config(self) -> Config:
        """The config that was passed. Defaults that depend on the machine are chosen when reading begins."""
        return self._config

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        self._undo_step()
        return self._epoch

    @property
    def rank(self) -> int:
        """The rank of this loader among `ranks`; looks up `"auto"`."""
        return self._known_schedule().rank

    @property
    def ranks(self) -> int:
        """The number of loaders that read a step together; looks up `"auto"`."""
        return self._known_schedule().ranks

    def __len__(self) -> int:
        """The number of steps of a whole epoch, the same on every rank."""
        return self._known_schedule().steps_left(0)

    def __iter__(self) -> Iterator[Any]:
        """The batches of the current epoch; after `load_state_dict`, or an exception of a batch, the remaining ones."""
        return self._given_as(None)

    def set_epoch(self, epoch: int) -> None:
        """The next `for` begins that epoch. No effect if it is the current one: a loaded state is continued.

        Not needed if epochs follow one another: the loader counts them.
        """
        self._undo_step()
        number = as_int(epoch, "epoch")
        if number < 0:
            raise ValueError(f"epoch must be >= 0 (got {number})")
        if number != self._epoch:
            self._go_to(number)

    def state_dict(self) -> dict[str, int]:
        """The position in the run: after the last batch that the loop got. It is the same on every rank, and, unless
        samples are divided by chunks, for any number of ranks."""
        self._undo_step()
        state = {
            "epoch": self._epoch,
            "samples": self._samples,
            "seed": self._sampler.seed,
            "length": len(self._sampler),
        }
        if (shards := self._current_shards()) is not None and shards.ranks > 1:
            state |= {"shard_ranks": shards.ranks, "shard_batch_size": shards.batch_size}
        streams = {"stream": _stream_of(self._sampler), "split_stream": _split_stream_of(self._sampler)}
        return state | {name: stream for name, stream in streams.items() if stream != 1}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue at the position of a state. The number of ranks and the batch size may have changed.

        An epoch that was divided by chunks stays divided as it was begun: each of its samples is delivered once.

        Raises `ValueError` if the state is of a sampler with another seed, length or random stream, or not a loader's.
        """
        lacking = [name for name in ("epoch", "samples", "seed", "length") if name not in state]
        if lacking:
            raise ValueError(f"the state has no {', '.join(map(repr, lacking))}: give what Loader.state_dict returned")
        of, own = state.get("stream", 1), _stream_of(self._sampler)
        if of != own:
            raise ValueError(f"the state is of random stream {of}, this sampler has {own}: make it with stream={of}")
        of, own = state.get("split_stream", 1), _split_stream_of(self._sampler)
        if of != own:
            raise ValueError(
                f"the state is of a split of random stream {of}, this sampler's is of {own}: "
                f"say split(..., stream={of})"
            )
        for name, now in (("seed", self._sampler.seed), ("length", len(self._sampler))):
            if state[name] != now:
                raise ValueError(f"the state is of a sampler with {name} {state[name]}, this one has {now}")
        shards = Shards(*(as_int(state.get(name, 1), name) for name in ("shard_ranks", "shard_batch_size")))
        if shards.ranks < 1 or shards.batch_size < 1:
            raise ValueError(f"the state has {shards}: both must be >= 1")
        self._undo_step()
        self.close()
        self._epoch, self._samples = as_int(state["epoch"], "epoch"), as_int(state["samples"], "samples")
        self._begin = self._samples
        self._shards = shards if self._samples else None
        if self._schedule is not None:
            self._leave_epoch_at_its_end()

    def explain(self) -> Explanation:
        """As `Pipeline.explain`: what limits reading now, or limited it before `close`. `RuntimeError` before the first
        batch."""
        return self._reader().explain()

    def stats(self) -> Stats:
        """As `Pipeline.stats`, since reading began; also after `close`. `RuntimeError` before the first batch."""
        return self._reader().stats()

    def close(self) -> None:
        """Stop reading. Batches and tensors stay valid, and the loader can be iterated over again."""
        self._early = None
        if self._pipeline is not None:
            self._pipeline.close()
            self._closed, self._pipeline = self._pipeline, None

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        self._undo_step()
        there = {
            "_pipeline": None,
            "_closed": None,
            "_refused": None,
            "_early": None,
            "_back_to": None,
            "_shards": self._current_shards(),
        }
        return self.__dict__ | (there | {"_schedule": None} if self._is_auto else there)

    def _reader(self) -> Pipeline:
        pipeline = self._pipeline or self._closed
        if pipeline is None:
            raise RuntimeError("nothing was read yet: call this after the first batch")
        return pipeline

    def _current_shards(self) -> Shards | None:
        """How the epoch is divided that was begun, if one was."""
        if self._samples == 0:
            return None
        return self._shards or self._known_schedule().shards

    def _set_ranks(self, rank: int, ranks: int) -> None:
        if not 0 <= rank < ranks:
            raise ValueError(f"rank must be >= 0 and below ranks (got {rank} of {ranks})")
        if ranks > 1 and self._config.on_error == "skip":
            raise ValueError("on_error='skip' would give ranks unequal batches: choose 'raise' or 'fill'")
        if ranks > 1 and self._tail == "short":
            raise ValueError("tail='short' would give ranks unequal steps: choose 'pad'")
        schedule = Schedule(self._sampler, self._config.batch_size, rank, ranks, self._tail, self._shard_by)
        if schedule.steps_left(0) == 0:
            raise ValueError(
                f"an epoch of {len(self._sampler)} samples has no whole step of {schedule.step_samples}: "
                f"reduce batch_size, or say tail={'short' if ranks == 1 else 'pad'!r}"
            )
        self._shards = self._current_shards()
        self._schedule = schedule
        self._leave_epoch_at_its_end()

    def _take_ranks(self, rank: int, ranks: int) -> None:
        """Take a trainer's rank and ranks. A loader with ranks of its own must have the same ones."""
        if self._is_auto:
            if self._schedule is None or (self.rank, self.ranks) != (rank, ranks):
                self.close()
                self._set_ranks(rank, ranks)
            return
        help_text = "give DataModule a sampler, or Loader(ranks='auto')"
        if self.ranks != ranks:
            own = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
            raise ValueError(f"the loader is of {own}, the trainer has {ranks}: {help_text}")
        if self.rank != rank:
            raise ValueError(f"the loader is of rank {self.rank}, the trainer's is {rank}: {help_text}")

    def _known_schedule(self) -> Schedule:
        if self._schedule is None:
            self._set_ranks(*rank_and_ranks())
        assert self._schedule is not None
        return self._schedule

    def _given_as(self, form: Callable[[Batch], Any] | None) -> Iterator[Any]:
        """As `__iter__`, with batches in the form of a framework, which is also the argument of `transform`."""
        transform = self._transform
        if form is None or transform is None:
            return _Pass(self, form or transform)
        return _Pass(self, lambda batch: transform(form(batch)))

    def _undo_step(self) -> None:
        """Returns to the position before a step that was cut short, for example by `KeyboardInterrupt`. What was read
        ahead is dropped: the exception may have ended the pipeline's source."""
        if self._back_to is None:
            return
        self.close()
        self._epoch, self._samples, self._shards, self._passes = self._back_to
        self._begin = self._samples  # the next iteration continues here
        self._back_to = None

    def _begin_pass(self) -> None:
        self._known_schedule()
        if self._samples != self._begin:
            self.close()
            self._samples = self._begin
            self._shards = self._shards if self._begin else None
        self._iterations += 1

    @property
    def _steps_done(self) -> int:
        """In the current epoch."""
        return self._samples // self._known_schedule().step_samples

    @property
    def _is_resumed(self) -> bool:
        """Whether the next `for` continues an epoch."""
        return self._samples == self._begin > 0

    def _go_to(self, epoch: int) -> None:
        """The next `for` begins that epoch at its start."""
        self.close()
        self._epoch, self._samples, self._begin, self._shards = epoch, 0, 0, None

    def _set_restart(self, restart: bool) -> None:
        if restart != self._restart:
            self.close()  # it reads ahead into the other epoch
            self._restart = restart

    def _next(self) -> Batch | None:
        """None if the epoch ended without another batch."""
        passes, batch = self._passes, self._early
        if batch is None:
            batch = self._pop()
        self._early = None
        batch_id, schedule = batch._native.batch_id, self._known_schedule()
        self._advance_to(batch_id)
        if self._passes != passes:
            self._early = batch
            return None
        if self._tail == "pad" and (own := schedule.own_rows(self._samples)) < schedule.batch_size:
            batch._padded_from = batch_id * schedule.batch_size + own  # all batches are whole
        self._advance_to(batch_id + 1)
        return batch

    def _pop(self) -> Batch:
        pipeline = self._pipeline or self._start()
        try:
            return pipeline.pop()
        except DamacyError as error:
            if error.batch_id is not None:
                self._advance_to(error.batch_id + 1)
            elif error.what == "push":  # it ended the source: no sample follows
                self.close()
            elif error.reason == "empty" and self._refused is not None:
                refused, self._refused = self._refused, None
                self.close()
                raise refused from None
            raise

    def _start(self) -> Pipeline:
        self._pipeline = KeepingPipeline(self._config._completed())
        self._delivered = 0
        self._refused = None
        try:
            schedule = self._known_schedule()
            shards = self._current_shards() or schedule.shards
            samples = schedule.stream(self._epoch, self._samples, shards, repeat=self._restart)
            self._pipeline.push(cast("Iterator[Sample]", samples))  # some of them end their batch
        except DamacyError as error:
            self._refused = error  # raised after the batches before it
        return self._pipeline

    def _advance_to(self, batch_id: int) -> None:
        for _ in range(batch_id - self._delivered):  # more than one if a whole batch was skipped
            self._samples += self._known_schedule().step_samples
            self._leave_epoch_at_its_end()
        self._delivered = max(self._delivered, batch_id)

    def _leave_epoch_at_its_end(self) -> None:
        """Also valid if steps are larger than before."""
        if self._known_schedule().steps_left(self._samples) == 0:
            self._samples, self._begin, self._shards = 0, 0, None
            self._passes += 1
            if not self._restart:
                self._epoch += 1


class _Pass(Iterator[Any]):
    """One `for` over a loader. Keeps no reference to its batches; an error ends it, like a generator."""

    def __init__(self, loader: Loader, form: Callable[[Batch], Any] | None) -> None:
        self._loader = loader
        self._form = form
        self._place: tuple[int, int] | None = None
        self._number = 0  # of the iteration
        self._ended = False

    def __next__(self) -> Any:
        loader = self._loader
        if self._ended:
            raise StopIteration
        if self._place is not None and self._number != loader._iterations:
            raise RuntimeError(
                "another iteration of the loader has begun, and a loader has one position: to read something else "
                "meanwhile, make a second Loader"
            )
        self._ended = True  # unless a batch follows
        batch = None
        before = loader._back_to
        if before is None and self._place is not None:  # without a call, outside of `try`
            before = loader._epoch, loader._samples, loader._shards, loader._passes
        try:
            loader._undo_step()
            if self._place is None:
                loader._begin_pass()
                self._place, self._number = (loader._epoch, loader._passes), loader._iterations
            before = loader._epoch, loader._samples, loader._shards, loader._passes
            if (loader._epoch, loader._passes) == self._place:
                batch = loader._next()
            # Without a form there is no call, in which a signal handler could lose the batch that was taken.
            given = batch if batch is None or self._form is None else self._form(batch)
        except BaseException as error:
            loader._back_to = before  # first of all: a signal handler may raise in any call
            if isinstance(error, Exception) and (batch is not None or isinstance(error, DamacyError)):
                loader._back_to = None
                loader._begin = loader._samples  # the next iteration continues here
            raise
        if batch is None:
            raise StopIteration
        # There is no call from here on, so no signal handler runs: the step ends as the loop gets its batch.
        self._ended = False
        return given


def _is_auto(rank: int | Literal["auto"], ranks: int | Literal["auto"]) -> bool:
    """True if rank and ranks must be looked up."""
    for name, value in (("rank", rank), ("ranks", ranks)):
        if isinstance(value, str) and value != "auto":
            raise ValueError(f"{name} must be an integer or 'auto' (got {value!r})")
    if not isinstance(rank, str) and not isinstance(ranks, str):
        return False
    if (rank, ranks) not in (("auto", "auto"), ("auto", 1), (0, "auto")):
        raise ValueError(f"rank and ranks must both be integers, or both 'auto' (got {rank!r} and {ranks!r})")
    return True


def _stream_of(sampler: Sampler) -> int:
    """The sampler's random stream; 1 for samplers without streams."""
    return getattr(sampler, "stream", 1)


def _split_stream_of(sampler: Sampler) -> int:
    """The random stream of the split whose side the sampler draws from; 1 without a split."""
    return getattr(sampler, "_split_stream", 1)
