"""Fits a forecast of temperature six hours ahead from an ERA5-like store of three packed variables, in seconds.

    python examples/train_era5.py --folder /tmp/era5 --plot forecast.png

Writes the store on the first run (needs zarr and xarray): waves of temperature and of both winds that move east. Then
streams windows through damacy, unpacked and normalised, and fits linear weights of the values around each point by
least squares. Prints the error on later hours, and that of taking the last hour for a forecast. `--plot` needs
matplotlib.
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import damacy
from damacy.samplers import Windows
from damacy.training import Loader

Array = np.ndarray[Any, Any]

HOURS, GRID = 400, (48, 96)
LEAD = 6
VARIABLES = {"t2m": (280.0, 10.0), "u10": (0.0, 5.0), "v10": (0.0, 5.0)}  # mean and deviation
REACH = 2  # grid points to each side that a forecast looks at


def write_store(path: pathlib.Path) -> None:
    """Waves that move east by a third of a grid point an hour."""
    import xarray as xr

    random = np.random.default_rng(0)
    hours = np.datetime64("2020-01-01", "ns") + np.arange(HOURS) * np.timedelta64(1, "h")
    y, x = (np.arange(size) * 2 * np.pi / size for size in GRID)
    t = np.arange(HOURS)[:, None, None] / 3 * 2 * np.pi / GRID[1]
    fields, packing = {}, {}
    for name, (mean, deviation) in VARIABLES.items():
        waves = sum(
            np.sin(k * (x - t) + random.uniform(0, 6)) * np.cos(k // 2 * y[:, None] + random.uniform(0, 6)) / k**0.5
            for k in range(1, 12)
        )
        values = mean + deviation * (waves / 2 + 0.02 * random.standard_normal((HOURS, *GRID)))
        fields[name] = (("time", "latitude", "longitude"), values.astype("f4"))
        packed = {"dtype": "int16", "scale_factor": deviation / 4096, "add_offset": mean, "_FillValue": -32767}
        packing[name] = packed | {"chunks": (4, *GRID)}
    xr.Dataset(fields, {"time": hours}).to_zarr(path, encoding=packing, consolidated=False)


def loader_of(path: pathlib.Path, begin: int, end: int) -> Loader:
    """Windows within some hours: `x` has two hours of all variables, `y` the temperature `LEAD` hours later."""
    era5 = damacy.open_group(path)
    names = list(VARIABLES)
    arrays = {"x": ((era5, names), (-1, 1)), "y": ((era5, names[:1]), (LEAD, LEAD + 1))}
    windows = Windows(arrays, within=(begin, end), seed=1)
    scale = [1 / deviation for _, deviation in VARIABLES.values()]
    offset = [-mean / deviation for mean, deviation in VARIABLES.values()]
    specs = {
        "x": damacy.ArraySpec(cf=True, scale=scale, offset=offset),
        "y": damacy.ArraySpec(cf=True, scale=scale[0], offset=offset[0]),
    }
    return Loader(windows, damacy.Config(batch_size=8, device="cpu", arrays=specs), tail="short")


def batches(loader: Loader) -> Iterator[tuple[Array, Array]]:
    for batch in loader:
        with batch as b:
            yield b["x"].numpy()[: len(b.samples)], b["y"].numpy()[: len(b.samples)]


def features(x: Array) -> Array:
    """The values around each point, of all variables and hours; longitude is periodic."""
    fields = x.reshape(len(x), -1, *GRID)
    around = [np.roll(fields, (dy, dx), (-2, -1)) for dy in (-1, 0, 1) for dx in range(-REACH, REACH + 1)]
    return np.moveaxis(np.concatenate(around, axis=1), 1, -1)[:, 1:-1].reshape(-1, len(around) * fields.shape[1])


def inner(y: Array) -> Array:
    return y.reshape(len(y), *GRID)[:, 1:-1].reshape(-1)


def fit(loader: Loader) -> Array:
    """The weights with the least squared error, from sums over all batches: no batch is kept."""
    products: Any = 0.0
    moments: Any = 0.0
    for x, y in batches(loader):
        seen = features(x).astype("f8")
        products = products + seen.T @ seen
        moments = moments + seen.T @ inner(y)
    return np.linalg.solve(products + 1e-3 * np.eye(len(moments)), moments)


def errors(loader: Loader, weights: Array) -> tuple[float, float]:
    """Root mean square errors of the forecast, and of taking the last hour for it, in units of the deviation."""
    forecast = unchanged = count = 0.0
    for x, y in batches(loader):
        forecast += ((features(x) @ weights - inner(y)) ** 2).sum()
        unchanged += ((inner(x[:, 0, -1]) - inner(y)) ** 2).sum()
        count += len(inner(y))
    return (forecast / count) ** 0.5, (unchanged / count) ** 0.5


def plot(loader: Loader, weights: Array, path: pathlib.Path) -> None:
    from matplotlib import figure

    x, y = next(batches(loader))
    maps = {"now": x[0, 0, -1], f"{LEAD} hours later": y[0, 0, 0], "forecast": np.full(GRID, np.nan)}
    maps["forecast"][1:-1] = (features(x[:1]) @ weights).reshape(GRID[0] - 2, GRID[1])
    page = figure.Figure(figsize=(12, 2.6), layout="constrained")
    mean, deviation = VARIABLES["t2m"]
    for axes, (title, values) in zip(page.subplots(1, len(maps)), maps.items()):
        axes.imshow(mean + deviation * values, vmin=mean - 2 * deviation, vmax=mean + 2 * deviation)
        axes.set_title(title)
        axes.set_axis_off()
    page.colorbar(page.axes[0].images[0], ax=page.axes, label="temperature in K")
    page.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("era5"))
    parser.add_argument("--plot", type=pathlib.Path, help="an image file to write")
    options = parser.parse_args()
    path = options.folder / "era5.zarr"
    if not path.exists():
        write_store(path)
    begin = time.perf_counter()
    with loader_of(path, 0, 3 * HOURS // 4) as train, loader_of(path, 3 * HOURS // 4, HOURS) as later:
        weights = fit(train)
        forecast, unchanged = errors(later, weights)
        seconds = time.perf_counter() - begin
        print(f"error of the forecast {forecast:.3f}, of no change {unchanged:.3f} deviations; {seconds:.1f} s")
        if options.plot:
            plot(later, weights, options.plot)


if __name__ == "__main__":
    main()
