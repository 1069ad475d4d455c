"""Training with Lightning: loaders as a data module that checkpoints remember. Needs the extra `lightning`.

Knows Lightning's hooks and `damacy.torch.IterableDataset`."""

from __future__ import annotations

from collections.abc import Mapping
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
    number of ranks. `train` drops the last samples if they do not fill a whole step. The other stages deliver every
    sample: on one rank their last batch may be short; on several it is filled up with rows whose `BatchRows.valid` is
    False (see `info`).

    Or pass a `Loader` for a stage. Its ranks must be the trainer's; `Loader(ranks="auto")` takes them over.

    Every validation, test and prediction starts the same epoch again, so that the sanity check, `limit_val_batches` and
    repeated validation see the same samples. With `info=True` batches are pairs of a tensor and a `damacy.BatchRows`.
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
        place = rank_and_ranks() if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)
        for name, source in self._given.items():
            known = self._datasets.get(name)
            if known is None or (known.loader.rank, known.loader.ranks) != place:
                self._datasets[name] = IterableDataset(self._loader(name, source, *place), info=self._info)
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
            if stage != "train":
                source._restart = True
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
