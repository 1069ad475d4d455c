"""Exchange of case C's edges between ranks, compared with only sending and receiving the same bytes.

    torchrun --standalone --nproc-per-node 2 -m bench.halo_nccl --out result.json

Two or more ranks along i, periodic, 10 fields of C192L79 with k contiguous, halo 3. With one GPU per rank, a row over
`halo.NCCL` and one over `TorchDistributed` with nccl; else one over gloo on the host (--device). `bare` is
batch_isend_irecv of torch on the same buffers; `group` is the group call of `halo.NCCL` without packing and unpacking.
Rank 0 prints. A timeout ends the program after a minute.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import json
import os
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist

from bench import machine
from damacy import halo

LIMIT_S = 60
TARGET = {"ratio": 1.15, "back_to_back": 1.3}
ROUNDS = 5  # of back-to-back calls, by turns


class Clock:
    """Medians of the time from the call to the last byte. All ranks start together."""

    def __init__(self, device: str, repeat: int) -> None:
        self._synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
        self._repeat = repeat

    def of(self, *calls):
        """Times of each call. The calls take turns, so that a disturbance affects all of them."""
        taken = [[] for _ in calls]
        for round_ in range(self._repeat + 5):
            for call, times in zip(calls, taken):
                self._synchronize()
                dist.barrier()
                start = time.perf_counter()
                call()
                self._synchronize()
                if round_ >= 5:
                    times.append(time.perf_counter() - start)
        return [statistics.median(times) * 1e6 for times in taken]

    def back_to_back(self, *calls):
        """Medians of the time per call without waits between calls. The calls take turns."""
        taken = [[] for _ in calls]
        for _ in range(ROUNDS):
            for call, times in zip(calls, taken):
                call()
                self._synchronize()
                dist.barrier()
                start = time.perf_counter()
                for _ in range(self._repeat):
                    call()
                self._synchronize()
                times.append((time.perf_counter() - start) / self._repeat)
        return [statistics.median(times) * 1e6 for times in taken]


def bare(sent, received, device, group):
    """Only sends and receives messages of so many bytes, by peer."""
    operations = [
        dist.P2POp(call, torch.zeros(size, dtype=torch.uint8, device=device), peer, group)
        for call, side in ((dist.irecv, received), (dist.isend, sent))
        for peer, size in side.items()
    ]

    def run():
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    return run


def transports(device, group):
    """What each row exchanges over, by name."""
    if device == "cuda":
        yield "halo.NCCL", halo.NCCL(group)
    yield f"TorchDistributed, {dist.get_backend()}", halo.TorchDistributed(group)


def measure(name, transport, group, device, cells, repeat):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shape = (cells + 7, cells + 7, 80)
    fields = [torch.full(shape, float(rank), dtype=torch.float64, device=device) for _ in range(10)]
    described = [halo.Field.like(f, ("i", "j", "k"), (3, 3, 0), (cells, cells, 79)) for f in fields]
    plan = halo.compile(described, halo.Cartesian((ranks, 1), True, dims=("i", "j")), rank, 3)
    with halo.Exchanger(plan, transport) as exchanger:
        bound = exchanger.bind(fields)
        bound.exchange()
        left, right = (rank - 1) % ranks, (rank + 1) % ranks
        assert all(float(f[1, 5, 5]) == left and float(f[-3, 5, 5]) == right for f in fields)
        sent, received = exchanger._rounds.message_bytes(0)
        alone = bare(sent, received, device, group)
        clock = Clock(device, repeat)
        calls = [bound.exchange, alone]
        if isinstance(transport, halo.NCCL):
            calls.append(lambda: exchanger._channels.send(0, 0, None))
        whole_us, alone_us, *group_us = clock.of(*calls)
        sustained_us, sustained_alone_us, *sustained_group_us = clock.back_to_back(*calls)
        size = sum(sent.values())
    return {
        "case": f"edges of {cells} x {cells} x 79, 10 fields, halo 3, {ranks} ranks, {name}",
        "bytes": size,
        "exchange_us": whole_us,
        "bare_us": alone_us,
        "ratio": whole_us / alone_us,
        "group_us": group_us[0] if group_us else None,
        "back_to_back": {
            "exchange_us": sustained_us,
            "bare_us": sustained_alone_us,
            "ratio": sustained_us / sustained_alone_us,
            "group_us": sustained_group_us[0] if sustained_group_us else None,
        },
        "target": TARGET,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--cells", type=int, default=192)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    ranks_here = int(os.environ["LOCAL_WORLD_SIZE"])
    enough = torch.cuda.is_available() and torch.cuda.device_count() >= ranks_here
    device = arguments.device if arguments.device != "auto" else "cuda" if enough else "cpu"
    options = {"timeout": datetime.timedelta(seconds=LIMIT_S)}
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        options["device_id"] = torch.device("cuda", torch.cuda.current_device())
    dist.init_process_group("nccl" if device == "cuda" else "gloo", **options)
    group = dist.new_group(list(range(dist.get_world_size())))
    rows = [
        measure(name, transport, group, device, arguments.cells, arguments.repeat)
        for name, transport in transports(device, group)
    ]
    if dist.get_rank() == 0:
        print(json.dumps(rows, indent=1), flush=True)
        if arguments.out:
            result = machine.describe() | {"benchmark": "halo_nccl", "device": device, "rows": rows}
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
