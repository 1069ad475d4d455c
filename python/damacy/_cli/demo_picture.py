"""The demo's picture: a montage of crops from batches, drawn by matplotlib."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm

_COLUMNS = 8
_ROWS = 2  # of each array


def save_montage(path: pathlib.Path, crops: Mapping[str, Sequence[np.ndarray]]) -> None:
    """One block of rows per array: the middle plane of each crop, with one grey scale per array."""
    figure, axes = plt.subplots(
        _ROWS * len(crops), _COLUMNS, figsize=(1.4 * _COLUMNS, 1.5 * _ROWS * len(crops)), squeeze=False
    )
    for block, (title, some) in enumerate(crops.items()):
        planes = [middle_plane(crop) for crop in some[: _COLUMNS * _ROWS]]
        low, high = np.percentile(np.concatenate([p.ravel() for p in planes]), (1, 99.7))
        shape = " × ".join(map(str, some[0].shape))
        axes[block * _ROWS][0].set_title(f"{title}: crops of {shape}", loc="left", fontsize=10)
        for axis, plane in zip(axes[block * _ROWS : (block + 1) * _ROWS].ravel(), planes):
            axis.imshow(plane, cmap="magma" if block else "gray", norm=PowerNorm(0.6, low, high))
    for axis in axes.ravel():
        axis.set_axis_off()
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.95, wspace=0.06, hspace=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def middle_plane(crop: np.ndarray) -> np.ndarray:
    """The plane of the last two axes at the middle of all other axes."""
    while crop.ndim > 2:
        crop = crop[crop.shape[0] // 2]
    return crop
