"""Types of arguments of `damacy`, for annotations in programs that pass them on.

>>> def config_for(dtype: DtypeLike, device: Device) -> "damacy.Config": ...
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, Union

from damacy._core.dtype import Dtype

if TYPE_CHECKING:
    from damacy._pipeline.info import ArrayInfo
    from damacy._pipeline.take import Take

__all__ = [
    "ArrayBoxes",
    "Axis",
    "Blend",
    "Box",
    "Device",
    "DtypeLike",
    "OnError",
    "Pad",
    "Progress",
    "Rounding",
    "ShardBy",
    "Source",
    "Tail",
    "ThreadCores",
    "Verify",
]

OnError = Literal["raise", "skip", "fill"]
"""What happens to a sample that fails after `push` accepted it."""

Verify = Literal["needed", "whole"]
"""How much of a chunk is decoded and checked."""

ThreadCores = Literal["rank", "all"]
"""On which cores the threads of a pipeline run."""

Tail = Literal["drop", "wrap", "pad", "short"]
"""What happens to the samples at an epoch's end that do not fill a whole step."""

ShardBy = Literal["order", "chunk"]
"""How the samples of an epoch are divided among ranks: in their order, or so that ranks read disjoint chunks."""


Axis = str | int
"""An axis: its name, or its number; a negative number counts from the last axis."""

Pad = Literal["edge", "reflect", "symmetric", "wrap"] | float
"""What lies beyond an array: how its elements repeat, as in `numpy.pad`, or a constant."""

Rounding = Literal["truncate", "nearest"]
"""How a number becomes an integer."""

Blend = Literal["constant", "gaussian", "hann", "crop"]
"""How `damacy.stitch.Writer` combines windows that overlap."""


Progress = Callable[[int, int], object]
"""Is called with how much of long work is done, and how much there is. What it returns is ignored."""


class _ElementType(Protocol):
    """A `numpy.dtype` or `torch.dtype`."""

    @property
    def itemsize(self) -> int: ...


class _TorchDevice(Protocol):
    @property
    def type(self) -> str: ...


class _NumberedDevice(Protocol):
    """A device of JAX or CuPy."""

    @property
    def id(self) -> int: ...


class _ZarrArray(Protocol):
    @property
    def store(self) -> Any: ...
    @property
    def path(self) -> str: ...
    @property
    def shape(self) -> Any: ...


class _DataArray(Protocol):
    @property
    def variable(self) -> Any: ...
    @property
    def shape(self) -> Any: ...


DtypeLike = Dtype | str | int | type[Any] | _ElementType
"""An element type of batches; `Config.dtype` describes which values of these types are accepted."""

Device = int | str | None | _TorchDevice | _NumberedDevice
"""A device for batches, as for `Config.device`."""

Source = Union[str, "os.PathLike[str]", "ArrayInfo", _ZarrArray, _DataArray]
"""A stored array: its uri, or an object that has it open."""

Box = Iterable[
    Union[slice, range, "Take", "tuple[SupportsIndex, SupportsIndex]", Sequence[SupportsIndex], EllipsisType]
]
"""The axes of a box; `...` and open slices only for an opened array."""

ArrayBoxes = Union["tuple[Source, Box]", "list[tuple[Source, Box]]"]
"""A box of a stored array, or several that are stacked; a value of the mapping from which a `Sample` is made."""
