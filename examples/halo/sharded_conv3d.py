"""Two 3-D convolutions over a volume that is split in depth between two ranks: forward and backward results equal those
of the whole volume.

    torchrun --standalone --nproc-per-node 2 examples/halo/sharded_conv3d.py

Each rank has half of the volume and pads it with its neighbour's border (gloo on CPUs). Gradients of the border are
sent back to the neighbour, so that weights and input get the gradients of the whole.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch.nn import functional as F

from damacy import halo
from damacy.halo.torch import pad, padding


def layer(padded, weight):
    """A convolution of an input that is already padded in depth; pads height and width with zeros."""
    return F.conv3d(F.pad(padded, (1, 1, 1, 1)), weight)


def network(x, weights, pad_depth):
    for weight in weights:
        x = torch.tanh(layer(pad_depth(x), weight))
    return x


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    group = dist.new_group(list(range(ranks)))
    torch.manual_seed(0)
    volume = torch.randn(1, 2, 8 * ranks, 10, 12, dtype=torch.float64)
    weights = [
        torch.randn(4, 2, 3, 3, 3, dtype=torch.float64) / 7,
        torch.randn(3, 4, 3, 3, 3, dtype=torch.float64) / 10,
    ]

    plan = padding(halo.Cartesian((ranks,), False, dims=("d",)), rank, 1, halo.TorchDistributed(group), dims="ncdhw")
    mine = volume[:, :, 8 * rank : 8 * rank + 8].clone().requires_grad_()
    shared = [w.clone().requires_grad_() for w in weights]
    y = network(mine, shared, lambda x: pad(x, plan))
    (y**2).sum().backward()
    for w in shared:
        dist.all_reduce(w.grad, group=group)

    whole, uncut = volume.clone().requires_grad_(), [w.clone().requires_grad_() for w in weights]
    expected = network(whole, uncut, lambda x: F.pad(x, (0, 0, 0, 0, 1, 1)))
    (expected**2).sum().backward()

    here = slice(8 * rank, 8 * rank + 8)
    for name, got, want in (
        ("output", y, expected[:, :, here]),
        ("gradient of the input", mine.grad, whole.grad[:, :, here]),
        *(("gradient of the weights", a.grad, b.grad) for a, b in zip(shared, uncut)),
    ):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
        if rank == 0:
            print(f"{name}: equal, largest difference {(got - want).abs().max():.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
