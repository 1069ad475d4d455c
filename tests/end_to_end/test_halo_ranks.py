"""Exchanges between processes: ranks of MPICH, Open MPI and gloo give the halos of one process. Tests whose library is
missing are skipped with the reason. Lines that several ranks print may be interleaved.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import mpi

pytestmark = pytest.mark.timeout(180)  # of which the programs themselves take a few seconds
ROOT = Path(__file__).resolve().parents[2]
with_each_mpi = pytest.mark.parametrize("name", mpi.names())
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is needed")


def run(*command):
    path = f"{ROOT / 'python'}{os.pathsep}{ROOT}"
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def run_ranks(name, ranks, *command):
    return mpi.run(name, ranks, sys.executable, *command, timeout=170)


GRID = """
import sys, threading
import numpy as np
from damacy import halo

def fields(rank):
    rng = np.random.default_rng(rank)
    return [rng.random((7 + 2, 6 + 4, 3)), rng.integers(0, 99, (9, 10, 3)).astype("int32")]

def plan(rank, arrays, corners):
    like = [halo.Field.like(a, ("j", "i", "k"), (1, 2, 0), (7, 6, 3)) for a in arrays]
    grid = halo.Cartesian((2, 2), (True, False), corners=corners)
    return halo.compile(like, grid, rank, (1, 2))

def alone(corners):
    local, out = halo.Local(4), [fields(r) for r in range(4)]
    def work(r):
        with halo.Exchanger(plan(r, out[r], corners), local) as e:
            e.exchange(out[r]); e.exchange(out[r])
    threads = [threading.Thread(target=work, args=(r,)) for r in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    return out

def compare(rank, transport):
    for corners in ("direct", "sequential", "none"):
        mine = fields(rank)
        with halo.Exchanger(plan(rank, mine, corners), transport) as e:
            first, second = e.start(mine), e.start(mine)
            e.finish(first); e.finish(second)
            flights = [[a * n for a in mine] for n in (1, 2, 3, 4)]
            for pair in (flights[:2], flights[2:]):
                tokens = [e.start(flight) for flight in pair]
                backwards = corners != "sequential" and rank % 2
                for token in (tokens[::-1] if backwards else tokens): e.finish(token)
        assert all(np.array_equal(a, b * n) for n, flight in zip((1, 2, 3, 4), flights) for a, b in zip(flight, mine))
        for a, b in zip(mine, alone(corners)[rank]):
            assert np.array_equal(a, b), (rank, corners)
"""


@with_each_mpi
def test_mpi_ranks_give_the_halos_of_one_process(name):
    program = (
        GRID + "from mpi4py import MPI\ncompare(MPI.COMM_WORLD.Get_rank(), halo.MPI(MPI.COMM_WORLD))\nprint('same')"
    )
    assert run_ranks(name, 4, "-c", program).count("same") == 4


@with_each_mpi
def test_mpi_ranks_that_disagree_both_raise(name):
    program = """
import numpy as np
from mpi4py import MPI
from damacy import halo
rank = MPI.COMM_WORLD.Get_rank()
field = halo.Field.like(np.zeros(6, ("f4", "f8")[rank]), ("i",), (1,), (4,))
plan = halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), rank, 1)
try:
    halo.Exchanger(plan, halo.MPI(MPI.COMM_WORLD))
except RuntimeError as error:
    print("refused" if "do not agree" in str(error) else error)
"""
    assert run_ranks(name, 2, "-c", program).count("refused") == 2


@with_each_mpi
def test_mpi_ranks_with_one_sided_links_raise_and_leave_no_message_to_later_exchangers(name):
    program = """
import numpy as np
from mpi4py import MPI
from damacy import halo
comm, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.Get_rank()
field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
link = halo.Link(1, (1,), (-1,), 0, ((3, 4),), ((4, 5),))
plan = halo.compile([field], halo.Links([[link], []], ("i",)), rank, 1)
try:
    halo.Exchanger(plan, halo.MPI(comm, timeout_s=0.2))
    print("without peers" if rank == 1 else "not refused")
except RuntimeError as error:
    print("timed out" if "[1] have no exchanger with links to it" in str(error) else error)
comm.Barrier()
plan = halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), rank, 1)
for _ in range(50):
    with halo.Exchanger(plan, halo.MPI(comm)) as exchanger:
        pass
print("freed")
"""
    said = run_ranks(name, 2, "-c", program)
    assert [said.count(word) for word in ("timed out", "without peers", "freed")] == [1, 1, 2]


@with_each_mpi
@pytest.mark.parametrize("end", ["exchanger.close()", "del exchanger, token"])
def test_an_exchange_over_mpi_may_be_cancelled_in_flight(name, end):
    """Buffers that MPI may still read are kept; receives that would still write are cancelled."""
    program = f"""
import numpy as np
from mpi4py import MPI
from damacy import halo
from damacy.halo import transports
comm = MPI.COMM_WORLD
received, make = [], transports._OwnComm.requests
def watched(self, send, receive):
    received.extend(buffer for _, buffer, _ in receive)
    return make(self, send, receive)
transports._OwnComm.requests = watched
array = np.full((200_000, 4), 5.0)  # too much for MPI to send before it is received
field = halo.Field.like(array, ("k", "i"), (0, 1), (200_000, 2))
plan = halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), comm.Get_rank(), 1)
exchanger = halo.Exchanger(plan, halo.MPI(comm))
if comm.Get_rank() == 0:
    token = exchanger.start([array])
    {end}
    later = [np.full(400_000, 7.0) for _ in range(10)]
comm.Barrier()
if comm.Get_rank() == 1:
    token = exchanger.start([array])
    while not any(len(view) > 1000 and (np.frombuffer(view) == 5).all() for view in received):
        comm.Iprobe()  # lets MPI go on
    exchanger.close()
comm.Barrier()
assert comm.Get_rank() or all((memory == 7).all() for memory in later)
print("whole")
"""
    assert run_ranks(name, 2, "-c", program).count("whole") == 2


@with_each_mpi
def test_a_retried_exchange_over_mpi_gets_the_messages_of_a_peer_that_is_ahead(name):
    program = """
import numpy as np
from mpi4py import MPI
from damacy import halo
comm = MPI.COMM_WORLD
rank = comm.Get_rank()
field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
plan = halo.compile([field], halo.Cartesian((2,), True, dims=("i",)), rank, 1)
exchanger = halo.Exchanger(plan, halo.MPI(comm))
steps = [np.full(6, 100.0 * rank + n) for n in range(3)]
if rank == 1:
    token = exchanger.start([steps[0]])
comm.Barrier()  # rank 1 is ahead: its first message has been sent
if rank == 0:
    make = exchanger._way
    exchanger._way = lambda *_: lambda stream: 1 / 0
    for _ in range(2):
        try:
            exchanger.start([steps[0]])
        except ZeroDivisionError:
            pass
    comm.Send(np.zeros(1), 1)  # by now MPI has matched what it was going to match
    exchanger._way = make
    token = exchanger.start([steps[0]])
else:
    comm.Recv(np.zeros(1), 0)
for n in range(3):
    exchanger.finish(token)
    if n < 2:
        token = exchanger.start([steps[n + 1]])
got = [a[0] == a[5] == 100.0 * (1 - rank) + n for n, a in enumerate(steps)]
print("right" if all(got) else steps)
exchanger.close()
"""
    assert run_ranks(name, 2, "-c", program).count("right") == 2


@needs_torch
def test_gloo_ranks_give_the_halos_of_one_process(tmp_path):
    program = tmp_path / "ranks.py"
    program.write_text(
        GRID
        + "import os\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
        + "compare(int(os.environ['RANK']), halo.TorchDistributed(dist.new_group([0, 1, 2, 3])))\n"
        + "dist.barrier()\nif os.environ['RANK'] == '0': print('same')\ndist.destroy_process_group()\n"
    )
    assert "same" in run(
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", program
    )


@needs_torch
def test_a_gloo_rank_whose_peer_has_no_exchanger_raises(tmp_path):
    program = tmp_path / "ranks.py"
    program.write_text(r"""
import re
import numpy as np
import torch.distributed as dist
from damacy import halo
dist.init_process_group("gloo")
rank, group = dist.get_rank(), dist.new_group([0, 1, 2])
field = halo.Field.like(np.zeros(6), ("i",), (1,), (4,))
plan = halo.compile([field], halo.Cartesian((3,), True, dims=("i",)), rank, 1)
if rank != 1:
    try:
        halo.Exchanger(plan, halo.TorchDistributed(group, timeout_s=2))
    except RuntimeError as error:
        late = r"timed out after 2 s: ranks \[(0, )?1(, 2)?\] have no exchanger"  # 0 and 2 may be slow
        print("timed out" if re.search(late, str(error)) else error)
dist.barrier()
dist.destroy_process_group()
""")
    said = run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", program)
    assert said.count("timed out") == 2


@with_each_mpi
def test_advection_over_mpi_equals_that_of_one_process(name, tmp_path):
    example = ROOT / "examples/halo/cubed_sphere_advection.py"
    small = ["--n", "12", "--steps", "30"]
    run(sys.executable, example, *small, "--out", tmp_path / "one.npz")
    said = run_ranks(name, 6, example, *small, "--compare", tmp_path / "one.npz")
    assert "equal, bit for bit" in said


@needs_torch
def test_a_convolution_over_two_gloo_ranks_equals_that_of_one():
    example = ROOT / "examples/halo/sharded_conv3d.py"
    said = run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", example)
    assert said.count("equal") == 4


@needs_torch
def test_the_bench_of_exchanges_runs_to_its_end(tmp_path):
    out = tmp_path / "result.json"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run(*launch, "-m", "bench.halo_nccl", "--device", "cpu", "--cells", "8", "--repeat", "2", "--out", out)
    (row,) = json.loads(out.read_text())["rows"]
    assert row["bytes"] >= 2 * 10 * 3 * (8 + 2 * 3) * 79 * 8  # with corners, and gaps between blocks
