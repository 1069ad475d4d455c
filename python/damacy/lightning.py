"""Training with Lightning: loaders as a data module that checkpoints remember. Needs the extra `lightning`.

Knows Lightning's hooks and `damacy.torch.IterableDataset`."""

from __future__ import annotations

from typing import Any

try:
    import lightning
except ModuleNotFoundError as missing:
    message = f"damacy.lightning needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy.torch import IterableDataset
from damacy.training import Loader


class DataModule(lightning.LightningDataModule):
    """Loaders for the stages of a `Trainer`. Its state, the positions of the loaders, is in every checkpoint.

    The trainer need not shard anything: give each rank its own `Loader(..., rank=, ranks=)`.
    """

    def __init__(
        self,
        train: Loader | None = None,
        validation: Loader | None = None,
        test: Loader | None = None,
        predict: Loader | None = None,
    ) -> None:
        super().__init__()
        given = {"train": train, "validation": validation, "test": test, "predict": predict}
        self._loaders = {stage: loader for stage, loader in given.items() if loader is not None}

    def train_dataloader(self) -> Any:
        return self._tensors("train")

    def val_dataloader(self) -> Any:
        return self._tensors("validation")

    def test_dataloader(self) -> Any:
        return self._tensors("test")

    def predict_dataloader(self) -> Any:
        return self._tensors("predict")

    def state_dict(self) -> dict[str, dict[str, int]]:
        """By stage, as `Loader.state_dict`."""
        return {stage: loader.state_dict() for stage, loader in self._loaders.items()}

    def load_state_dict(self, state_dict: dict[str, dict[str, int]]) -> None:
        """As `Loader.load_state_dict`, for the stages that have a loader."""
        for stage, loader in self._loaders.items():
            if stage in state_dict:
                loader.load_state_dict(state_dict[stage])

    def teardown(self, stage: str) -> None:
        for loader in self._loaders.values():
            loader.close()

    def _tensors(self, stage: str) -> Any:
        if stage not in self._loaders:
            return []
        return IterableDataset(self._loaders[stage])
