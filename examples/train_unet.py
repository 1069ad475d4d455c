"""Trains a small U-Net to find bright blobs in a synthetic OME-Zarr image: a few minutes on two cores.

    python examples/train_unet.py --folder /tmp/blobs --plot blobs.png

Writes the image and its labels on the first run (needs zarr), then streams random crops of both through damacy and
stops when the prediction matches the labels. If it is interrupted and run again, it continues with the next sample.
`--plot` needs matplotlib.
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

import damacy
from damacy.samplers import Dihedral, RandomCrops, Sampler, SlidingGrid
from damacy.synthetic import write_image
from damacy.torch import IterableDataset, local_device
from damacy.training import Loader

SHAPE = (16, 192, 192)
CROP = (8, 48, 48)


class UNet(nn.Module):
    """Two levels, 3-D, about 30,000 weights."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = _block(1, width)
        self.bottom = _block(width, 2 * width)
        self.up = nn.ConvTranspose3d(2 * width, width, kernel_size=2, stride=2)
        self.out = nn.Sequential(_block(2 * width, width), nn.Conv3d(width, 1, kernel_size=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.down(x)
        coarse = self.bottom(functional.max_pool3d(fine, 2))
        return self.out(torch.cat([fine, self.up(coarse)], dim=1))


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv3d(before, after, kernel_size=3, padding=1), nn.GroupNorm(4, after), nn.ReLU())


def pairs(loader: Loader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Crops of the image and of the labels at the same places."""
    for batch in IterableDataset(loader):
        yield batch["image"], batch["label"]


def arrays_in(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    return {"image": folder / "blobs.zarr/0", "label": folder / "blobs.zarr/labels/blobs"}


def loader_of(sampler: Sampler, batch: int) -> Loader:
    one_channel = (None, 0, 1, 2)  # a new axis ahead of z, y and x
    specs = {
        "image": damacy.ArraySpec(scale=1 / 250, offset=-2, pad="reflect", order=one_channel),
        "label": damacy.ArraySpec(pad="reflect", order=one_channel),
    }
    memory = 64 << 20
    config = damacy.Config(
        batch_size=batch, device=local_device(), arrays=specs, host_buffer_bytes=memory, device_buffer_bytes=memory
    )
    return Loader(sampler, config)


def overlap(net: UNet, batches: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The Dice coefficient over all batches: 1 is perfect."""
    both = either = 0.0
    net.eval()
    with torch.no_grad():
        for x, y in batches:
            found = (net(x) > 0).float()
            both += (found * y).sum().item()
            either += (found + y).sum().item()
    net.train()
    return 2 * both / max(either, 1)


def plot(net: UNet, batches: Iterator[tuple[torch.Tensor, torch.Tensor]], path: pathlib.Path) -> None:
    """The middle plane of a crop, its label, and the prediction."""
    from matplotlib import figure

    x, y = next(batches)
    with torch.no_grad():
        found = net(x).sigmoid()
    page = figure.Figure(figsize=(9, 3.2), layout="constrained")
    planes = {"image": x, "label": y, "prediction": found}
    for axes, (title, voxels) in zip(page.subplots(1, len(planes)), planes.items()):
        axes.imshow(voxels[0, 0, CROP[0] // 2].cpu(), cmap="gray")
        axes.set_title(title)
        axes.set_axis_off()
    page.savefig(path)


def train(folder: pathlib.Path, steps: int, batch: int, enough: float) -> tuple[UNet, float]:
    checkpoint = folder / "checkpoint.pt"
    turned = Dihedral(-2, -1)  # image and labels alike
    sampler = RandomCrops(arrays_in(folder), CROP, length=25 * batch, seed=1, margin=4, augment=turned)
    crops = loader_of(sampler, batch)
    grid = SlidingGrid(arrays_in(folder), CROP)
    net = UNet().to(local_device())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    few = torch.tensor(3.0, device=local_device())  # weight of blob voxels, of which there are few
    done = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=local_device())
        done = state["done"]
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        crops.load_state_dict(state["loader"])
        print(f"resumed after step {done}")
    score, loss = 0.0, torch.tensor(0.0)
    while done < steps and score < enough:
        start = time.perf_counter()
        for x, y in pairs(crops):
            loss = functional.binary_cross_entropy_with_logits(net(x), y, pos_weight=few)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
        score = overlap(net, pairs(loader_of(grid, batch)))
        seconds = time.perf_counter() - start
        print(f"step {done}: loss {loss.item():.3f}, overlap {score:.3f}, {seconds:.1f} s", flush=True)
        torch.save(
            {
                "done": done,
                "net": net.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": crops.state_dict(),
            },
            checkpoint,
        )
    crops.close()
    return net, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("blobs"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--enough", type=float, default=0.9, help="stop at this overlap")
    parser.add_argument("--plot", type=pathlib.Path, help="an image file to write")
    options = parser.parse_args()
    torch.manual_seed(0)
    if not (options.folder / "blobs.zarr").exists():
        write_image(options.folder / "blobs.zarr", SHAPE, chunks=(8, 64, 64), blobs=120, labels=True)
    net, score = train(options.folder, options.steps, options.batch, options.enough)
    print(f"overlap with the true blobs: {score:.3f}")
    if options.plot:
        grid = SlidingGrid(arrays_in(options.folder), CROP)
        plot(net, pairs(loader_of(grid, options.batch)), options.plot)


if __name__ == "__main__":
    main()
