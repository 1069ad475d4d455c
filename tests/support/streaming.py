"""Small arrays with known content, and batches read through `damacy.Pipeline` and compared bit for bit.

Slots are poisoned between uses through the batches' own writable views, so a byte that was not written in this use of a
slot shows as a difference.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterable

import numpy as np

import damacy
from damacy._pipeline import pipeline as native_pipeline
from support import convert_model, cuda_driver, writers
from support.element_types import OUTPUT, as_bits, from_bits
from support.layout import Layout

LAZY = {"host_device": "lazy", "device_from_bytes": 0}  # the stream engine; a missing wait gives wrong bytes
_SETTINGS = native_pipeline._native_settings
PATIENCE_S = 30.0  # a pop that waits longer counts as a hang
BUFFER_BYTES = 1 << 24


def config(**options) -> damacy.Config:
    """A small host pipeline; everything can be overridden."""
    given = {
        "batch_size": 2,
        "host_buffer_bytes": BUFFER_BYTES,
        "device_buffer_bytes": BUFFER_BYTES,
        "n_io_threads": 2,
        "device": "cpu",
        "pop_timeout_s": PATIENCE_S,
    }
    return damacy.Config(**{**given, **options})


def pipeline(**options) -> damacy.Pipeline:
    return damacy.Pipeline(config(**options))


def set_natively(monkeypatch, **more) -> None:
    """Adds settings that only tests have to those of later pipelines; another call replaces them."""
    monkeypatch.setattr(native_pipeline, "_native_settings", lambda config: _SETTINGS(config) | more)


@dataclasses.dataclass
class Stored:
    """An array on disk and the bits it holds."""

    path: pathlib.Path
    layout: Layout
    bits: np.ndarray

    def sample(self, *box) -> damacy.Sample:
        return damacy.Sample(uri=self.path, aabb=box)

    def row(self, box, output: str | None = None) -> np.ndarray:
        """The bits a batch must hold for this box, in elements of `output`."""
        stored = self.bits[tuple(slice(*axis) for axis in box)]
        return convert_model.convert_bits(stored, self.layout.dtype, output or self.layout.dtype)

    def object(self, *index) -> pathlib.Path:
        """The file of one chunk or shard."""
        return self.path / self.layout.key(index)


def store(path, shape, chunks, dtype="uint16", *, writer=writers.BY_HAND, bits=None, **options) -> Stored:
    """By default element k (in C order) is k + 1, so that no chunk is all fill and all rows differ."""
    layout = Layout(shape=shape, chunks=chunks, dtype=dtype, **options)
    if bits is None:
        numbers = (np.arange(math.prod(shape)) + 1).reshape(shape)
        bits = as_bits(numbers.astype(from_bits(np.zeros((), writers.bits_type(dtype)), dtype).dtype), dtype)
    writer.write(layout, from_bits(bits, dtype), path)
    return Stored(pathlib.Path(path), layout, bits)


def row_bits(batch: damacy.Batch, output: str) -> np.ndarray:
    """A copy of the batch as unsigned integers."""
    return as_bits(batch.numpy(), output).copy()


def poison(batch: damacy.Batch, byte: int) -> None:
    batch.numpy().reshape(-1).view(np.uint8)[...] = byte


def poison_where_it_lies(batch, size: int) -> None:
    """Poisons the slot on its device, so that elements that its next use does not write differ."""
    if batch.__dlpack_device__()[0] == 1:
        return poison(batch, 0xA5)
    cuda_driver.set_current(cuda_driver.primary_context())
    cuda_driver.fill(batch.info.device_ptr, 0x5A, size)
    batch.release(1)


def stream_rows(
    samples: Iterable[damacy.Sample], output: str, *, batch_size: int = 3, rounds: int = 2, **options
) -> list[list[np.ndarray]]:
    """All rows of `rounds` runs over the samples, as bits. The slots of one run are poisoned for the next."""
    samples = list(samples)
    poisons = itertools.cycle((0xA5, 0x5A, 0xFF, 0x00))
    with pipeline(batch_size=batch_size, dtype=OUTPUT[output], **options) as running:
        return [_one_run(running, samples, output, poisons) for _ in range(rounds)]


def _one_run(running, samples, output, poisons) -> list[np.ndarray]:
    rows = []
    running.push(samples)
    running.flush()
    for batch in running.batches(math.ceil(len(samples) / running.config.batch_size)):
        with batch:
            assert all(batch.valid) and len(batch.valid) == batch.info.shape[0]
            rows += list(row_bits(batch, output))
            poison(batch, next(poisons))
    assert len(rows) == len(samples)
    return rows


def assert_rows(rows: list[list[np.ndarray]], expected: list[np.ndarray], what: str = "") -> None:
    for run in rows:
        for number, (got, wanted) in enumerate(zip(run, expected, strict=True)):
            if got.shape != wanted.shape or not np.array_equal(got, wanted):
                raise AssertionError(f"{what}: row {number} differs\n{difference(got, wanted)}")


def difference(got: np.ndarray, wanted: np.ndarray) -> str:
    if got.shape != wanted.shape:
        return f"shape {got.shape}, wanted {wanted.shape}"
    where = np.argwhere(got != wanted)
    lines = [f"{tuple(map(int, w))}: got {int(got[tuple(w)]):#x}, wanted {int(wanted[tuple(w)]):#x}" for w in where[:5]]
    return f"{len(where)} of {got.size} elements differ; " + "; ".join(lines)
