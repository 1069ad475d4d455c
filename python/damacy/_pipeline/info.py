"""Records that describe batches and arrays. Knows the fields; the native library fills them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from damacy._core.dtype import Dtype
from damacy._pipeline.array_attributes import Attributes, Cf


@dataclasses.dataclass(frozen=True, slots=True)
class BatchInfo:
    """Address, shape and type of a batch. On the host `device_ptr` is a host address and `ready_stream` is 0.

    The stream ends with the pipeline: after `Pipeline.close`, use a batch by DLPack, which does not need it.
    """

    device_ptr: int
    shape: tuple[int, ...]
    dtype: Dtype
    ready_stream: int
    batch_id: int


def batch_info_from(native: Mapping[str, Any]) -> BatchInfo:
    """`BatchInfo` from the native dict."""
    return BatchInfo(
        device_ptr=native["device_ptr"],
        shape=native["shape"],
        dtype=Dtype(native["dtype"]),
        ready_stream=native["ready_stream"],
        batch_id=native["batch_id"],
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array as its metadata describe it, enough to draw samples from.

    `chunks` is the inner chunk, `shards` None where there are none; `levels` are the paths of an image, finest first.
    `supported` follows from the metadata alone: a blosc chunk names its compressor only when it is read.

    `dims` are the names of the axes, None where one has none: an image's axes, else `dimension_names`, else
    `_ARRAY_DIMENSIONS`. `fill_value` is the element of absent chunks as a NumPy scalar (zero where v2 names none), None
    for an element type that is not supported. `attrs` are the array's own attributes, read only. `cf` is how elements
    are packed and which are missing, None where attributes say nothing of it.
    """

    uri: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    zarr_format: int
    codecs: tuple[str, ...]
    levels: tuple[str, ...]
    supported: bool
    why_not: str | None
    dims: tuple[str | None, ...] = ()
    fill_value: Any = dataclasses.field(default=None, compare=False)  # NaN is unequal to itself
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=Attributes, hash=False)
    cf: Cf | None = None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)
