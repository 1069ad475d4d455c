"""Several processes train one model; each reads its own part of every step.

    torchrun --standalone --nproc-per-node 2 examples/torchrun_train.py --folder /tmp/frames

With GPUs each process uses the one of LOCAL_RANK and gradients are reduced over NCCL; without GPUs, on the CPU and over
Gloo. Writes its data on the first run (needs zarr).
"""

from __future__ import annotations

import argparse
import pathlib

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import damacy
from damacy.samplers import RandomCrops
from damacy.torch import IterableDataset, local_device, rank_and_ranks
from damacy.training import Loader

CROP = (8, 32, 32)


def write_data(folder: pathlib.Path) -> list[pathlib.Path]:
    from damacy.synthetic import write_image

    images = [folder / f"image-{k}.zarr" for k in range(3)]
    for k, image in enumerate(images):
        if not image.exists():
            write_image(image, (16, 96, 96), chunks=(8, 32, 32), blobs=10, seed=k)
    return images


def train(images: list[pathlib.Path], device: str, epochs: int) -> None:
    rank, ranks = rank_and_ranks()
    on_gpu = device != "cpu"
    crops = RandomCrops(images, CROP, length=128, seed=1)
    config = damacy.Config(
        batch_size=8 // ranks,  # 8 crops per step for any number of ranks
        device=device,
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
    )
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Conv3d(1, 4, 3), torch.nn.ReLU(), torch.nn.Conv3d(4, 1, 3)).to(device),
        device_ids=[torch.device(device).index] if on_gpu else None,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with Loader(crops, config, rank=rank, ranks=ranks) as loader:
        for epoch in range(epochs):
            steps, loss = 0, torch.tensor(0.0)
            for x in IterableDataset(loader):
                x = (x[:, None] - 500) / 250
                loss = torch.nn.functional.mse_loss(model(x), x[:, :, 2:-2, 2:-2, 2:-2])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps += 1
            if rank == 0:
                print(f"epoch {epoch}: {steps} steps, loss {loss.item():.3f}", flush=True)
            check_steps(steps, device)
            if rank == 0:
                print(f"{ranks} ranks read the same number of steps; the run is at {loader.state_dict()}", flush=True)


def check_steps(steps: int, device: str) -> None:
    most = torch.tensor([steps, -steps], device=device)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    if most[0] != -most[1]:
        raise RuntimeError(f"ranks made between {-most[1]} and {most[0]} steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("frames"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--device", default=None, help="cpu, or cuda:N; by default the GPU of LOCAL_RANK")
    options = parser.parse_args()
    device = options.device or local_device()
    if device != "cpu":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("gloo" if device == "cpu" else "nccl")
    torch.manual_seed(0)
    if rank_and_ranks()[0] == 0:
        write_data(options.folder)
    torch.distributed.barrier()
    train(write_data(options.folder), device, options.epochs)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
