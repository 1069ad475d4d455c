"""Training with PyTorch: batches as tensors, ranks and devices of a `torchrun`. Needs the extra `torch`.

Knows torch and `damacy.training.Loader`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

try:
    import torch
    import torch.utils.data
except ModuleNotFoundError as missing:
    message = f"damacy.torch needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy._pipeline.batch import Batch
from damacy._pipeline.batch_rows import rows_of, warn_of_unknown_rows
from damacy._pipeline.ranks import rank_and_ranks as rank_and_ranks
from damacy._pipeline.sample import Sample
from damacy.samplers import Indexed, Sampler
from damacy.training import Loader

rank_and_ranks.__module__ = __name__

_IN_A_WORKER = (
    "damacy reads, decodes and prefetches with threads of its own and needs no worker processes: use "
    "DataLoader(dataset, batch_size=None, num_workers=0), or iterate the dataset itself, and set "
    "Config.n_io_threads to the number of workers you had"
)
_IN_A_DATA_LOADER = {
    "batch_size": "batches are made by the loader, whose Config has their size",
    "num_workers": "the loader reads with threads of its own, see Config.n_io_threads",
}


class IterableDataset(torch.utils.data.IterableDataset):
    """The batches of a `damacy.training.Loader` as tensors, on the loader's device, without a copy.

    Iterate over it once per epoch, directly or in `dataloader(loader)`; a `DataLoader` with a batch size copies each
    batch and adds a first axis. A tensor keeps its slot until it is deleted; `Config.keep_bytes` limits how many
    tensors can be kept. In a worker process it raises `RuntimeError`, which says what to do instead.

    With `copy=True`, each tensor has its own memory, at the cost of one more pass over every batch, and does not count
    toward `Config.keep_bytes`.

    With `info=True`, yields pairs of a tensor and a `damacy.BatchRows`, which has the samples of the rows.
    """

    def __init__(self, loader: Loader, *, info: bool = False, copy: bool = False) -> None:
        if not isinstance(loader, Loader):
            what = type(loader).__name__
            raise TypeError(f"loader must be a damacy.training.Loader (got {what}): Loader(sampler, config) makes one")
        self.loader = loader
        self._copy = bool(copy)
        self._info = bool(info)
        warn_of_unknown_rows(loader.config, self._info)

    def __iter__(self) -> Iterator[Any]:
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError(_IN_A_WORKER)
        return self.loader._given_as(self._tensor)

    def __len__(self) -> int:
        """The number of steps of a whole epoch."""
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """As `Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """As `Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """As `Loader.load_state_dict`."""
        self.loader.load_state_dict(state)

    def _tensor(self, batch: Batch) -> Any:
        with batch as lent:
            tensor = lent.torch(copy=self._copy)
        return (tensor, rows_of(batch)) if self._info else tensor


def dataloader(
    loader: Loader | IterableDataset, *, info: bool = False, copy: bool = False, **arguments: Any
) -> torch.utils.data.DataLoader[Any]:
    """A `DataLoader` of a loader's batches, for code that needs one: without a batch size and without workers.

    `info` and `copy` are those of `IterableDataset`; a dataset has its own. Other `arguments` are passed on to
    `DataLoader`. With `pin_memory=True`, torch copies host batches to pinned memory.
    """
    for name, only in (("batch_size", None), ("num_workers", 0)):
        if arguments.setdefault(name, only) != only:
            raise ValueError(f"{name} must be {only} (got {arguments[name]!r}): {_IN_A_DATA_LOADER[name]}")
    if isinstance(loader, IterableDataset) and (info or copy):
        raise TypeError("info and copy belong to the dataset: IterableDataset(loader, info=True)")
    dataset = loader if isinstance(loader, IterableDataset) else IterableDataset(loader, info=info, copy=copy)
    return torch.utils.data.DataLoader(dataset, **arguments)


def from_sampler(samples: Sampler | Sequence[Sample], torch_sampler: Iterable[int]) -> Indexed:
    """The samples in the order of a `torch.utils.data.Sampler`, for a `Loader`; as `damacy.samplers.Indexed`.

    The order of an epoch is drawn once, after `torch_sampler.set_epoch(epoch)` if it has that method. Meanwhile torch's
    random numbers depend only on the seed of `samples` and the epoch. So a `RandomSampler` without a generator gives
    the same order on all ranks, and when a run is resumed. `torch.manual_seed` has no influence on it, and other random
    numbers, such as those of `numpy.random`, must be the same on all ranks.

    Loaders divide samples among ranks themselves: give a `DistributedSampler` `num_replicas=1, rank=0`, or the loader
    no ranks.
    """
    return Indexed(samples, torch_sampler)


def local_device() -> str:
    """`Config.device` for this process: the GPU of `LOCAL_RANK`, GPU 0 if that is not set, `"cpu"` without GPUs."""
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}"
