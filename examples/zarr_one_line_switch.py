"""xarray or zarr, read through damacy by one line.

    python examples/zarr_one_line_switch.py [PATH]

Without PATH, writes a small array first. Uses xarray if it is installed, else zarr."""

import importlib.util
import sys
import tempfile
import time
from typing import Any

import numpy as np
import zarr

import damacy.zarr


def write_sample(path: str) -> None:
    root = zarr.create_group(path)
    shape = (48, 180, 360)
    t2m = root.create_array("t2m", shape=shape, chunks=(12, 90, 90), dtype="f4", dimension_names=("time", "lat", "lon"))
    t2m[:] = 280 + 20 * np.random.default_rng(0).random(shape, dtype="f4")


def open_t2m(path: str) -> Any:
    if importlib.util.find_spec("xarray"):
        import xarray

        return xarray.open_zarr(path, consolidated=False, decode_times=False)["t2m"]
    return zarr.open_group(path, mode="r")["t2m"]


def mean_of(path: str) -> tuple[float, float]:
    """The mean of a region, and the seconds for opening and reading it: the minimum of three runs, because the first
    loads code."""
    means, seconds = [], []
    for _ in range(3):
        start = time.perf_counter()
        region = np.asarray(open_t2m(path)[:, 40:120, 100:300])
        seconds.append(time.perf_counter() - start)
        means.append(float(region.mean()))
    return means[-1], min(seconds)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(suffix=".zarr")
    if len(sys.argv) == 1:
        write_sample(path)
    before, before_s = mean_of(path)
    damacy.zarr.enable()  # the line
    after, after_s = mean_of(path)
    assert before == after
    stats = damacy.zarr.stats()
    print(f"mean {after:.3f}; zarr-python {before_s * 1e3:.0f} ms, with damacy {after_s * 1e3:.0f} ms")
    print(f"{stats['reads']} reads, {stats['chunks_decoded']} chunks, {stats['fallback_reads']} not native")


if __name__ == "__main__":
    main()
