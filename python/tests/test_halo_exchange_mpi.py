"""Exchanges over MPI that fail while packing and are retried, by ranks of one process with a fake mpi4py. Tests with a
real MPI are in tests/end_to_end/test_halo_ranks.py."""

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from damacy import halo
from tests.support import fake_mpi

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def exchangers(monkeypatch):
    """The exchangers of two ranks. Each rank has a halo of one cell of the other rank at both ends."""
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi.module())
    field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
    plans = [halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), rank, 1) for rank in range(2)]
    comms = fake_mpi.Comm.world(2)
    with ThreadPoolExecutor(2) as pool:  # construction compares digests: each rank waits for the other's
        made = list(pool.map(lambda rank: halo.Exchanger(plans[rank], halo.MPI(comms[rank])), range(2)))
    yield made
    for exchanger in made:
        exchanger.close()


def sends(rank, step):
    return 100.0 * rank + step


def array(rank, step):
    return np.full(6, sends(rank, step))


def fail_to_pack(exchanger, arrays, monkeypatch):
    def broken(stream):
        raise MemoryError("no memory to pack")

    with monkeypatch.context() as patched:
        patched.setattr(exchanger, "_way", lambda *_: broken)
        with pytest.raises(MemoryError, match="no memory to pack"):
            exchanger.start(arrays)


@pytest.mark.parametrize("tries", [1, 3])
def test_a_retried_exchange_gets_the_messages_of_a_peer_that_is_ahead(exchangers, monkeypatch, tries):
    steps = [[array(rank, step) for step in range(4)] for rank in range(2)]
    behind, ahead = exchangers
    tokens = [ahead.start([steps[1][0]])]
    for _ in range(tries):
        fail_to_pack(behind, [steps[0][0]], monkeypatch)
    for step in range(4):
        mine = behind.start([steps[0][step]])
        if step:
            tokens.append(ahead.start([steps[1][step]]))
        behind.finish(mine)
        ahead.finish(tokens[-1])
        for rank in range(2):
            assert steps[rank][step].tolist() == [
                sends(1 - rank, step),
                *[sends(rank, step)] * 4,
                sends(1 - rank, step),
            ]


def test_a_retry_keeps_its_place_when_another_exchange_finishes_first(exchangers, monkeypatch):
    """Receives for the second message must not be posted after those for the third."""
    steps = [[array(rank, step) for step in range(4)] for rank in range(2)]
    behind, ahead = exchangers
    theirs = [ahead.start([steps[1][0]]), ahead.start([steps[1][1]])]
    first = behind.start([steps[0][0]])
    fail_to_pack(behind, [steps[0][1]], monkeypatch)
    behind.finish(first)
    ahead.finish(theirs[0])
    second = behind.start([steps[0][1]])
    third = behind.start([steps[0][2]])
    ahead.finish(theirs[1])
    theirs.append(ahead.start([steps[1][2]]))
    for token in (second, third):
        behind.finish(token)
    ahead.finish(theirs[2])
    for step in range(3):
        assert [steps[rank][step][0] for rank in range(2)] == [sends(1, step), sends(0, step)]


def test_ranks_may_start_exchangers_in_another_order(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi.module())
    field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
    plans = [halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), rank, 1) for rank in range(2)]
    transports = [halo.MPI(comm) for comm in fake_mpi.Comm.world(2)]

    def made(rank):
        return [halo.Exchanger(plans[rank], transports[rank]) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(made, range(2)))
    steps = [[array(rank, n) for n in range(2)] for rank in range(2)]
    tokens = [{n: both[rank][n].start([steps[rank][n]]) for n in ((0, 1), (1, 0))[rank]} for rank in range(2)]
    for rank in range(2):
        for n in range(2):
            both[rank][n].finish(tokens[rank][n])
            assert steps[rank][n][0] == sends(1 - rank, n)
            both[rank][n].close()


def test_an_exchanger_closes_with_receives_of_a_failed_exchange_posted(exchangers, monkeypatch):
    fail_to_pack(exchangers[0], [array(0, 0)], monkeypatch)
    exchangers[0].close()
    with pytest.raises(RuntimeError, match="closed"):
        exchangers[0].start([array(0, 0)])


def test_a_duplicated_communicator_is_freed_with_its_last_user(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi.module())
    (comm,) = fake_mpi.Comm.world(1)
    transport = halo.MPI(comm)
    plan = halo.compile([halo.Field.like(np.zeros(6), ("i",), (1,), (4,))], halo.Links([], ("i",)), 0, 1)
    exchanger = halo.Exchanger(plan, transport)
    del transport
    gc.collect()
    assert comm.duplicates == 1
    exchanger.close()
    gc.collect()
    assert comm.duplicates == 0


def test_a_link_without_its_counterpart_raises_instead_of_hanging(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi.module())
    comms = fake_mpi.Comm.world(2)
    field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
    link = halo.Link(1, (1,), (-1,), 0, ((3, 4),), ((4, 5),))
    plan = halo.compile([field], halo.Links([[link], []], ("i",)), 0, 1)
    with pytest.raises(
        RuntimeError, match=r"rank 0 timed out after 0 s: ranks \[1\] have no exchanger with links to it"
    ):
        halo.Exchanger(plan, halo.MPI(comms[0], timeout_s=0))
    gc.collect()
    assert comms[0].duplicates == 1  # freed, its context id would be used again, with the message that is left


def test_a_transport_whose_peer_was_late_refuses_another_exchanger(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi.module())
    transport = halo.MPI(fake_mpi.Comm.world(2)[0], timeout_s=0)
    field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
    plan = halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), 0, 1)
    with pytest.raises(RuntimeError, match="timed out"):
        halo.Exchanger(plan, transport)
    with pytest.raises(RuntimeError, match="could not be constructed, .* make another transport, on all ranks"):
        halo.Exchanger(plan, transport)


def test_names_of_python_are_made_with_the_gil():
    """Python's allocator checks it in this mode. Without it Python 3.12 ends in the first exchange."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "retried and 1"]
    checked = os.environ | {"PYTHONMALLOC": "debug"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=50, env=checked)
    assert ran.returncode == 0, ran.stdout + ran.stderr
