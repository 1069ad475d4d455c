"""One rank of a run on several machines: arrays in S3, chunks of its own for each rank, a disk cache on each machine.

    srun --nodes=2 --ntasks-per-node=4 python train_on_many_machines.py s3://scans/cell.zarr --disk-cache /local/damacy

Started by torchrun, Slurm or Open MPI. The model is a mean, so that the program needs no other library.
"""

from __future__ import annotations

import argparse

import damacy
from damacy.samplers import RandomCrops
from damacy.training import Loader

CROP = (8, 32, 32)


def loader_of(uris: list[str], length: int, batch_size: int, disk_cache: str, endpoint: str | None = None) -> Loader:
    for bucket in sorted({"/".join(uri.split("/")[:3]) + "/" for uri in uris}):
        damacy.mount(bucket, damacy.StoreOptions(endpoint=endpoint, immutable=True))
    config = damacy.Config(
        batch_size=batch_size,
        device="cpu",
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
        disk_cache=disk_cache,
        disk_cache_bytes="4GiB",
    )
    crops = RandomCrops(uris, CROP, length=length, seed=1)
    return Loader(crops, config, rank="auto", ranks="auto", shard_by="chunk")


def train(loader: Loader, epochs: int) -> list[list[int]]:
    """Returns the numbers of the samples that this rank read, by epoch."""
    read, received = [], 0
    for epoch in range(epochs):
        steps, numbers, total = 0, [], 0.0
        for batch in loader:
            with batch:
                total += float(batch.numpy().mean())
                numbers += [sample.row_key[1] for sample in batch.samples if sample.row_key]
                steps += 1
        before, received = received, loader.stats().bytes_received
        print(
            f"rank {loader.rank} of {loader.ranks}, epoch {epoch}: {steps} steps, {len(numbers)} samples, "
            f"{(received - before) / 1e6:.1f} MB received",
            flush=True,
        )
        read.append(numbers)
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description="One rank of a run on several machines.")
    parser.add_argument("uris", nargs="+", help="arrays, such as s3://BUCKET/PATH")
    parser.add_argument("--disk-cache", required=True, help="a directory on a local disk")
    parser.add_argument("--endpoint", help="the url of an S3-compatible service")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--length", type=int, default=128, help="crops of an epoch")
    parser.add_argument("--batch-size", type=int, default=4, help="of each rank")
    options = parser.parse_args()
    with loader_of(options.uris, options.length, options.batch_size, options.disk_cache, options.endpoint) as loader:
        train(loader, options.epochs)


if __name__ == "__main__":
    main()
