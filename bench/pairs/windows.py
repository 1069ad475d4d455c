"""Time windows of three packed variables of an ERA5-like store, unpacked and normalised, with a lead: by one loader,
beside worker processes that do the same with xarray, and, where torch is installed, beside its `DataLoader`. By turns.

    python -m bench.pairs.windows --reps 5 --out bench/results/windows-host.json

Rates are bytes of finished batches per second.
"""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.util
import math
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import damacy
from bench.pairs import turns
from damacy.samplers import Indexed, Windows
from damacy.training import Loader

STEPS, GRID = 240, (181, 360)
VARIABLES = {"t2m": (280.0, 10.0), "u10": (0.0, 5.0), "v10": (0.0, 5.0)}  # mean and deviation
PAST, LEAD = 4, 6
BATCH, BATCHES = 8, 24
BATCH_BYTES = BATCH * (len(VARIABLES) * PAST + 1) * math.prod(GRID) * 4
SCALE = [1 / deviation for _, deviation in VARIABLES.values()]
OFFSET = [-mean / deviation for mean, deviation in VARIABLES.values()]


def main() -> None:
    turns.run(measure, __doc__)


def measure(folder: pathlib.Path, reps: int, threads: int) -> dict:
    path = write(folder)
    readers: dict[str, turns.Reader] = {
        "damacy": ours,
        "damacy, stored values": stored,
        "xarray, worker processes": workers,
    }
    if importlib.util.find_spec("torch"):
        readers["DataLoader and xarray"] = data_loader
    result = turns.by_turns(readers, path, threads, reps, BATCHES * BATCH_BYTES)
    sums = result["sums"]
    unpacked = [one for name, one in sums.items() if name != "damacy, stored values"]
    if not all(math.isclose(one, sums["damacy"], rel_tol=1e-6) for one in unpacked):
        raise RuntimeError(f"the readers' batches differ: {sums}")
    what = f"{PAST} steps of {len(VARIABLES)} variables, i16 unpacked to f32 and normalised, and one step {LEAD} later"
    return {"what": f"{what}; {GRID} elements a step, a chunk a step, zstd", "batch_bytes": BATCH_BYTES} | result


def write(folder: pathlib.Path) -> str:
    import xarray as xr

    rng = np.random.default_rng(0)
    path = str(folder / "era5.zarr")
    dims = ("time", "latitude", "longitude")
    hours = np.datetime64("2020-01-01", "ns") + np.arange(STEPS) * np.timedelta64(1, "h")
    smooth = [np.sin(np.linspace(0, 6, size)) for size in GRID]
    fields, packing = {}, {}
    for name, (mean, deviation) in VARIABLES.items():
        noise = rng.standard_normal((STEPS, *GRID)) * 0.05
        values = mean + deviation * (noise + smooth[0][:, None] + smooth[1])
        fields[name] = (dims, values.astype("f4"))
        packed = {"dtype": "int16", "scale_factor": deviation / 4096, "add_offset": mean, "_FillValue": -32767}
        packing[name] = packed | {"chunks": (1, *GRID)}
    xr.Dataset(fields, {"time": hours}).to_zarr(path, encoding=packing, consolidated=False)
    return path


def checked(x: np.ndarray, y: np.ndarray) -> float:
    """A few elements of every row, so that checking costs nothing."""
    return float(x[..., ::31, ::31].sum(dtype="f8") + y[..., ::31, ::31].sum(dtype="f8"))


def ours(path: str, threads: int) -> Iterator[float]:
    x = damacy.ArraySpec(cf=True, scale=SCALE, offset=OFFSET)
    return stream(path, threads, {"x": x, "y": damacy.ArraySpec(cf=True, scale=SCALE[0], offset=OFFSET[0])})


def stored(path: str, threads: int) -> Iterator[float]:
    """The same windows, only converted: beside this, unpacking and normalising are the rest."""
    return stream(path, threads, {"x": damacy.ArraySpec(cf=False), "y": damacy.ArraySpec(cf=False)})


def stream(path: str, threads: int, specs: dict[str, damacy.ArraySpec]) -> Iterator[float]:
    era5 = damacy.open_group(path)
    arrays = {"x": ((era5, list(VARIABLES)), (1 - PAST, 1)), "y": ((era5, list(VARIABLES)[:1]), (LEAD, LEAD + 1))}
    config = damacy.Config(
        batch_size=BATCH,
        device="cpu",
        n_io_threads=threads,
        arrays=specs,
        host_buffer_bytes=64 << 20,
        device_buffer_bytes=64 << 20,
    )
    windows = Indexed(Windows(arrays), [step - (PAST - 1) for step in steps()])
    with Loader(windows, config) as loader:
        for batch in loader:
            with batch:
                yield checked(batch["x"].numpy(), batch["y"].numpy())


def steps() -> list[int]:
    """The last step of each window's past, in random order."""
    possible = np.arange(PAST - 1, STEPS - LEAD)
    return [int(step) for step in np.random.default_rng(1).permutation(possible)[: BATCH * (BATCHES + 1)]]


def workers(path: str, threads: int) -> Iterator[float]:
    """A worker makes a whole batch, as with a `DataLoader`, and keeps it: what sending it would cost is not counted."""
    wanted = steps()
    with concurrent.futures.ProcessPoolExecutor(threads) as pool:
        batches = [wanted[k : k + BATCH] for k in range(0, len(wanted), BATCH)]
        yield from pool.map(_read, [path] * len(batches), batches)


def _read(path: str, wanted: list[int]) -> float:
    rows = [window(path, step) for step in wanted]
    return checked(np.stack([x for x, _ in rows]), np.stack([y for _, y in rows]))


@functools.cache
def opened(path: str) -> Any:
    import xarray as xr

    return xr.open_zarr(path, consolidated=False, chunks=None)


def window(path: str, step: int) -> tuple[np.ndarray, np.ndarray]:
    """One sample by xarray, which decodes by CF."""
    x = np.stack([_normalised(path, k, slice(step - PAST + 1, step + 1)) for k in range(len(VARIABLES))])
    return x, _normalised(path, 0, slice(step + LEAD, step + LEAD + 1))[None]


def _normalised(path: str, variable: int, time: slice) -> np.ndarray:
    values = opened(path)[list(VARIABLES)[variable]].isel(time=time).values
    return (values * SCALE[variable] + OFFSET[variable]).astype("f4")


def data_loader(path: str, threads: int) -> Iterator[float]:
    """What torch's users write: a data set that reads one sample, and worker processes that collate batches."""
    import torch.utils.data

    loader = torch.utils.data.DataLoader(
        _Steps(path, steps()), BATCH, num_workers=threads, multiprocessing_context="forkserver"
    )
    for x, y in loader:
        yield checked(x.numpy(), y.numpy())


class _Steps:
    def __init__(self, path: str, wanted: list[int]) -> None:
        self._path, self._wanted = path, wanted

    def __len__(self) -> int:
        return len(self._wanted)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return window(self._path, self._wanted[index])


if __name__ == "__main__":
    main()
