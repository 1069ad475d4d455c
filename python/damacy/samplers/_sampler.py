"""`Sampler`, the interface of samplers, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from damacy._pipeline.cropped_arrays import positive
from damacy._pipeline.sample import Sample


class Sampler(Protocol):
    """The interface of samplers: the number of samples of an epoch, and each sample."""

    seed: int

    def __len__(self) -> int: ...

    def sample(self, epoch: int, index: int) -> Sample:
        """Sample `index` of an epoch; the same for the same arguments, in every process."""
        ...


def per_axis(value: int | Sequence[int], extents: tuple[int, ...], name: str) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Iterable) else (value,) * len(extents)
    if len(values) != len(extents):
        raise ValueError(f"{name} has {len(values)} axes, extents has {len(extents)}")
    return tuple(positive(number, f"{name}[{k}]") for k, number in enumerate(values))


def check_range(start: int, stop: int, length: int) -> None:
    if not 0 <= start <= stop <= length:
        raise IndexError(f"samples [{start}, {stop}) of an epoch of {length}")


def check_index(index: int, length: int) -> None:
    if not 0 <= index < length:
        raise IndexError(f"sample {index} of an epoch of {length}")
