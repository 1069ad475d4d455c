"""Training with PyTorch: batches as tensors, ranks and devices of a `torchrun`. Needs the extra `torch`.

Knows torch and `damacy.training.Loader`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

try:
    import torch
    import torch.distributed
    import torch.utils.data
except ModuleNotFoundError as missing:
    message = f"damacy.torch needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy.training import Loader

_IN_A_WORKER = (
    "damacy reads, decodes and prefetches with threads of its own and needs no worker processes: use "
    "DataLoader(dataset, batch_size=None, num_workers=0), or iterate the dataset itself, and set "
    "Config.n_io_threads to the number of workers you had"
)


class IterableDataset(torch.utils.data.IterableDataset):
    """The batches of a `damacy.training.Loader` as tensors, on the loader's device, without a copy.

    Iterate it once an epoch, itself or in `DataLoader(dataset, batch_size=None)`; without `batch_size=None` a
    `DataLoader` copies each batch and puts an axis in front of it. A tensor keeps its slot until it is gone; with the
    default `Config.n_batches` one may be kept while the next is made. In a worker process it raises `RuntimeError`,
    which says what to do instead.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[torch.Tensor]:
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError(_IN_A_WORKER)
        for batch in self.loader:
            with batch as lent:
                tensor = torch.from_dlpack(lent)
            yield tensor
            del tensor

    def __len__(self) -> int:
        """Steps of a whole epoch."""
        return len(self.loader)

    def state_dict(self) -> dict[str, int]:
        """As `Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """As `Loader.load_state_dict`."""
        self.loader.load_state_dict(state)


def rank_and_ranks() -> tuple[int, int]:
    """Of the default process group, or of the environment that `torchrun` makes, or (0, 1)."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def local_device() -> str:
    """`Config.device` for this process: the GPU that `LOCAL_RANK` names, 0 without it, and `"cpu"` without GPUs."""
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}"
