"""The output: a zarr v3 array or NGFF image, written beside its final place and renamed when it is complete."""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from damacy._stitch.image_axes import Axis, multiscales
from damacy._stitch.labels import IMAGE_LABEL, add_label, is_label
from damacy._stitch.sums import fill_value

_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")


class Output:
    """An output that is being written, in a hidden folder next to `path`. `finish` renames it, `discard` removes it.

    An interpreter that exits, or a program that drops the writer, discards it too. A process that is killed leaves the
    hidden folder `.NAME.RANDOM.partial`.
    """

    def __init__(self, path: str | os.PathLike[str], overwrite: bool, image: str) -> None:
        self.path = _local(path)
        self._overwrite = overwrite
        if os.path.lexists(self.path):
            self._check_replaceable(image)
        self._unfinished = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.partial")
        self._array: Any = None
        self._ome: dict[str, Any] | None = None
        self._is_label = False
        self._remove = weakref.finalize(self, _remove, self._unfinished, os.getpid())

    def _check_replaceable(self, image: str) -> None:
        if not self._overwrite:
            raise FileExistsError(f"{self.path} exists: choose another path, or say overwrite=True")
        real, source = self.path.resolve(), pathlib.Path(image).resolve()
        if real == source or real in source.parents:
            raise ValueError(f"{self.path} holds the image that the windows are cut from: choose another path")
        is_node = any((self.path / name).exists() for name in _DOCUMENTS)
        if self.path.is_symlink() or not self.path.is_dir() or not (is_node or not any(self.path.iterdir())):
            raise FileExistsError(f"{self.path} is not a zarr array or group, and is not replaced: choose another path")

    def create(
        self,
        axes: Sequence[Axis],
        dtype: np.dtype[Any],
        chunks: Sequence[int],
        shards: Sequence[int] | None,
    ) -> None:
        """Create the array. zarr-python raises the errors of chunks and shards."""
        import zarr

        self._unfinished.parent.mkdir(parents=True, exist_ok=True)
        self._ome = multiscales(axes, self.path.name.removesuffix(".zarr"), "0")
        self._is_label = self._ome is not None and dtype.kind in "iu" and is_label(self.path)
        names = [axis.name for axis in axes]
        self._array = zarr.create_array(
            self._unfinished if self._ome is None else self._unfinished / "0",
            shape=tuple(axis.size for axis in axes),
            chunks=tuple(chunks),
            shards=None if shards is None else tuple(shards),
            dtype=dtype,
            fill_value=fill_value(dtype),
            dimension_names=None if all(name is None for name in names) else names,
            zarr_format=3,
        )

    def write(self, box: tuple[slice, ...], elements: np.ndarray[Any, Any]) -> None:
        self._array[box] = elements

    def finish(self) -> None:
        """Put the complete output in its place, and list it there if it is a label."""
        self._put_in_place()
        if self._is_label:
            add_label(self.path)

    def _put_in_place(self) -> None:
        if self._ome is not None:
            import zarr

            if self._is_label:
                self._ome["image-label"] = IMAGE_LABEL
            zarr.create_group(self._unfinished, zarr_format=3, attributes={"ome": self._ome}, overwrite=False)
        self._array = None
        if not self._overwrite or not self.path.exists():
            if os.path.lexists(self.path):
                raise FileExistsError(f"{self.path} was made by another program meanwhile: choose another path")
            self._unfinished.rename(self.path)
            return
        before = self._unfinished.with_suffix(".replaced")
        try:
            self.path.rename(before)
            self._unfinished.rename(self.path)
        except BaseException:
            if before.exists() and not self.path.exists():
                before.rename(self.path)
            raise
        shutil.rmtree(before, ignore_errors=True)

    def discard(self) -> None:
        """Remove what was written."""
        self._array = None
        self._remove()


def _local(path: str | os.PathLike[str]) -> pathlib.Path:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"out must be a str or an os.PathLike of str (got {type(path).__name__})")
    if "://" in text:
        raise ValueError(f"out must be a path of a local file system (got {text!r})")
    found = pathlib.Path(os.path.abspath(text))
    if not found.name:
        raise ValueError(f"out must name a folder to be made (got {text!r})")
    return found


def _remove(path: pathlib.Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked process
        shutil.rmtree(path, ignore_errors=True)
