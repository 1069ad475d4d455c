"""Buffers, caches and quantities over time: buffers return to the pool, and caches stay bounded."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

from damacy import halo
from damacy.halo import buffer as buffers
from damacy.halo import data_transformer

ALL = (slice(None), slice(None))


@pytest.fixture(autouse=True)
def empty_pool():
    halo.BUFFER_CACHE.clear()
    yield
    halo.BUFFER_CACHE.clear()


def transformer(shape=(4, 5), dtype="f8"):
    q = halo.Quantity(np.zeros(shape, dtype), ("j", "i")).halo_spec(0)
    return halo.HaloDataTransformer.get(np, [halo.HaloExchangeSpec(q, ALL, 0, ALL)])


def test_the_newest_idle_buffer_is_lent_first_and_keeps_its_contents():
    first, second = (halo.Buffer.pop_from_cache(np.zeros, (3,), "f8") for _ in range(2))
    assert first._key == (np.zeros, (3,), "f8")
    second.array[:] = 7
    halo.Buffer.push_to_cache(first)
    halo.Buffer.push_to_cache(second)
    halo.Buffer.push_to_cache(second)
    assert halo.BUFFER_CACHE[(np.zeros, (3,), "f8")] == [first, second]
    assert halo.Buffer.pop_from_cache(np.zeros, (3,), "f8") is second
    assert second.array.tolist() == [7, 7, 7]


def test_allocators_that_give_other_memory_orders_are_refused():
    with pytest.raises(ValueError, match="C-contiguous"):
        halo.Buffer.pop_from_cache(lambda shape, dtype: np.zeros(shape, dtype, order="F"), (3, 4), "f8")


def test_buffers_return_from_context_managers_on_errors_too():
    with pytest.raises(KeyError), halo.array_buffer(np.zeros, (2,), "f8") as lent:
        raise KeyError
    assert halo.BUFFER_CACHE[lent._key] == [lent]


class Timer:
    def __init__(self):
        self.seen = []

    def clock(self, name):
        self.seen.append(name)
        import contextlib

        return contextlib.nullcontext()


def test_send_and_receive_buffers_copy_only_what_is_not_contiguous():
    timer, array = Timer(), np.arange(12.0).reshape(3, 4)
    with halo.send_buffer(np.zeros, array, timer) as sent, halo.recv_buffer(np.zeros, None, timer) as nothing:
        assert sent is array
        assert nothing is None
    with halo.send_buffer(np.zeros, array.T, timer) as sent:
        assert sent.flags.c_contiguous
        assert np.array_equal(sent, array.T)
    with halo.recv_buffer(np.zeros, array.T, timer) as received:
        received[...] = 5
    assert (array == 5).all()
    assert timer.seen == ["pack", "unpack"]


def test_buffers_assign_slices_and_shapes():
    with halo.array_buffer(np.zeros, (6,), "f8") as buffer:
        buffer.assign_from(np.arange(3.0), np.index_exp[3:])
        out = np.zeros((3, 2))
        buffer.assign_to(out, buffer_reshape=(3, 2))
        buffer.finalize_memory_transfer()
    assert out.tolist() == [[0, 0], [0, 0], [1, 2]]


def test_idle_bytes_stay_under_the_limit(monkeypatch):
    monkeypatch.setenv("DAMACY_HALO_POOL_BYTES", "1000")
    lent = [halo.Buffer.pop_from_cache(np.zeros, (n,), "f8") for n in (50, 51, 52)]
    for b in lent:
        halo.Buffer.push_to_cache(b)
    idle = [b for listed in halo.BUFFER_CACHE.values() for b in listed]
    assert idle == lent[1:]


@pytest.mark.parametrize("empty", [lambda key: halo.BUFFER_CACHE[key].clear(), lambda key: halo.BUFFER_CACHE.pop(key)])
def test_idle_bytes_are_counted_once_if_lists_are_emptied_by_hand(empty):
    buffer = halo.Buffer.pop_from_cache(np.zeros, [3], "f8")
    for _ in range(3):
        halo.Buffer.push_to_cache(buffer)
        assert buffers._pool.idle_bytes(None) == 24
        empty(buffer._key)


def test_keys_of_buffers_that_were_never_returned_are_removed():
    held = [halo.Buffer.pop_from_cache(np.empty, (n,), "u1") for n in range(100)]
    for n in range(100, 2 * buffers._pool.most_keys):
        halo.Buffer.pop_from_cache(np.empty, (n,), "u1")
    assert len(halo.BUFFER_CACHE) <= buffers._pool.most_keys
    assert all(buffer._key in halo.BUFFER_CACHE for buffer in held)


def test_above_the_limit_of_keys_unused_ones_are_removed(monkeypatch):
    monkeypatch.setattr(buffers._pool, "most_keys", 10)
    monkeypatch.setenv("DAMACY_HALO_POOL_BYTES", "300")
    held = [halo.Buffer.pop_from_cache(np.empty, (n,), "u1") for n in range(8)]
    for n in range(8, 60):
        with halo.array_buffer(np.empty, (n,), "u1"):
            unused = [k for k, idle in halo.BUFFER_CACHE.items() if not idle and not buffers._pool.is_lent(k)]
            assert len(halo.BUFFER_CACHE) <= 10 or not unused
    del held


def test_a_limit_that_is_not_a_number_is_refused_with_its_name(monkeypatch):
    monkeypatch.setenv("DAMACY_HALO_POOL_BYTES", "1 GB")
    with pytest.raises(ValueError, match="DAMACY_HALO_POOL_BYTES='1 GB'"):
        halo.Buffer.push_to_cache(halo.Buffer.pop_from_cache(np.zeros, (3,), "f8"))


def test_a_transformer_returns_only_buffers_that_it_still_holds():
    t = transformer()
    pack = t._pack_buffer
    halo.Buffer.push_to_cache(pack)
    taken = halo.Buffer.pop_from_cache(*pack._key)
    assert taken is pack
    t.finalize()
    assert all(b is not pack for b in halo.BUFFER_CACHE[pack._key])


def test_deleting_or_leaving_a_transformer_releases_its_buffers():
    for _ in range(3):
        with transformer() as t:
            key = t._pack_buffer._key
        assert len(halo.BUFFER_CACHE[key]) == 2
    t = transformer()
    assert halo.BUFFER_CACHE[key] == []
    del t
    gc.collect()
    assert len(halo.BUFFER_CACHE[key]) == 2


def test_many_distinct_specs_leave_the_caches_bounded(monkeypatch):
    monkeypatch.setattr(buffers._pool, "most_keys", 64)
    for n in range(3000):
        transformer((1 + n % 60, 1 + n // 60)).finalize()
    assert len(halo.INDICES_CACHE) <= 1024
    assert len(halo.BUFFER_CACHE) <= 2 * 64 + 1


def test_caches_may_be_cleared_at_any_time():
    t, a = transformer(), np.arange(20.0).reshape(4, 5)
    halo.INDICES_CACHE.clear()
    halo.BUFFER_CACHE.clear()
    halo.STREAM_POOL.clear()
    t.async_pack([a])
    t.async_pack([np.asfortranarray(a)])
    assert t.get_pack_buffer().array.tolist() == list(range(20))
    t.finalize()


def test_other_strides_are_compiled_once():
    a = np.arange(20.0).reshape(4, 5)
    with transformer() as t:
        halo.INDICES_CACHE.clear()
        for _ in range(3):
            t.async_pack([np.asfortranarray(a)])
            assert t.get_pack_buffer().array.tolist() == list(range(20))
        assert len(halo.INDICES_CACHE) == 1


class Ndsl:
    """A quantity like NDSL's: `data`, `dims`, and views that must not be read."""

    def __init__(self, data):
        self.data, self.dims = data, ("j", "i")


class Indexed:
    def __init__(self, data):
        self._data = data

    def __getitem__(self, index):
        return self._data[index]


@pytest.mark.parametrize("wrap", [Ndsl, Indexed, lambda a: halo.Quantity(a, ("j", "i")), memoryview])
def test_any_object_with_an_array_is_a_quantity(wrap):
    a = np.arange(20.0).reshape(4, 5)
    with transformer() as t:
        t.async_pack([wrap(a)])
        assert t.get_pack_buffer().array.tolist() == list(range(20))


def test_bound_calls_and_pack_many_equal_single_calls():
    a, b = np.arange(20.0).reshape(4, 5), np.arange(20.0, 40).reshape(4, 5)
    with transformer() as s, transformer() as t:
        bound = s.bind([a])
        bound.pack()
        assert s.get_pack_buffer().array.tolist() == list(range(20))
        halo.pack_many([(s, [b], None), (t, [a], None)])
        assert s.get_pack_buffer().array.tolist() == list(range(20, 40))
        assert t.get_pack_buffer().array.tolist() == list(range(20))
        s.get_unpack_buffer().array[:] = 1
        t.get_unpack_buffer().array[:] = 2
        halo.unpack_many([(s, [a], None), (t, [b], None)])
        assert (a == 1).all()
        assert (b == 2).all()
        bound.unpack()
        with pytest.raises(ValueError, match="overlap"):
            halo.unpack_many([(s, [a], None), (t, [a], None)])
        assert "rows" in s.describe() or "tiny" in s.describe()


def test_the_number_of_threads_does_not_change_results():
    a = np.random.default_rng(1).random((800, 900))
    try:
        for threads in (1, 3):
            halo.set_num_threads(threads)
            with transformer(a.shape) as t:
                t.async_pack([a.T.copy().T])
                assert np.array_equal(t.get_pack_buffer().array, a.ravel())
    finally:
        halo.set_num_threads(1)
    with pytest.raises(ValueError, match="threads"):
        halo.set_num_threads(0)
    assert data_transformer.num_threads() == 1


def test_transformers_of_different_threads_are_independent():
    def work(value):
        a = np.full((40, 50), float(value))
        for _ in range(200):
            with transformer(a.shape) as t:
                t.async_pack([a])
                if not (t.get_pack_buffer().array == value).all():
                    wrong.append(value)

    wrong = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_interpreter_may_end_with_transformers_alive():
    program = """
import numpy as np
from damacy import halo
q = halo.Quantity(np.zeros((4, 5)), ("j", "i")).halo_spec(0)
t = halo.HaloDataTransformer.get(np, [halo.HaloExchangeSpec(q, (slice(None),) * 2, 0, (slice(None),) * 2)])
t.async_pack([np.zeros((4, 5))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
