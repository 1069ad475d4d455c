"""Slots beyond `n_batches` while batches are held: up to `keep_bytes`, and freed when they are not needed."""

import logging

import numpy as np
import pytest
from support.line import Source, endless, numbers, popped
from support.streaming import LAZY, pipeline, set_natively

import damacy
from damacy._core.sizes import size_text

SLOT_BYTES = 256  # a batch of a few one-element rows, rounded up


@pytest.fixture(params=["host", "lazy"])
def anywhere(request, monkeypatch):
    """The worker engine, and the stream engine on a lazy host device."""
    if request.param == "lazy":
        set_natively(monkeypatch, **LAZY)


def refused(p) -> str:
    with pytest.raises(damacy.TryAgain) as caught:
        p.pop()
    assert caught.value.reason == "held" and caught.value.what == "pop"
    return caught.value.message if hasattr(caught.value, "message") else str(caught.value)


def expect_kept(batches) -> None:
    for k, batch in enumerate(batches):
        assert numbers(batch) == [2 * k, 2 * k + 1]


@pytest.mark.parametrize("n_batches", [1, 2, 3])
def test_batches_are_kept_up_to_the_cap_with_their_contents(line, anywhere, n_batches):
    with pipeline(n_batches=n_batches, keep_bytes=5 * SLOT_BYTES + SLOT_BYTES - 1) as p:
        p.push(Source(endless(line)))
        held = []
        for _ in range(n_batches + 5):
            held.append(p.pop())
            assert p.stats().kept_bytes_committed <= 5 * SLOT_BYTES
        expect_kept(held)
        text = refused(p)
        assert f"{n_batches} slots and 5 added ones (keep_bytes {5 * SLOT_BYTES + SLOT_BYTES - 1})" in text
        assert f"drop batches 0, 1, 2 (+{n_batches + 2} more), or raise keep_bytes" in text
        assert p.stats().slots_added == 5 and p.stats().slots_dropped == 0
        expect_kept(held)
        held.pop()
        held.append(p.pop())  # no batch was lost
        assert numbers(held[-1]) == [2 * (n_batches + 5), 2 * (n_batches + 5) + 1]


def test_without_keep_bytes_a_pipeline_adds_no_slots(line):
    for given in ({}, {"keep_bytes": 0}, {"keep_bytes": None}):
        with pipeline(**given) as p:
            p.push(Source(endless(line)))
            held = [p.pop(), p.pop()]
            assert "release batch 0, 1 and drop their tensors, or raise n_batches" in refused(p)
            assert p.stats().slots_added == 0
            del held


@pytest.mark.parametrize("n_batches", [2, 3])
def test_a_loop_that_keeps_the_last_batch_adds_no_slots(line, anywhere, n_batches):
    with pipeline(n_batches=n_batches, keep_bytes="1GiB") as p:
        p.push(Source(endless(line)))
        kept = None
        for k in range(100):
            batch = p.pop()
            assert numbers(batch) == [2 * k, 2 * k + 1]
            kept = batch
        del kept, batch
        assert p.stats().slots_added == 0


def test_a_slot_is_added_before_the_consumer_holds_all_so_that_reading_continues(line):
    with pipeline(n_batches=3, keep_bytes="1MiB") as p:
        p.push(Source(endless(line)))
        held = [p.pop(), p.pop()]
        assert p.stats().slots_added == 0  # one of three slots is still free, as when the second pop began
        held.append(p.pop())
        assert p.stats().slots_added == 1
        expect_kept(held)


def test_an_added_slot_is_dropped_after_64_batches_without_use(line, anywhere):
    with pipeline(keep_bytes="1MiB") as p:
        p.push(Source(endless(line)))
        held = [p.pop() for _ in range(6)]
        added = p.stats().slots_added
        assert added == p.stats().kept_bytes_committed // SLOT_BYTES >= 4
        del held
        for _ in range(63):
            popped(p)
        assert p.stats().slots_dropped == 0
        for _ in range(added + 4):
            popped(p)
        stats = p.stats()
        assert (stats.slots_added, stats.slots_dropped, stats.kept_bytes_committed) == (added, added, 0)
        assert stats.gpu_bytes_committed >= 2 * SLOT_BYTES
        assert popped(p)[1] == popped(p)[0] - 1


def test_added_slots_do_not_make_it_read_further_ahead(line):
    with pipeline(keep_bytes="1MiB") as p:
        source = Source(endless(line))
        p.push(source)
        held = [p.pop() for _ in range(8)]
        del held
        before = source.taken
        for k in range(1, 33):
            popped(p)
            assert source.taken - before <= 2 * k + 2 * 2 + 2 * 2  # lookahead_batches and n_batches


def test_the_error_of_a_cap_below_one_batch_names_the_size_of_a_batch(line):
    with pipeline(keep_bytes=SLOT_BYTES - 1) as p:
        p.push(Source(endless(line)))
        held = [p.pop(), p.pop()]
        text = refused(p)
        assert "2 slots and 0 added ones (keep_bytes 255): drop batches 0, 1, or raise keep_bytes" in text
        assert "one batch takes 256 bytes" in text
        del held


def test_max_gpu_memory_bytes_bounds_slots_and_added_ones_together(line):
    buffers = 1 << 20
    most = buffers + 4 * SLOT_BYTES
    given = {"host_buffer_bytes": buffers, "device_buffer_bytes": buffers, "max_gpu_memory_bytes": most}
    with pipeline(keep_bytes="1GiB", **given) as p:
        p.push(Source(endless(line)))
        held = [p.pop() for _ in range(4)]
        text = refused(p)
        assert f"max_gpu_memory_bytes {most} leaves {2 * SLOT_BYTES}" in text and "raise max_gpu_memory_bytes" in text
        assert p.stats().gpu_bytes_committed <= most
        expect_kept(held)


def test_kept_batches_outlive_the_pipeline(line, anywhere):
    with pipeline(keep_bytes="1MiB") as p:
        p.push(Source(endless(line)))
        held = [p.pop() for _ in range(20)]
        views = [np.from_dlpack(batch) for batch in held[:10]]
    expect_kept(held)
    del held
    assert [view[0, 0] for view in views] == [2 * k + 1 for k in range(10)]


def test_added_slots_are_counted_and_logged(line, caplog):
    caplog.set_level(logging.INFO, logger="damacy")
    with pipeline(keep_bytes="1MiB") as p:
        p.push(Source(endless(line)))
        held = [p.pop() for _ in range(3)]
        first = [r for r in caplog.records if "a slot was added" in r.message]
        assert [r.levelname for r in first] == ["INFO"] and "the consumer holds 2 batches" in first[0].message
        held += [p.pop() for _ in range(20)]
        p.stats()
        assert len([r for r in caplog.records if "a slot was added" in r.message]) == 1
        many = [r for r in caplog.records if "8 slots were added" in r.message]
        assert [r.levelname for r in many] == ["WARNING"] and "the consumer holds 9 batches" in many[0].message
        explained = str(p.explain())
        added = p.stats().slots_added
        assert f"It keeps batches, and holds 23 now: {added} slots are added" in explained
        assert f"{size_text(added * SLOT_BYTES)} of at most 1.0 MiB (keep_bytes)" in explained
        assert f"slots_added: {added}" in str(p.stats())
        p.stats_reset()
        assert p.stats().slots_added == 0 and p.stats().kept_bytes_committed == added * SLOT_BYTES
        expect_kept(held)


def test_explain_does_not_mention_kept_batches_if_there_are_none(line):
    with pipeline(keep_bytes="1MiB") as p:
        p.push(Source(endless(line)))
        popped(p)
        assert "keep_bytes" not in str(p.explain())


def test_failed_batches_neither_add_slots_nor_lose_any(volume, anywhere):
    volume.object(0, 0).write_bytes(b"short")
    with pipeline(batch_size=1, keep_bytes="1MiB", dtype="u16") as p:
        p.push([volume.sample((0, 4), (c, c + 4)) for c in (16, 0, 32, 0, 48, 0, 16)])
        held, failed = [], 0
        while len(held) + failed < 7:
            try:
                held.append(p.pop())
            except damacy.StorageError:
                failed += 1
        assert failed == 3
        for batch, c in zip(held, (16, 32, 48, 16)):
            assert (batch.numpy()[0] == volume.row(((0, 4), (c, c + 4)), "uint16")).all()
