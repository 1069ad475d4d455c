"""`BatchRows`: the samples of a batch's rows. Loaders return it together with the data."""

from __future__ import annotations

import warnings
from typing import Any

from damacy._pipeline.batch import Batch
from damacy._pipeline.config import Config
from damacy._pipeline.sample import Sample


class BatchRows:
    """The samples of the rows of a `Loader`'s batch. Can be pickled.

    Functions that collate, pin or move to a device return it unchanged, because it is no tuple, mapping or dataclass.

    >>> rows = BatchRows(samples=(Sample("a.zarr", [(0, 8)]),), epoch=2, indices=(17,), valid=(True,))
    >>> rows.epoch, rows.indices, rows.valid
    (2, (17,), (True,))
    """

    __slots__ = ("epoch", "indices", "samples", "valid")

    samples: tuple[Sample, ...]
    """For each row its sample; the sample's `row_key` is `(epoch, index)`."""
    epoch: int
    """The epoch of all rows."""
    indices: tuple[int, ...]
    """For each row the sampler's index in the epoch."""
    valid: tuple[bool, ...]
    """For each row, as `Batch.valid`."""

    def __init__(
        self, *, samples: tuple[Sample, ...], epoch: int, indices: tuple[int, ...], valid: tuple[bool, ...]
    ) -> None:
        self.samples = samples
        self.epoch = epoch
        self.indices = indices
        self.valid = valid

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchRows):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # compared by value

    def __repr__(self) -> str:
        return f"<damacy.BatchRows epoch={self.epoch} indices={self.indices} valid={self.valid}>"


def rows_of(batch: Batch) -> BatchRows:
    """The rows of a `Loader`'s batch; also after its release."""
    samples = batch.samples
    keys: list[Any] = [sample.row_key for sample in samples]
    return BatchRows(
        samples=samples, epoch=keys[0][0], indices=tuple(index for _, index in keys), valid=tuple(batch.valid)
    )


def warn_of_unknown_rows(config: Config, info: bool) -> None:
    """Warns, at the caller's caller, if rows may be missing and the loop cannot know which."""
    if config.on_error == "skip" and not info:
        warnings.warn(
            "on_error='skip' drops rows and whole batches, and nothing here says which: two loaders in step would pair "
            "wrong rows; use one with two arrays, 'fill', or info=True",
            UserWarning,
            stacklevel=3,
        )
