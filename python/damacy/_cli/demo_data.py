"""The demo's two arrays: an MRI scan from nibabel's test data, and a synthetic microscopy volume. zarr-python writes
both once, as sharded OME-Zarr 0.5. Does not use damacy."""

from __future__ import annotations

import dataclasses
import importlib.resources
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import nibabel
import numpy as np
import zarr
import zarr.codecs

RECIPE = 1  # part of every folder name: increment it when the written data change

VOLUME_SHAPE = (128, 1024, 1024)  # 256 MiB of uint16
_SLAB = 64  # planes computed at a time, and the depth of a shard
_NUCLEI = 1500
_LARGEST = (30, 64, 64)  # box around the largest nucleus
_FIELD = (48, 128, 128)  # random texture; each nucleus uses a part of it

Progress = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class DemoArray:
    """An image to stream crops from: `crop` is the shape of a crop, `crops` their number."""

    title: str
    path: pathlib.Path
    crop: tuple[int, ...]
    crops: int
    batch_size: int
    write: Callable[[pathlib.Path, Progress], None]
    steps: int  # how often `write` reports progress

    @property
    def there(self) -> bool:
        return (self.path / "zarr.json").is_file()

    def make(self, progress: Progress) -> None:
        """Writes under another name and renames, so that a folder with the final name is always complete."""
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        self.write(unfinished, progress)
        shutil.rmtree(self.path, ignore_errors=True)
        unfinished.rename(self.path)


DemoArray.__module__ = "damacy.demo"


def demo_arrays(folder: pathlib.Path) -> tuple[DemoArray, DemoArray]:
    """The scan and the volume, even if they are not written yet."""
    scan = DemoArray("MRI scan", folder / f"scan-{RECIPE}.zarr", (1, 16, 48, 48), 512, 32, write_scan, 1)
    volume = DemoArray(
        "microscopy",
        folder / f"microscopy-{RECIPE}.zarr",
        (32, 128, 128),
        768,
        16,
        write_volume,
        VOLUME_SHAPE[0] // _SLAB,
    )
    return scan, volume


def write_scan(path: pathlib.Path, progress: Progress) -> None:
    """nibabel's 4-D example, stored as time, z, y, x."""
    file = importlib.resources.files(nibabel) / "tests" / "data" / "example4d.nii.gz"
    with importlib.resources.as_file(file) as real:
        image = nibabel.load(real)
        voxels = np.ascontiguousarray(image.dataobj.get_unscaled().T)
        x, y, z, t = (float(v) for v in image.header.get_zooms())
    group = zarr.open_group(path, mode="w-", zarr_format=3)
    level = group.create_array(
        "0", shape=voxels.shape, dtype="int16", chunks=(1, 8, 32, 32), shards=(1, 24, 96, 128), compressors=_zstd()
    )
    level[:] = voxels
    axes = [("t", "time", "millisecond"), *((a, "space", "millimeter") for a in "zyx")]
    group.attrs["ome"] = _multiscale("example4d", axes, {"0": (t, z, y, x)})
    progress(1)


def write_volume(path: pathlib.Path, progress: Progress) -> None:
    """Nuclei in dim, unevenly lit tissue with camera noise, and a level of half the size."""
    group = zarr.open_group(path, mode="w-", zarr_format=3)
    half = tuple(n // 2 for n in VOLUME_SHAPE)
    fine = group.create_array(
        "0", shape=VOLUME_SHAPE, dtype="uint16", chunks=(32, 64, 64), shards=(_SLAB, 512, 512), compressors=_zstd()
    )
    coarse = group.create_array(
        "1", shape=half, dtype="uint16", chunks=(32, 64, 64), shards=(_SLAB // 2, 512, 512), compressors=_zstd()
    )
    for z, slab in microscopy_slabs():
        fine[z : z + _SLAB] = slab
        coarse[z // 2 : (z + _SLAB) // 2] = slab[::2, ::2, ::2]
        progress(1)
    axes = [(a, "space", "micrometer") for a in "zyx"]
    group.attrs["ome"] = _multiscale("microscopy", axes, {"0": (0.5, 0.2, 0.2), "1": (1.0, 0.4, 0.4)})


def _zstd() -> list[Any]:
    return [zarr.codecs.ZstdCodec(level=1)]


def _multiscale(name: str, axes: list[tuple[str, str, str]], scales: dict[str, tuple[float, ...]]) -> dict[str, Any]:
    datasets = [
        {"path": path, "coordinateTransformations": [{"type": "scale", "scale": list(scale)}]}
        for path, scale in scales.items()
    ]
    named = [{"name": axis, "type": kind, "unit": unit} for axis, kind, unit in axes]
    return {"version": "0.5", "multiscales": [{"name": name, "axes": named, "datasets": datasets}]}


def microscopy_slabs(seed: int = 7) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the volume in slabs of whole planes, so that only one slab at a time is in memory as floats."""
    random = np.random.default_rng(seed)
    nuclei = _draw_nuclei(random)
    chromatin = _smooth_field(random)
    light = _uneven_light()
    for z in range(0, VOLUME_SHAPE[0], _SLAB):
        signal = np.broadcast_to(light, (_SLAB, *light.shape)).copy()
        for nucleus in nuclei:
            _paint(signal, z, nucleus, chromatin)
        yield z, _photograph(signal, random)


@dataclasses.dataclass(frozen=True)
class _Nucleus:
    centre: np.ndarray
    radii: np.ndarray
    brightness: float
    texture: np.ndarray  # where its texture begins in the field


def _draw_nuclei(random: np.random.Generator) -> list[_Nucleus]:
    return [
        _Nucleus(
            centre=random.uniform(0, VOLUME_SHAPE),
            radii=random.uniform((7, 13, 13), (13, 30, 30)),
            brightness=float(random.uniform(500, 2600)),
            texture=random.integers(0, np.subtract(_FIELD, _LARGEST)),
        )
        for _ in range(_NUCLEI)
    ]


def _smooth_field(random: np.random.Generator) -> np.ndarray:
    """Low-pass filtered noise: positive, around 1."""
    waves = np.meshgrid(*(np.fft.fftfreq(n) for n in _FIELD), indexing="ij")
    pass_low = np.exp(-80 * (9 * waves[0] ** 2 + waves[1] ** 2 + waves[2] ** 2))
    field = np.fft.ifftn(np.fft.fftn(random.standard_normal(_FIELD)) * pass_low).real
    return np.asarray(np.clip(1 + 0.35 * field / field.std(), 0.2, None), np.float32)


def _uneven_light() -> np.ndarray:
    y, x = np.linspace(-1, 1, VOLUME_SHAPE[1]), np.linspace(-1, 1, VOLUME_SHAPE[2])
    glow = 210 + 90 * np.exp(-(y[:, None] ** 2 + x**2))
    fibres = 40 * np.sin(9 * y[:, None] + 4 * np.sin(3 * x)) ** 8
    return np.asarray(glow + fibres, np.float32)


def _paint(signal: np.ndarray, z0: int, nucleus: _Nucleus, chromatin: np.ndarray) -> None:
    """Adds the part of a nucleus that lies in the slab; brightness falls off in its outer third."""
    low = np.maximum(np.floor(nucleus.centre - nucleus.radii).astype(int), (z0, 0, 0))
    high = np.minimum(np.ceil(nucleus.centre + nucleus.radii).astype(int) + 1, (z0 + _SLAB, *VOLUME_SHAPE[1:]))
    if (low >= high).any():
        return
    axes = [np.arange(a, b, dtype=np.float32) for a, b in zip(low, high)]
    squares = [((axis - c) / r) ** 2 for axis, c, r in zip(axes, nucleus.centre, nucleus.radii)]
    first = nucleus.texture + np.maximum(low - np.floor(nucleus.centre - nucleus.radii).astype(int), 0)
    texture = chromatin[tuple(slice(a, a + n) for a, n in zip(first, high - low))]
    inside = 1 - np.add.outer(np.add.outer(squares[0], squares[1]), squares[2]).astype(np.float32)
    box = signal[low[0] - z0 : high[0] - z0, low[1] : high[1], low[2] : high[2]]
    box += nucleus.brightness * np.clip(3 * inside, 0, 1) * texture


def _photograph(signal: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Adds shot noise (proportional to the square root of the light), plane by plane, and converts to 16 bits."""
    out = np.empty(signal.shape, np.uint16)
    for plane, seen in zip(signal, out):
        noise = random.standard_normal(plane.shape, np.float32)
        np.copyto(seen, np.clip(plane + noise * np.sqrt(plane), 0, 65535), casting="unsafe")
    return out
