"""Exchanges over NCCL between processes with a GPU each. Needs torch, NCCL and two GPUs; with one GPU, only what one
rank can show runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from damacy import _native, halo

torch = pytest.importorskip("torch", reason="the arrays are torch's")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not _native.backend_info()["cuda"], reason="no usable GPU: " + _native.backend_info()["cuda_reason"]
    ),
]
ROOT = Path(__file__).resolve().parents[2]
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs are needed")

START = """
import os, torch, torch.distributed as dist
from damacy import halo
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("gloo")  # only sends the id
transport = halo.NCCL(dist.group.WORLD, timeout_s=20)

def plan_of(array, corners="direct"):
    field = halo.Field.like(array, ("j", "i"), (1, 1), (array.shape[0] - 2, array.shape[1] - 2))
    return halo.compile([field], halo.Cartesian((1, ranks), True, corners=corners), rank, 1)

def filled(value, n=64):
    return torch.full((n, n), float(value), device="cuda")

def right(array, value):
    other = float(value)
    return bool((array[1:-1, 0] == other).all()) and bool((array[1:-1, -1] == other).all())
"""


def run(tmp_path, program):
    file = tmp_path / "ranks.py"
    file.write_text(START + program)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@two_gpus
def test_two_gpus_get_each_others_cells(tmp_path):
    said = run(
        tmp_path,
        """
for corners in ("direct", "sequential"):
    arrays = [filled(100 * rank + n) for n in range(6)]
    with halo.Exchanger(plan_of(arrays[0], corners), transport) as exchanger:
        for n in (0, 1):
            exchanger.exchange([arrays[n]])
        tokens = [exchanger.start([arrays[n]]) for n in (2, 3)]
        for token in tokens:
            exchanger.finish(token)
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        for n in (4, 5):
            for stream in (first, second):
                stream.wait_stream(torch.cuda.current_stream())
            token = exchanger.start([arrays[n]], stream=first)
            exchanger.finish(token, stream=second)
            torch.cuda.current_stream().wait_stream(second)
        torch.cuda.synchronize()
    print("right" if all(right(a, 100 * (1 - rank) + n) for n, a in enumerate(arrays)) else "wrong", flush=True)
dist.barrier()
""",
    )
    assert said.count("right") == 4


@two_gpus
def test_an_exchange_can_be_captured_in_a_graph(tmp_path):
    said = run(
        tmp_path,
        """
array = filled(rank)
with halo.Exchanger(plan_of(array), transport) as exchanger:
    bound = exchanger.bind([array])
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        bound.exchange()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        bound.exchange()
    results = []
    for n in range(5):
        array.fill_(10 * n + rank)
        torch.cuda.synchronize()
        dist.barrier()
        graph.replay()
        torch.cuda.synchronize()
        results.append(right(array, 10 * n + 1 - rank))
    bound.exchange()  # after the graph, without one
    torch.cuda.synchronize()
    del graph
print("right" if all(results) else results, flush=True)
dist.barrier()
""",
    )
    assert said.count("right") == 2


@two_gpus
def test_the_host_does_not_wait_and_a_late_rank_is_waited_for_on_the_device(tmp_path):
    said = run(
        tmp_path,
        """
array = filled(rank)
with halo.Exchanger(plan_of(array), transport) as exchanger:
    bound = exchanger.bind([array])
    bound.exchange()
    torch.cuda.synchronize()
    dist.barrier()
    array.fill_(50 + rank)
    torch.cuda._sleep(400_000_000)
    bound.exchange()
    returned = not torch.cuda.current_stream().query()  # the exchange still waits behind the delay
    torch.cuda.synchronize()
    print("right" if returned and right(array, 51 - rank) else ("wrong", returned), flush=True)
dist.barrier()
""",
    )
    assert said.count("right") == 2


@two_gpus
def test_a_link_without_its_counterpart_raises_after_the_timeout(tmp_path):
    said = run(
        tmp_path,
        """
transport = halo.NCCL(dist.group.WORLD, timeout_s=2)
array = filled(rank)
field = halo.Field.like(array, ("j", "i"), (1, 1), (62, 62))
link = halo.Link(1, (1,), (-1,), 0, ((61, 62),), ((62, 63),))
plan = halo.compile([field], halo.Links([[link], []], ("i",)), rank, 1)
try:
    exchanger = halo.Exchanger(plan, transport)
    print("without peers" if rank == 1 else "not refused", flush=True)
except RuntimeError as error:
    print("timed out" if "timed out after 2000 ms" in str(error) else error, flush=True)
dist.barrier()
os._exit(0)  # the communicator of rank 1 has lost its peer
""",
    )
    assert [said.count(word) for word in ("timed out", "without peers")] == [1, 1]


@two_gpus
def test_connected_ranks_time_out_too_and_the_device_is_free_afterwards(tmp_path):
    said = run(
        tmp_path,
        """
transport = halo.NCCL(dist.group.WORLD, timeout_s=2)
array = filled(rank)
exchanger = halo.Exchanger(plan_of(array), transport)
exchanger.exchange([array])
torch.cuda.synchronize()
if rank == 0:
    try:
        halo.Exchanger(plan_of(array), transport)
        print("not refused", flush=True)
    except RuntimeError as error:
        print("timed out" if "timed out after 2000 ms" in str(error) else error, flush=True)
    try:
        exchanger.exchange([array])
    except RuntimeError as error:
        print("refused" if "timed out after 2000 ms" in str(error) else error, flush=True)
    torch.cuda.synchronize()
    print("synchronized", float(array.sum()) > 0, flush=True)
dist.barrier()
os._exit(0)
""",
    )
    assert [said.count(word) for word in ("timed out", "refused", "synchronized True")] == [1, 1, 1]


def test_one_rank_exchanges_with_itself_and_has_a_communicator():
    try:
        transport = halo.NCCL((0, 1, lambda own: own), device=0)
    except NotImplementedError as error:
        pytest.skip(str(error))
    array = torch.arange(36.0, device="cuda:0").reshape(6, 6)
    field = halo.Field.like(array, ("j", "i"), (1, 1), (4, 4))
    with halo.Exchanger(halo.compile([field], halo.Cartesian((1, 1), True), 0, 1), transport) as exchanger:
        exchanger.exchange([array])
    assert array[1:-1, 0].tolist() == array[1:-1, 4].tolist()
    transport.close()
