"""`on_error="skip"`: only failed rows are left out."""

import os

import numpy as np
import pytest
from support import child
from support.line import drained
from support.streaming import pipeline, row_bits, store

import damacy


@pytest.fixture
def rows(tmp_path):
    """40 rows of 6 u16, each in a file of its own."""
    return store(tmp_path / "rows.zarr", (40, 6), (1, 6))


def cut(stored, numbers) -> None:
    for k in numbers:
        os.truncate(stored.object(k, 0), 5)


def sample(stored, k):
    return stored.sample((k, k + 1), (0, 6))


def all_batches(p):
    """(id, sample indices, rows as bits, valid) of each batch until there is none."""
    out = []
    while True:
        try:
            with p.pop() as batch:
                out.append((batch.info.batch_id, batch.sample_indices, row_bits(batch, "uint16"), batch.valid))
                assert batch.info.shape[0] == len(batch.sample_indices) == len(batch.valid)
                batch.numpy()[...] = 0xA5A5
        except damacy.PopTimeout:
            raise
        except damacy.TryAgain:
            return out


BAD = {
    "the first row": [0],
    "the last row": [3],
    "rows in the middle": [1, 2],
    "every second row": list(range(0, 16, 2)),
    "a whole batch": [4, 5, 6, 7],
    "whole batches in a row, and the last": [4, 5, 6, 7, 8, 9, 10, 11, 14, 15],
    "all of them": list(range(16)),
    "none": [],
}


@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("which", BAD)
def test_a_batch_comes_without_its_failed_rows_and_keeps_id_and_order(rows, which, n_batches):
    bad = BAD[which]
    cut(rows, bad)
    with pipeline(batch_size=4, dtype="u16", on_error="skip", n_batches=n_batches) as p:
        p.push([sample(rows, k) for k in range(16)])
        got = all_batches(p)
        wanted = [(b, [k for k in range(4 * b, 4 * b + 4) if k not in bad]) for b in range(4)]
        assert [(b, list(indices)) for b, indices, _, _ in got] == [(b, left) for b, left in wanted if left]
        for _, indices, bits, valid in got:
            assert all(valid)
            for k, row in zip(indices, bits, strict=True):
                np.testing.assert_array_equal(row, rows.row(((k, k + 1), (0, 6))))
        stats = p.stats()
        assert (stats.samples_skipped, stats.samples_filled) == (len(bad), 0)
        assert stats.batches_emitted == len(got)


def test_pop_continues_after_batches_of_which_all_rows_were_skipped(rows):
    """There are more such batches than the queue holds, so later samples are pulled only after they are gone."""
    cut(rows, range(38))
    with pipeline(batch_size=2, dtype="u16", on_error="skip", lookahead_batches=2) as p:
        p.push(sample(rows, k) for k in range(40))
        with p.pop() as batch:
            assert batch.info.batch_id == 19 and batch.sample_indices == (38, 39)
        with pytest.raises(damacy.TryAgain):
            p.pop()


def test_a_short_batch_without_good_rows_is_not_delivered(rows):
    cut(rows, [4, 5])
    with pipeline(batch_size=4, dtype="u16", on_error="skip") as p:
        p.push([sample(rows, k) for k in range(6)])
        p.flush()
        assert [indices for _, indices, _, _ in all_batches(p)] == [(0, 1, 2, 3)]
        p.push([sample(rows, k) for k in range(6, 10)])
        assert [(b, i) for b, i, _, _ in all_batches(p)] == [(2, (6, 7, 8, 9))]
        assert p.stats().batches_truncated == 1


def test_a_skipped_batch_does_not_count_among_batches_n(rows):
    cut(rows, [2, 3])
    with pipeline(batch_size=2, dtype="u16", on_error="skip") as p:
        p.push([sample(rows, k) for k in range(8)])
        assert [b.sample_indices for b in p.batches(3) if b.release() is None] == [(0, 1), (4, 5), (6, 7)]


def test_a_skipped_batch_holds_no_slot(rows):
    cut(rows, [0, 1])
    with pipeline(batch_size=2, dtype="u16", on_error="skip", n_batches=1) as p:
        p.push([sample(rows, k) for k in range(4)])
        batch = p.pop()
        assert batch.sample_indices == (2, 3)


def test_errors_of_push_are_raised_with_skip_too(rows):
    with pipeline(batch_size=2, dtype="u16", on_error="skip") as p:
        with pytest.raises(damacy.InvalidArgument):
            p.push([sample(rows, 0), sample(rows, 40)])
        p.push([sample(rows, 1)])
        assert drained(p) == [[0, 6]]


WARNINGS = """
import logging, sys
import damacy
from support.streaming import pipeline
class Kept(logging.Handler):
    said = []
    def emit(self, record):
        self.said.append(record.getMessage())
logging.getLogger("damacy").addHandler(Kept())
with pipeline(batch_size=4, dtype="u16", on_error="skip") as p:
    p.push(damacy.Sample(uri=sys.argv[1], aabb=[(k, k + 1), (0, 6)]) for k in range(40))
    try:
        p.pop()
    except damacy.TryAgain:
        pass
    assert p.stats().samples_skipped == 40
said = Kept.said
assert 11 <= len(said) <= 39, said
assert all("\\n" not in line for line in said)
assert any(line.startswith("skipped: sample 0: ") and "c/0/0" in line for line in said), said[0]
assert any("more in the same second" in line for line in said), said[-1]
"""


def test_warnings_name_the_sample_and_are_limited(rows):
    """In a process of its own: ten records of a kind are logged per second, then the number of further ones."""
    cut(rows, range(40))
    child.run_well(WARNINGS, rows.path)
