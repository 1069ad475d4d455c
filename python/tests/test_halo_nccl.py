"""Exchanges over a fake NCCL, by threads of one process with arrays in host memory. tests/gpu/test_halo_nccl.py has the
real one."""

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from damacy import DamacyError, halo
from damacy.halo import transports

pytestmark = pytest.mark.timeout(120)
ROOT = Path(__file__).resolve().parents[2]
HOST = -1


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The fake, with its controls. It is compiled here, because an installed package has none."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("a C++ compiler is needed")
    out = tmp_path_factory.mktemp("nccl") / "libfake_nccl.so"
    source = ROOT / "tests/fakes/libnccl/fake_libnccl.cpp"
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", "-I", ROOT / "tests", source, "-o", out], check=True)
    controls = ctypes.CDLL(str(out))
    controls.fake_nccl_calls.restype = ctypes.c_uint64
    controls.path = str(out)
    return controls


def on_ranks(count, work):
    """Calls work(rank, broadcast) on a thread for each rank; its results, or the first error."""
    barrier, shared, results, errors = threading.Barrier(count), {}, [None] * count, []

    def run(rank):
        def broadcast(own):
            if rank == 0:
                shared["id"] = own
            barrier.wait(60)
            return shared["id"]

        try:
            results[rank] = work(rank, broadcast)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    [thread.start() for thread in threads]
    [thread.join(100) for thread in threads]
    if errors:
        raise errors[0]
    return results


def plan(rank, ranks, corners="direct", dtype="f8"):
    array = np.zeros((4, 5 + 2), dtype)
    field = halo.Field.like(array, ("j", "i"), (0, 1), (4, 5))
    return halo.compile([field], halo.Cartesian((ranks,), True, dims=("i",), corners=corners), rank, 1)


def cells(rank, n):
    return np.arange(28.0).reshape(4, 7) + 1000 * rank + 100 * n


@pytest.mark.parametrize("corners", ["direct", "sequential"])
def test_halos_are_those_of_the_local_transport(library, corners):
    def over(transport, rank):
        with halo.Exchanger(plan(rank, 3, corners), transport) as exchanger:
            arrays = [cells(rank, n) for n in range(5)]
            exchanger.exchange(arrays[:1])
            first, second = exchanger.start(arrays[1:2]), exchanger.start(arrays[2:3])
            exchanger.finish(first)
            exchanger.finish(second)
            bound = exchanger.bind(arrays[3:4])
            bound.exchange()
            return arrays[:4]

    def over_nccl(rank, broadcast):
        transport = halo.NCCL((rank, 3, broadcast), device=HOST, library=library.path)
        return over(transport, rank)

    local = halo.Local(3)
    expected = on_ranks(3, lambda rank, _: over(local, rank))
    for mine, theirs in zip(on_ranks(3, over_nccl), expected):
        for a, b in zip(mine, theirs):
            assert np.array_equal(a, b)


def test_an_exchange_is_one_group(library):
    def work(rank, broadcast):
        transport = halo.NCCL((rank, 1, broadcast), device=HOST, library=library.path)
        with halo.Exchanger(plan(rank, 1), transport) as exchanger:
            exchanger.exchange([cells(rank, 0)])  # all messages stay on this rank

    before = library.fake_nccl_calls(b"ncclGroupStart")
    on_ranks(1, work)
    assert library.fake_nccl_calls(b"ncclGroupStart") == before
    assert library.fake_nccl_communicators() == 0


def test_ranks_that_disagree_both_raise(library):
    def work(rank, broadcast):
        transport = halo.NCCL((rank, 2, broadcast), device=HOST, library=library.path)
        with pytest.raises(RuntimeError, match=f"rank {rank} and rank {1 - rank} do not agree"):
            halo.Exchanger(plan(rank, 2, dtype=("f8", "f4")[rank]), transport)

    on_ranks(2, work)


def test_a_call_that_fails_is_named_with_the_text_of_nccl_and_the_rank(library):
    library.fake_nccl_fail(b"ncclCommInitRank", 1, 2)
    with pytest.raises(RuntimeError, match="rank 0: ncclCommInitRank failed: unhandled system error") as caught:
        halo.NCCL((0, 1, lambda own: own), device=HOST, library=library.path)
    assert isinstance(caught.value, DamacyError) and caught.value.reason == "nccl"


def test_a_missing_rank_ends_in_a_timeout(library):
    with pytest.raises(RuntimeError, match="rank 0 timed out after 50 ms: not all of the 2 ranks") as caught:
        halo.NCCL((0, 2, lambda own: own), device=HOST, library=library.path, timeout_s=0.05)
    assert isinstance(caught.value, DamacyError)
    library.fake_nccl_end_waits()


def test_a_library_that_cannot_be_loaded_is_named():
    with pytest.raises(NotImplementedError, match=r"NCCL cannot be loaded: /nowhere/libnccl.so.*pip install") as caught:
        halo.NCCL((0, 1, lambda own: own), device=HOST, library="/nowhere/libnccl.so")
    assert isinstance(caught.value, DamacyError) and caught.value.reason == "no-nccl"


def test_groups_and_devices_are_checked(library):
    with pytest.raises(ValueError, match="a communicator of mpi4py"):
        halo.NCCL("world", device=HOST, library=library.path)
    with pytest.raises(ValueError, match="128 bytes of rank 0"):
        halo.NCCL((0, 1, lambda own: own[:5]), device=HOST, library=library.path)
    with pytest.raises(ZeroDivisionError):
        halo.NCCL((0, 1, lambda own: 1 / 0), device=HOST, library=library.path)
    transport = halo.NCCL((0, 1, lambda own: own), device=HOST, library=library.path)
    with pytest.raises(ValueError, match="expected a plan of rank 0"):
        halo.Exchanger(plan(1, 2), transport)
    transport.close()
    with pytest.raises(RuntimeError, match="closed"):
        halo.Exchanger(plan(0, 1), transport)


def test_a_group_of_torch_over_nccl_is_exchanged_over_by_nccl_itself(library, monkeypatch):
    dist = pytest.importorskip("torch.distributed")
    made = []

    class OnHost(halo.NCCL):
        def __init__(self, group, *, device, timeout_s):
            made.append((device, timeout_s))
            super().__init__(group, device=HOST, library=library.path)

    monkeypatch.setattr(transports, "NCCL", OnHost)
    monkeypatch.setattr(dist, "get_backend", lambda group: "nccl")
    monkeypatch.setattr(dist, "get_rank", lambda group: group[0])

    def work(rank, broadcast):
        transport = halo.TorchDistributed((rank, 2, broadcast), timeout_s=7)
        for n in range(2):
            with halo.Exchanger(plan(rank, 2), transport) as exchanger:
                array = cells(rank, n)
                exchanger.exchange([array])
                assert (array[:, 0] == cells(1 - rank, n)[:, 5]).all()

    on_ranks(2, work)
    assert made == [(None, 7)] * 2


def test_a_communicator_of_mpi4py_sends_the_id(library):
    class Comm:
        def Get_rank(self):
            return 0

        def Get_size(self):
            return 1

        def bcast(self, own, root):
            assert root == 0 and len(own) == 128
            return own

    halo.NCCL(Comm(), device=HOST, library=library.path).close()
