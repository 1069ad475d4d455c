"""A file to GPU memory and back, concurrently with other work. Runs on host memory if there is no GPU or torch.

python examples/file_to_gpu.py [MiB]
"""

import importlib.util
import os
import sys
import tempfile
from typing import Any

import numpy as np

from damacy.cufile import CuFile


def empty(size: int) -> Any:
    """Bytes on the GPU if there are a GPU and torch, else in a NumPy array."""
    if importlib.util.find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            return torch.empty(size, dtype=torch.uint8, device="cuda")
    return np.empty(size, np.uint8)


def main(mib: int) -> None:
    size = mib << 20
    stored = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path, copy = os.path.join(folder, "in"), os.path.join(folder, "out")
        stored.tofile(path)

        target = empty(size)
        on_gpu = not isinstance(target, np.ndarray)
        with CuFile(path) as file:
            future = file.pread(target)  # returns at once: worker threads read, the device copies
            other_work = float(np.linalg.norm(stored[: 1 << 20].astype("f4")))
            assert future.get() == size  # now any stream may use `target`

        with CuFile(copy, "w") as file:
            assert file.write(target) == size

        # Many small ranges of a file in one request: reads are merged, and each staging block is copied at once.
        sizes = np.full(100, 4096, np.int64)
        offsets = np.arange(100, dtype=np.int64) * (size // 100 // 4096 * 4096)
        pieces = empty(int(sizes.sum()))
        with CuFile(copy) as file:
            assert file.preadv_packed(pieces, sizes, offsets).get() == sizes.sum()
            explained = file.explain()

        got = pieces.cpu().numpy() if on_gpu else pieces
        assert all((got[4096 * k : 4096 * (k + 1)] == stored[o : o + 4096]).all() for k, o in enumerate(offsets))
        way = explained["engine_device" if on_gpu else "engine_host"]
        print(f"{mib} MiB there and back by {way}, with other work ({other_work:.0f}): ok")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64)
