"""`ArrayInfo`, which describes an array. Knows the fields; the native library fills them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from damacy._pipeline.array_attributes import Attributes, Cf


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayInfo:
    """The description of an array according to its metadata. It is enough to draw samples.

    * `chunks`: the shape of the inner chunk. `shards`: the shape of a shard, or None.
    * `levels`: the paths of an image's levels, finest first.
    * `supported`: whether batches can be read, as far as the metadata show. A blosc chunk names its compressor only in
      its own header.
    * `dims`: the names of the axes, None for an axis without a name. From the image's axes, else `dimension_names`,
      else `_ARRAY_DIMENSIONS`.
    * `fill_value`: the element of missing chunks as a NumPy scalar (zero if a v2 array names none); None if the element
      type is not supported.
    * `attrs`: the array's own attributes, read-only.
    * `cf`: the packing of elements and the missing values, None without such attributes.
    * `time_unit`: of dates and durations, for example `"s"` or `"25us"`; else empty.
    """

    __module__ = "damacy"

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
    time_unit: str = ""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)
