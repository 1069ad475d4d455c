"""Random samples of several arrays: each row of each array has the bits that other readers read.

An array of a batch is a random case of its own (layouts, boxes, output type). 10 by default, more by `--cases N` or
DAMACY_CASES.
"""

import itertools
import os

import numpy as np
import pytest
from support import random_cases, writers
from support.element_types import OUTPUT, as_bits, from_bits
from support.streaming import LAZY, Stored, assert_rows, config, set_natively

import damacy


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        cases = metafunc.config.getoption("--cases", default=None) or os.environ.get("DAMACY_CASES", "60")
        metafunc.parametrize("number", range(max(int(cases) // 6, 1)))


@pytest.mark.parametrize("engine", ["workers", "lazy"])
def test_named_case(number, engine, tmp_path, monkeypatch):
    if engine == "lazy":  # the stream engine, as with a GPU; a missing wait would give wrong bytes
        set_natively(monkeypatch, **LAZY)
    rng = np.random.default_rng([11, number])
    arrays = {f"array {k}": _Rows(1000 + 4 * number + k, tmp_path / str(k), rng) for k in range(rng.integers(1, 5))}
    samples, wanted = _samples(arrays, rng)
    batch_size = int(rng.integers(1, 6))
    buffers = {
        name: max(getattr(config(**array.case.config), name) for array in arrays.values())
        for name in ("host_buffer_bytes", "device_buffer_bytes")
    }
    specs = {name: damacy.ArraySpec(dtype=OUTPUT[array.case.output]) for name, array in arrays.items()}
    order = dict(sorted(specs.items(), key=lambda _: rng.random()))
    settings_of_case = config(batch_size=batch_size, arrays=order, n_batches=int(rng.integers(1, 4)), **buffers)
    rows = {name: [] for name in arrays}
    poisons = itertools.cycle((0xA5, 0x5A))
    with damacy.Pipeline(settings_of_case) as running:
        for _ in range(2):  # the second time in poisoned slots
            running.push(samples)
            for batch in running:
                with batch:
                    assert list(batch) == list(order) and all(batch.valid)
                    for name, array in batch.items():
                        rows[name] += list(as_bits(array.numpy(), arrays[name].case.output).copy())
                        array.numpy().reshape(-1).view(np.uint8)[...] = next(poisons)
        assert running.stats().batches_emitted == 2 * -(-len(samples) // batch_size)
    for name in arrays:
        assert_rows([rows[name]], [sample[name] for sample in wanted] * 2, f"case {number}, {name}")


class _Rows:
    """The boxes of a random case, in order, and what each must read."""

    def __init__(self, number, path, rng):
        self.case = random_cases.draw(number)
        self.stored = [self._write(k, path / str(k)) for k in range(len(self.case.layouts))]
        self.boxes = itertools.cycle([box for run in self.case.runs for box in run])
        self.stack = int(rng.integers(0, 3))  # 0: no stack

    def _write(self, k, path):
        layout, writer = self.case.layouts[k], self.case.writers[k]
        data = from_bits(self.case.bits[k], layout.dtype)
        if writer is writers.BY_HAND:
            writers.write_by_hand(layout, data, path, **self.case.by_hand)
        else:
            writer.write(layout, data, path)
        return Stored(path, layout, self.case.bits[k])

    def next(self):
        drawn = [next(self.boxes) for _ in range(max(self.stack, 1))]
        boxes = [(self.stored[k].path, box) for k, box in drawn]
        rows = [self.stored[k].row(box, self.case.output) for k, box in drawn]
        return (boxes, np.stack(rows)) if self.stack else (boxes[0], rows[0])


def _samples(arrays, rng):
    samples, wanted = [], []
    for _ in range(int(rng.integers(1, 14))):
        drawn = {name: array.next() for name, array in arrays.items()}
        samples.append(damacy.Sample({name: boxes for name, (boxes, _) in drawn.items()}))
        wanted.append({name: rows for name, (_, rows) in drawn.items()})
    return samples, wanted
