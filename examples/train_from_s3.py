"""Two epochs over random crops of arrays in S3, with a model of a few lines of NumPy.

    export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
    python examples/train_from_s3.py s3://scans/cell-1.zarr s3://scans/cell-2.zarr --endpoint http://127.0.0.1:9000

The model predicts the middle element of a crop from those around it, by least squares. Keys come from the
environment or a profile, as for other programs; --anonymous is for public buckets.
"""

from __future__ import annotations

import argparse

import numpy as np

import damacy
from damacy.samplers import RandomCrops
from damacy.training import Loader

CROP = (8, 16, 16)
SIDE = 1  # elements on each side of the middle one


def neighbours_and_middle(crops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    middle = tuple(size // 2 for size in CROP)
    around = crops[:, *(slice(m - SIDE, m + SIDE + 1) for m in middle)].reshape(len(crops), -1)
    center = around.shape[1] // 2
    return np.delete(around, center, axis=1), around[:, center]


def train(uris: list[str], epochs: int, length: int) -> list[float]:
    config = damacy.Config(
        batch_size=8,
        device="cpu",
        dtype="f32",
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
        n_io_threads=16,
    )
    weights, rate, losses = np.zeros((2 * SIDE + 1) ** 3 - 1), 0.5, []
    with Loader(RandomCrops(uris, CROP, length=length, seed=1), config) as loader:
        for _ in range(epochs):
            errors = []
            for batch in loader:
                with batch:
                    x, y = neighbours_and_middle(batch.numpy() / 1000)
                    error = x @ weights - y
                    weights -= rate * x.T @ error / np.square(x).sum(axis=1).mean() / len(y)
                    errors.append(float(np.square(error).mean()))
            losses.append(float(np.mean(errors)))
            print(f"epoch {len(losses)}: {len(errors)} steps, mean squared error {losses[-1]:.5f}")
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description="Two epochs over random crops of arrays in S3.")
    parser.add_argument("uris", nargs="+", help="arrays, such as s3://BUCKET/PATH")
    parser.add_argument("--endpoint", help="the url of an S3-compatible service")
    parser.add_argument("--anonymous", action="store_true", help="do not sign requests")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--length", type=int, default=128, help="crops of an epoch")
    arguments = parser.parse_args()
    options = damacy.StoreOptions(endpoint=arguments.endpoint, anonymous=arguments.anonymous or None)
    for bucket in sorted({"/".join(uri.split("/")[:3]) + "/" for uri in arguments.uris}):
        damacy.mount(bucket, options)
    train(arguments.uris, arguments.epochs, arguments.length)


if __name__ == "__main__":
    main()
