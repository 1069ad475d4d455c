"""Random pipelines over chunks of 4 KiB to 4 MiB, on both sides of each size at which reads take another way: each row
of each batch is what NumPy cuts out of the elements that independent writers stored.

60 pipelines by default, more by `--pipelines N` (from `--first-case`, in fours); `-m gpu` runs as many on a GPU.
"""

import collections
import math
import os
import pathlib
import re

import numpy as np
import pytest
from support import random_pipelines, thresholds
from support.streaming import pipeline, poison_where_it_lies, set_natively

import damacy
from damacy import _native

A_CASE = 4  # pipelines over the same arrays
SRC = pathlib.Path(__file__).resolve().parents[2] / "src" / "damacy"
BACKEND = _native.backend_info()
NO_GPU = pytest.mark.skipif(not BACKEND["cuda"], reason="no usable GPU: " + BACKEND["cuda_reason"])
SHARES = {"host": 0.6, "lazy": 0.4, "cuda": 1.0}  # of the pipelines


def pytest_generate_tests(metafunc):
    if "engine" not in metafunc.fixturenames:
        return
    one = metafunc.config.getoption("--case-seed", default=None)
    first = metafunc.config.getoption("--first-case")
    count = metafunc.config.getoption("--pipelines", default=None) or 60
    cases = []
    for engine, share in SHARES.items():
        marks = [pytest.mark.gpu, NO_GPU] if engine == "cuda" else []
        last = first + max(1, round(share * count / A_CASE))
        numbers = range(first, last) if one is None else [one]
        cases += [pytest.param(engine, number, marks=marks, id=f"{engine}-{number}") for number in numbers]
    metafunc.parametrize(("engine", "number"), cases)


@pytest.mark.timeout(240)
def test_rows_are_the_stored_elements(engine, number, tmp_path, monkeypatch, record_property):
    arrays = random_pipelines.draw_arrays(number)
    paths = [tmp_path / str(k) for k in range(len(arrays))]
    for array, path in zip(arrays, paths, strict=True):
        array.write(path)
    rows = 0
    for k in range(A_CASE):
        drawn = random_pipelines.draw_pipeline(A_CASE * number + k, arrays, engine)
        native = _native_fields(engine, k)
        rows += Run(drawn, arrays, paths, engine, native, monkeypatch, what=f"case {number}, pipeline {k}").rows
    record_property("pipelines", A_CASE)
    record_property("rows", rows)


def _native_fields(engine: str, k: int) -> dict:
    """A device decodes also what the cores would decode sooner, in three of four pipelines."""
    fields = {"host_device": "lazy"} if engine == "lazy" else {}
    return fields if engine == "host" or k == 0 else fields | {"device_from_bytes": 0}


class Run:
    """One pipeline, all epochs. Batches that are kept are compared again when they are dropped."""

    def __init__(self, drawn, arrays, paths, engine, native, monkeypatch, what):
        self.drawn, self.arrays = drawn, arrays
        self.what = f"{what}, {engine}: {[str(a.layout) for a in arrays]} {drawn.config}, keeps {drawn.keeps}"
        self.rows = 0
        samples = [damacy.Sample(paths[array], box) for array, box in drawn.boxes]
        self.bad = {i for i, (array, box) in enumerate(drawn.boxes) if arrays[array].is_damaged(box)}
        self.kept = collections.deque()
        if drawn.host_cache:
            name = f"damacy-random-{os.getpid()}-{id(self)}"
            more = {"host_cache": damacy.SharedCache(name, drawn.host_cache)}
        else:
            more = {}
        set_natively(monkeypatch, **native)
        device = {"device": "cuda"} if engine == "cuda" else {}
        with pipeline(**drawn.config, **device, **more) as running:
            for epoch in range(drawn.epochs):
                running.push(samples)
                running.flush()
                self._drain(running, epoch * len(samples))
            while self.kept:
                self._drop()

    def _drain(self, running, first: int) -> None:
        """Pops an epoch, whose first sample has that index in the stream."""
        wanted = set(range(len(self.drawn.boxes)))
        on_error, size = self.drawn.config["on_error"], self.drawn.config["batch_size"]
        lost = {i for i in wanted if self.bad & set(range(i - i % size, i - i % size + size))}
        if on_error == "skip":
            lost = self.bad
        elif on_error == "fill":
            lost = set()
        seen = []
        while len(seen) < len(wanted - lost):
            try:
                batch = running.pop()
            except damacy.PopTimeout:
                raise
            except (damacy.StorageError, damacy.DecodeError) as error:
                assert on_error == "raise" and self.bad, f"{self.what}: {error}"
                continue
            numbers = [index - first for index in batch.sample_indices]
            self._compare(batch, numbers)
            seen += numbers
            self.kept.append((batch, numbers))
            if len(self.kept) > self.drawn.keeps:
                self._drop()
        assert seen == sorted(wanted - lost), self.what
        self._expect_nothing_more(running)

    def _expect_nothing_more(self, running) -> None:
        while True:
            try:
                running.pop()
            except damacy.PopTimeout:
                raise
            except damacy.TryAgain:
                return
            except (damacy.StorageError, damacy.DecodeError) as error:
                assert self.bad and self.drawn.config["on_error"] == "raise", f"{self.what}: {error}"
            else:
                pytest.fail(f"{self.what}: a batch too many")

    def _compare(self, batch, numbers) -> None:
        got = batch.numpy()
        assert len(got) == len(numbers) == len(batch.valid), self.what
        for row, number, valid in zip(got, numbers, batch.valid, strict=True):
            assert valid == (number not in self.bad), f"{self.what}: sample {number}"
            wanted = self.drawn.row(self.arrays, number) if valid else np.zeros_like(row)
            if not np.array_equal(row, wanted):
                where = np.argwhere(row != wanted)
                pytest.fail(
                    f"{self.what}: sample {number} {self.drawn.boxes[number]}: {len(where)} of {row.size} elements "
                    f"differ, the first at {where[0].tolist()}: {row[tuple(where[0])]}, not {wanted[tuple(where[0])]}"
                )
        self.rows += len(numbers)

    def _drop(self) -> None:
        batch, numbers = self.kept.popleft()
        if self.drawn.keeps:
            self._compare(batch, numbers)
        poison_where_it_lies(batch, math.prod(batch.info.shape) * np.dtype(self.drawn.output).itemsize)
        batch.release()


def test_the_thresholds_are_in_the_code():
    all_of_them = [*thresholds.OF_CHUNKS, *thresholds.OF_COUNTS, *thresholds.OF_BATCHES]
    lines = [(one.file, one.line) for one in all_of_them] + [thresholds.MOST_IN_PART_AT]
    assert [(file, line) for file, line in lines if line not in (SRC / file).read_text()] == []


def test_the_thresholds_are_all_of_the_layer_that_reads():
    """A new size in these files belongs into the table."""
    files = ("fetch/wanted_chunks.cpp", "batch/worker_engine.cpp", "fetch/chunk_reads.cpp", "fetch/host_sink.cpp")
    found = {
        match for file in files for match in re.findall(r"constexpr [\w:]+ (k\w+ = [^;]+;)", (SRC / file).read_text())
    }
    named = {one.line for one in [*thresholds.OF_CHUNKS, *thresholds.OF_COUNTS]}
    assert {line for line in found if line not in named} == set()


def test_the_default_cases_are_on_both_sides_of_each_threshold():
    """Sizes of chunks are near each: within a factor of two, also in the fewer cases on the lazy device."""
    chunks, counts, absent, batches, parts = set(), set(), set(), set(), set()
    for number in range(round(SHARES["host"] * 60 / A_CASE)):
        arrays = random_pipelines.draw_arrays(number)
        if number < round(SHARES["lazy"] * 60 / A_CASE):
            chunks |= {array.chunk_bytes() for array in arrays}
        for k in range(A_CASE):
            drawn = random_pipelines.draw_pipeline(A_CASE * number + k, arrays, "host")
            for batch in drawn.batches():
                batches.add(len(batch) * drawn.row_bytes())
                wanted, fill = drawn.chunks_of(arrays, batch)
                counts.add(wanted)
                absent.add(fill)
            for array, box in drawn.boxes:
                parts |= set(arrays[array].parts_of_large_chunks(box))
    for one in thresholds.OF_CHUNKS:
        assert any(one.at / 2 <= size < one.at for size in chunks), f"below {one.name}"
        assert any(one.at <= size < 2 * one.at for size in chunks), f"from {one.name} on"
    for values, one in zip((counts, absent), thresholds.OF_COUNTS, strict=True):
        assert min(values) < one.at < max(values), one.name
    (of_batch,) = thresholds.OF_BATCHES
    assert any(of_batch.at / 2 <= size <= of_batch.at for size in batches) and max(batches) > of_batch.at
    limit = thresholds.MOST_IN_PART
    assert any(limit - 0.3 < part < limit for part in parts) and any(limit < part < 1 for part in parts)
