"""Training with Lightning: loaders as a data module that checkpoints remember. Needs the extra `lightning`.

Knows Lightning's hooks and `damacy.torch.IterableDataset`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

try:
    import lightning
except ModuleNotFoundError as missing:
    message = f"damacy.lightning needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy._core.log import logger
from damacy._pipeline.config import Config
from damacy._pipeline.ranks import rank_and_ranks
from damacy.samplers import Sampler
from damacy.torch import IterableDataset
from damacy.training import Loader


class DataModule(lightning.LightningDataModule):
    """Loaders for the stages of a `Trainer`. The position of `train` is in every checkpoint.

    Pass samplers, and the `Config` for their batches. `setup` creates a loader for each, with the trainer's rank and
    number of ranks, or, where some ranks of the strategy get the same batches (tensor parallel), those of its
    `distributed_sampler_kwargs`. `train` drops the last samples if they do not fill a whole step. The other stages
    deliver every sample: on one rank their last batch may be short; on several it is filled up with rows whose
    `BatchRows.valid` is False (see `info`).

    Or pass a `Loader` for a stage. Its ranks must be the trainer's; `Loader(ranks="auto")` takes them over.

    Each epoch of the trainer begins an epoch of `train`, also with `limit_train_batches`. With `overfit_batches` it is
    the same one. Every validation, test and prediction starts the same epoch again, so that the sanity check,
    `limit_val_batches` and repeated validation see the same samples. With `info=True` batches are pairs of a tensor and
    a `damacy.BatchRows`.
    """

    def __init__(
        self,
        train: Loader | Sampler | None = None,
        validation: Loader | Sampler | None = None,
        test: Loader | Sampler | None = None,
        predict: Loader | Sampler | None = None,
        *,
        config: Config | None = None,
        info: bool = False,
    ) -> None:
        super().__init__()
        given = {"train": train, "validation": validation, "test": test, "predict": predict}
        self._given = {stage: source for stage, source in given.items() if source is not None}
        for stage, source in self._given.items():
            if not isinstance(source, Loader) and not hasattr(source, "sample"):
                raise TypeError(f"{stage} must be a Loader or a sampler (got {type(source).__name__})")
            if not isinstance(source, Loader) and config is None:
                raise TypeError(f"{stage} is a sampler: say config=, for the batches of its loader")
        self._config = config
        self._info = bool(info)
        self._datasets: dict[str, IterableDataset] = {}
        self._state: Mapping[str, int] | None = None  # the state of train, until it has a loader

    def setup(self, stage: str) -> None:
        """Creates loaders for samplers, and compares the ranks of given loaders with the trainer's.

        Raises `ValueError` if they differ.
        """
        place = rank_and_ranks() if self.trainer is None else _place(self.trainer)
        for name, source in self._given.items():
            known = self._datasets.get(name)
            if known is None or (known.loader.rank, known.loader.ranks) != place:
                loader = self._loader(name, source, *place)
                kind = _Training if name == "train" else IterableDataset
                self._datasets[name] = kind(loader, info=self._info)
        if (training := self._datasets.get("train")) is not None:
            assert isinstance(training, _Training)
            training.follow(self.trainer)
        if self._state is not None:
            self.load_state_dict({"train": self._state})

    def train_dataloader(self) -> Any:
        return self._dataset("train")

    def val_dataloader(self) -> Any:
        return self._dataset("validation")

    def test_dataloader(self) -> Any:
        return self._dataset("test")

    def predict_dataloader(self) -> Any:
        return self._dataset("predict")

    def state_dict(self) -> dict[str, dict[str, int]]:
        """The state of `train`, as from `Loader.state_dict`, under the key `"train"`."""
        if "train" in self._datasets:
            return {"train": self._datasets["train"].state_dict()}
        return {} if self._state is None else {"train": dict(self._state)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As `Loader.load_state_dict`, for `train`. Ignores states of other stages, which older versions wrote."""
        if "train" not in state_dict or "train" not in self._given:
            return
        self._state = state_dict["train"]
        if "train" in self._datasets:
            self._datasets["train"].load_state_dict(state_dict["train"])
            self._state = None

    def teardown(self, stage: str) -> None:
        for dataset in self._datasets.values():
            dataset.loader.close()

    def _dataset(self, stage: str) -> Any:
        if stage not in self._given:
            return []
        if stage not in self._datasets:  # without a trainer
            self.setup(stage)
        return self._datasets[stage]

    def _loader(self, stage: str, source: Loader | Sampler, rank: int, ranks: int) -> Loader:
        if isinstance(source, Loader):
            source._take_ranks(rank, ranks)
            source._set_restart(stage != "train")
            return source
        assert self._config is not None
        if stage == "train":
            return Loader(source, self._config, rank=rank, ranks=ranks)
        if ranks > 1 and not self._info:
            logger().info(
                "%s: the last step of %d ranks may have rows that were seen before: with DataModule(info=True) "
                "BatchRows.valid is False for them",
                stage,
                ranks,
            )
        return Loader(source, self._config, rank=rank, ranks=ranks, tail="short" if ranks == 1 else "pad", restart=True)


class _Training(IterableDataset):
    """The batches of `train`. Follows the epochs of a trainer, which may be shorter than those of the loader."""

    _trainer: Any = None
    _last: int | None = None  # the trainer's epoch of the last iteration

    def follow(self, trainer: Any) -> None:
        """The trainer whose epochs are followed; None for none."""
        self._trainer = trainer
        self.loader._set_restart(self._is_overfitting)

    def __iter__(self) -> Iterator[Any]:
        batches = super().__iter__()
        self._begin_epoch()
        yield from batches

    @property
    def _is_overfitting(self) -> bool:
        return bool(getattr(self._trainer, "overfit_batches", 0))

    def _begin_epoch(self) -> None:
        """Leave an epoch of the loader that the trainer has ended early."""
        fit_loop = getattr(self._trainer, "fit_loop", None)
        if fit_loop is None:
            return
        loader, epoch = self.loader, fit_loop.epoch_progress.current.processed
        if loader._is_resumed:
            is_over = loader._steps_done >= fit_loop.max_batches
        else:
            is_over = loader._steps_done > 0 and self._last not in (None, epoch)
        if is_over:
            loader._go_to(loader.epoch if self._is_overfitting else loader.epoch + 1)
        self._last = epoch


def _place(trainer: Any) -> tuple[int, int]:
    """The rank and the number of ranks that read different samples."""
    given = getattr(trainer, "distributed_sampler_kwargs", None)
    return (given["rank"], given["num_replicas"]) if given else (trainer.global_rank, trainer.world_size)
