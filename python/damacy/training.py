"""Batches for a training run: epochs, ranks, and a state of a few integers that resumes it exactly.

Knows which samples of a `damacy.samplers.Sampler` each step and rank gets. Knows no framework: `damacy.torch`,
`damacy.lightning` and `damacy.jax` hand its batches on::

    crops = damacy.samplers.RandomCrops(["a.zarr", "b.zarr"], (64, 128, 128), length=10_000, seed=1)
    with damacy.training.Loader(crops, damacy.Config(batch_size=8)) as loader:
        for epoch in range(10):
            for batch in loader:
                with batch as b:
                    step(torch.from_dlpack(b))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Literal

from damacy._batch import Batch
from damacy._config import Config
from damacy._errors import DamacyError
from damacy._integers import as_int
from damacy._machine_settings import completed
from damacy._pipeline import Pipeline
from damacy._sample import Sample
from damacy.samplers import Sampler

Tail = Literal["drop", "wrap"]


class Loader:
    """Iterate it once an epoch; reading goes on ahead, also across the border of epochs.

    A step takes `ranks * config.batch_size` samples of the epoch, in order; this rank gets the `rank`-th part of them.
    All ranks make the same number of steps, whole batches all: what is left at an epoch's end is dropped, or, with
    `tail="wrap"`, filled up from the epoch's beginning.

    Threads, buffers and slots that `config` leaves at their defaults follow from the machine, as in
    `Config.for_this_machine`.

    After `break` the next `for` goes on in the same epoch. An error of a batch (`on_error="raise"`) leaves the `for`;
    the next one goes on behind that batch.
    """

    def __init__(self, sampler: Sampler, config: Config, *, rank: int = 0, ranks: int = 1, tail: Tail = "drop") -> None:
        if not hasattr(sampler, "sample"):
            raise TypeError(
                f"sampler must have sample(epoch, index), a length and a seed (got {type(sampler).__name__})"
            )
        if not isinstance(config, Config):
            raise TypeError(f"config must be a Config (got {type(config).__name__})")
        self._sampler = sampler
        self._config = config
        self._rank, self._ranks = as_int(rank, "rank"), as_int(ranks, "ranks")
        if not 0 <= self._rank < self._ranks:
            raise ValueError(f"rank must be >= 0 and below ranks (got {rank} of {ranks})")
        if tail not in ("drop", "wrap"):
            raise ValueError(f"tail must be 'drop' or 'wrap' (got {tail!r})")
        if self._ranks > 1 and config.on_error == "skip":
            raise ValueError("on_error='skip' would give ranks unequal batches: choose 'raise' or 'fill'")
        self._tail = tail
        self._step_samples = self._ranks * config.batch_size
        self._epoch = self._samples = 0
        self._delivered = 0  # batch ids of the pipeline below this one have had their turn
        self._pipeline: Pipeline | None = None
        self._refused: DamacyError | None = None  # by the pipeline's push
        if len(self) == 0:
            raise ValueError(f"an epoch of {len(sampler)} samples has no whole step of {self._step_samples}")

    @property
    def config(self) -> Config:
        """As it was given; what it leaves open is chosen when reading begins."""
        return self._config

    @property
    def epoch(self) -> int:
        """Of the next batch, from 0."""
        return self._epoch

    def __len__(self) -> int:
        """Steps of a whole epoch, alike on every rank."""
        return self._steps_left(0)

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the current epoch."""
        epoch = self._epoch
        while self._epoch == epoch:
            yield self._next()

    def state_dict(self) -> dict[str, int]:
        """Where the run is: behind the last batch that the loop was given. The same on every rank, for any number of
        ranks."""
        state = {
            "epoch": self._epoch,
            "samples": self._samples,
            "seed": self._sampler.seed,
            "length": len(self._sampler),
        }
        stream = _stream_of(self._sampler)
        return state if stream == 1 else state | {"stream": stream}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where the state says; the number of ranks and the batch size may be others than they were.

        `ValueError` if the state is of a sampler with another seed, length or random stream.
        """
        of, own = state.get("stream", 1), _stream_of(self._sampler)
        if of != own:
            raise ValueError(f"the state is of random stream {of}, this sampler has {own}: make it with stream={of}")
        for name, now in (("seed", self._sampler.seed), ("length", len(self._sampler))):
            if state[name] != now:
                raise ValueError(f"the state is of a sampler with {name} {state[name]}, this one has {now}")
        self.close()
        self._epoch, self._samples = as_int(state["epoch"], "epoch"), as_int(state["samples"], "samples")
        if self._steps_left(self._samples) == 0:  # with larger steps than those that were made
            self._epoch, self._samples = self._epoch + 1, 0

    def close(self) -> None:
        """Stop reading. Batches and tensors stay valid; iterating starts again where it was."""
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_pipeline": None, "_refused": None}

    def _next(self) -> Batch:
        pipeline = self._pipeline or self._start()
        try:
            batch = pipeline.pop()
        except DamacyError as error:
            if error.batch_id is not None:
                self._advance_behind(error.batch_id)
            elif error.what == "push":  # ended the source: there is nothing behind it
                self.close()
            elif error.reason == "empty" and self._refused is not None:
                refused, self._refused = self._refused, None
                self.close()
                raise refused from None
            raise
        self._advance_behind(batch.info.batch_id)
        return batch

    def _start(self) -> Pipeline:
        self._pipeline = Pipeline(completed(self._config))
        self._delivered = 0
        self._refused = None
        try:
            self._pipeline.push(self._source())
        except DamacyError as error:
            self._refused = error  # its turn comes behind the batches before it
        return self._pipeline

    def _advance_behind(self, batch_id: int) -> None:
        for _ in range(batch_id + 1 - self._delivered):  # more than one where a whole batch was skipped
            self._samples += self._step_samples
            if self._steps_left(self._samples) == 0:
                self._epoch, self._samples = self._epoch + 1, 0
        self._delivered = batch_id + 1

    def _source(self) -> Iterator[Sample]:
        """This rank's samples, from here on and for ever."""
        epoch, start = self._epoch, self._samples
        while True:
            for step in range(self._steps_left(start)):
                first = start + step * self._step_samples + self._rank * self._config.batch_size
                for index in range(first, first + self._config.batch_size):
                    yield self._sampler.sample(epoch, index % len(self._sampler))
            epoch, start = epoch + 1, 0

    def _steps_left(self, samples: int) -> int:
        left = max(0, len(self._sampler) - samples)
        return left // self._step_samples if self._tail == "drop" else -(-left // self._step_samples)


def _stream_of(sampler: Sampler) -> int:
    """1 for samplers that know of no other."""
    return getattr(sampler, "stream", 1)
