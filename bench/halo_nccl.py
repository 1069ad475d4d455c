"""Exchange of case C's edges between GPUs over nccl, beside the bare send and receive of the same bytes.

    torchrun --standalone --nproc-per-node 2 -m bench.halo_nccl

Two ranks side by side along i, periodic, 10 fields of C192L79 with k contiguous, halo 3. Rank 0 prints.
"""

from __future__ import annotations

import json
import os
import statistics
import sys

import torch
import torch.distributed as dist

from damacy import halo


def timed(call, repeat=50):
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken = []
    for _ in range(repeat):
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(stop) * 1e3)
    return statistics.median(taken)


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    group = dist.new_group(list(range(dist.get_world_size())))
    fields = [torch.full((199, 199, 80), float(rank), dtype=torch.float64, device="cuda") for _ in range(10)]
    described = [halo.Field.like(f, ("i", "j", "k"), (3, 3, 0), (192, 192, 79)) for f in fields]
    grid = halo.Cartesian((dist.get_world_size(), 1), True, dims=("i", "j"))
    plan = halo.compile(described, grid, rank, 3)
    with halo.Exchanger(plan, halo.TorchDistributed(group)) as exchanger:
        exchanger.exchange(fields)
        other = (rank + 1) % dist.get_world_size()
        assert all(float(f[1, 5, 5]) == other for f in fields)
        whole = timed(lambda: exchanger.exchange(fields))
        (buffers,) = exchanger._rounds[0]

        def bare():
            operations = [
                dist.P2POp(call, b, p, group)
                for call, side in ((dist.irecv, buffers.receive), (dist.isend, buffers.send))
                for p, b in side.items()
            ]
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        alone = timed(bare)
        size = sum(b.numel() for b in buffers.send.values())
    if rank == 0:
        row = {"bytes": size, "exchange_us": whole, "bare_us": alone, "ratio": whole / alone, "target": 1.25}
        json.dump(row, sys.stdout, indent=1)
        print()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
