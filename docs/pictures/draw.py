"""The pictures of the documentation that are not measurements. Knows what each shows; pages say where they are used.

    python docs/pictures/draw.py        writes {crops,windows}.png and stages-{light,dark}.svg beside itself

Needs damacy, matplotlib and Pillow. Writes its data, small synthetic images and fields, into a temporary directory.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import io
import pathlib
import tempfile
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import zarr
from matplotlib.patches import Rectangle
from PIL import Image

import damacy
from damacy.samplers import Dihedral, RandomCrops, Windows
from damacy.training import Loader

HERE = pathlib.Path(__file__).resolve().parent


def _save(figure: Any, path: pathlib.Path) -> None:
    """With a palette of 96 colours: half of the bytes, and no difference to see."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


# -- crops of an image and of its label --


def _nuclei(shape: tuple[int, int, int], count: int) -> tuple[np.ndarray, np.ndarray]:
    """An image of bright ellipsoids, and a label that numbers them."""
    random = np.random.default_rng(3)
    grid = np.ogrid[tuple(slice(extent) for extent in shape)]
    light, label = np.full(shape, 300.0, "f4"), np.zeros(shape, "u1")
    for number in range(1, count + 1):
        centre, radii = random.uniform(0, shape), random.uniform((4, 9, 9), (7, 20, 20))
        inside = 1 - sum(((axis - c) / r) ** 2 for axis, c, r in zip(grid, centre, radii))
        light = np.maximum(light, random.uniform(700, 2400) * np.clip(2 * inside, 0, 1))
        label[inside > 0] = number
    grain = 0.5 * random.standard_normal(shape, "f4") * np.sqrt(light)
    return (light + grain).astype("u2"), label


def crops(path: pathlib.Path) -> None:
    """The rows of a batch: the image above, and below it with the label, which was cropped and turned with it."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = {}
        for name, data in zip(("image", "label"), _nuclei((16, 256, 256), 60)):
            arrays[name] = [f"{folder}/{name}.zarr"]
            zarr.create_array(arrays[name][0], data=data, chunks=(8, 64, 64), dimension_names=["z", "y", "x"])
        extents = {"z": 1, "y": 96, "x": 96}
        sampler = RandomCrops(arrays, extents, length=6, seed=5, augment=Dihedral("y", "x"))
        with Loader(sampler, damacy.Config(batch_size=6, device="cpu")) as loader, next(iter(loader)) as batch:
            images, labels = (batch[name].numpy()[:, 0].copy() for name in arrays)
    figure, axes = plt.subplots(2, 6, figsize=(9, 3.25))
    for column, (image, label) in enumerate(zip(images, labels)):
        for row in axes[:, column]:
            row.imshow(image, cmap="gray", vmin=150, vmax=2400)
            row.set_axis_off()
        ids = np.ma.masked_equal(np.where(label, label % 8 + 1, 0), 0)
        axes[1, column].imshow(ids, cmap="Set1", vmin=1, vmax=9, alpha=0.6, interpolation="nearest")
    axes[0, 0].set_title('batch["image"]', loc="left", fontsize=10, family="monospace")
    axes[1, 0].set_title('batch["label"], drawn over it', loc="left", fontsize=10, family="monospace")
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.93, wspace=0.03, hspace=0.2)
    _save(figure, path)


# -- windows on a map --


def _temperature(hours: int, latitudes: np.ndarray, longitudes: np.ndarray) -> np.ndarray:
    """Warm at the equator, with waves that travel east."""
    time = np.arange(hours)[:, None, None]
    north, east = np.radians(latitudes)[:, None], np.radians(longitudes)
    waves = np.sin(3 * east + 2 * north - 0.2 * time) + 0.7 * np.sin(8 * east - 5 * north - 0.4 * time)
    return (250 + 46 * np.cos(north) ** 2 + 9 * waves * np.cos(north)).astype("f4")


def windows(path: pathlib.Path) -> None:
    """Where the crops of six samples lie, and the steps of one of them."""
    latitudes, longitudes = np.linspace(90, -90, 121), np.arange(0, 360, 1.5)
    field = _temperature(48, latitudes, longitudes)
    with tempfile.TemporaryDirectory() as folder:
        t2m = f"{folder}/t2m.zarr"
        names = ["time", "latitude", "longitude"]
        zarr.create_array(t2m, data=field, chunks=(4, 121, 240), dimension_names=names)
        extents = {"latitude": 24, "longitude": 36}
        sampler = Windows({"x": (t2m, (-3, 1)), "y": (t2m, (6, 7))}, extents=extents, length=6, seed=2)
        with Loader(sampler, damacy.Config(batch_size=6, device="cpu")) as loader, next(iter(loader)) as batch:
            boxes = [sample.arrays["x"][0][1] for sample in batch.samples]
            x, y = batch["x"].numpy()[0].copy(), batch["y"].numpy()[0].copy()
    scale = {"cmap": "RdYlBu_r", "vmin": 240, "vmax": 310}
    figure = plt.figure(figsize=(9, 4.4))
    rows = figure.add_gridspec(2, 1, height_ratios=(2.3, 1), left=0.055, right=0.975, top=0.99, bottom=0.02, hspace=0.3)
    earth = figure.add_subplot(rows[0])
    earth.contourf(longitudes, latitudes, field[boxes[0][0][1] - 1], levels=np.arange(228, 324, 4), **scale)
    for number, (_, (top, bottom), (left, right)) in enumerate(boxes):
        west, south = longitudes[left], latitudes[bottom - 1]
        size = longitudes[right - 1] - west, latitudes[top] - south
        earth.add_patch(Rectangle((west, south), *size, fill=False, linewidth=2.2 if number == 0 else 1.1))
        earth.text(west + 2, south + 3, f"sample {number}", fontsize=8)
    earth.set_xticks(range(0, 361, 60), [f"{degrees}°" for degrees in range(0, 361, 60)], fontsize=8)
    earth.set_yticks(range(-90, 91, 45), [f"{degrees}°" for degrees in range(-90, 91, 45)], fontsize=8)
    steps = rows[1].subgridspec(1, 5, wspace=0.06)
    titles = ['sample 0, batch["x"]: t-3', "t-2", "t-1", "t", 'batch["y"]: t+6']
    for column, (title, step) in enumerate(zip(titles, [*x, *y])):
        axis = figure.add_subplot(steps[column])
        axis.imshow(step, interpolation="nearest", **scale)
        axis.set_title(title, loc="left", fontsize=8)
        axis.set_axis_off()
    _save(figure, path)


# -- which stage limits --

STAGES = {"plan": 1, "read": 10, "decode": 6, "place": 2}  # units of time that a batch takes
BATCHES, AHEAD = 7, 2  # a stage works at most so many batches ahead of the next one
WIDTH, ROW, LEFT, BARS, UNIT = 860, 30, 70, 200, 6.6
THEMES = {
    "light": {"text": "#1f2328", "faint": "#59636e", "free": "#e4e8ec", "limit": "#d9822b"},
    "dark": {"text": "#e6edf3", "faint": "#9198a1", "free": "#30363d", "limit": "#e3994b"},
}
BLUES = ("#0b62a4", "#4a90c8", "#86b8de")


@dataclasses.dataclass(frozen=True)
class Work:
    stage: str
    batch: int
    start: int
    stop: int


def schedule() -> list[Work]:
    """Each stage works on one batch at a time, in order, as soon as the stage before it has finished the batch."""
    stops: dict[tuple[str, int], int] = {}
    done, names = [], list(STAGES)
    for batch in range(BATCHES):
        for k, name in enumerate(names):
            waits = [stops.get((name, batch - 1), 0)]
            if k:
                waits.append(stops[names[k - 1], batch])
            if k + 1 < len(names):
                waits.append(stops.get((names[k + 1], batch - AHEAD), 0))
            stops[name, batch] = max(waits) + STAGES[name]
            done.append(Work(name, batch, max(waits), stops[name, batch]))
    return done


def stages(theme: str) -> str:
    """On the left when each stage works on which batch, on the right how much of the time it works."""
    colours, done = THEMES[theme], schedule()
    end = max(work.stop for work in done)
    busy = {name: sum(work.stop - work.start for work in done if work.stage == name) / end for name in STAGES}
    slowest = max(busy, key=lambda name: busy[name])
    right = WIDTH - BARS - 60
    parts = [
        _text(LEFT, 18, "time: each block is a batch", colours["faint"]),
        _text(right, 18, "what explain() prints", colours["faint"]),
    ]
    for row, name in enumerate(STAGES):
        y = 30 + row * ROW
        colour = colours["limit"] if name == slowest else colours["text"]
        weight = 600 if name == slowest else 400
        parts.append(_text(8, y + 15, name, colour, weight))
        for work in (work for work in done if work.stage == name):
            left = LEFT + work.start * UNIT
            length = (work.stop - work.start) * UNIT - 1
            fill = BLUES[work.batch % len(BLUES)]
            parts.append(f'<rect x="{left:.1f}" y="{y}" width="{length:.1f}" height="20" fill="{fill}"/>')
            if length > 20:
                parts.append(_text(left + 4, y + 15, str(work.batch), "#ffffff"))
        parts.append(f'<rect x="{right}" y="{y}" width="{BARS}" height="20" fill="{colours["free"]}"/>')
        fill = colours["limit"] if name == slowest else BLUES[0]
        parts.append(f'<rect x="{right}" y="{y}" width="{busy[name] * BARS:.1f}" height="20" fill="{fill}"/>')
        parts.append(_text(right + BARS + 8, y + 15, f"{100 * busy[name]:.0f} %", colour, weight))
    height = 36 + len(STAGES) * ROW
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" xmlns="http://www.w3.org/2000/svg" font-size="12" '
        f'font-family="system-ui, sans-serif">{"".join(parts)}</svg>\n'
    )


def _text(x: float, y: float, words: str, colour: str, weight: int = 400) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}" font-weight="{weight}">{html.escape(words)}</text>'


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the pictures of the documentation.")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="a directory (default: where this program is)")
    out = parser.parse_args().out
    crops(out / "crops.png")
    windows(out / "windows.png")
    for theme in THEMES:
        (out / f"stages-{theme}.svg").write_text(stages(theme))


if __name__ == "__main__":
    main()
