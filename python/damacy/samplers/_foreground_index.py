"""`ForegroundIndex`: where the classes of labels are, in memory and in a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._core.errors import StorageError
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import is_source, looked_at, not_negative, positive
from damacy._pipeline.same_place import Scaled
from damacy._pipeline.sample import uri_text
from damacy.samplers._label_blocks import LabelBlocks, no_blocks, rows_of
from damacy.samplers._label_files import chunk_count, chunks_of, stamp_of
from damacy.samplers._label_levels import LabelLevel, labels_read, path_of, same_level
from damacy.typing import Progress, Source

_FORMAT = 1
_BLOCK = 8  # voxels an axis, at first
_MOST_AT_ONCE = 1 << 20  # rows that are collected before they are added up

Stamp = tuple[int, int, int]


class ForegroundIndex:
    """The blocks of one or several labels that hold voxels of each class, with the numbers of these voxels.

    `build` reads the labels; `save` and `load` keep the result in a file.
    """

    def __init__(
        self,
        labels: dict[str, LabelBlocks],
        stamps: dict[str, Stamp],
        levels: dict[str, LabelLevel],
        looked_for: tuple[int, ...] | None = None,
    ) -> None:
        self._labels = labels  # in voxels of the level that was read
        self._stamps = stamps
        self._levels = levels
        self._looked_for = looked_for  # classes; None: all except 0

    @classmethod
    def build(
        cls,
        label: Source | Iterable[Source],
        *,
        classes: Iterable[int] | None = None,
        level: int | None = None,
        block: int | Sequence[int] | None = None,
        max_bytes: int = 64 << 20,
        progress: Progress | None = None,
    ) -> ForegroundIndex:
        """Read one label, or several, once, chunk by chunk.

        * `classes`: those to look for; by default all except 0.
        * `level`: of label images, the level that is read; by default 0, the finest one. A coarser level has fewer
          voxels, and world coordinates say where its blocks lie in the label. Classes that it lacks are not found.
        * `block`: the extents of blocks in voxels of the level, one number or one an axis; by default 8. All blocks are
          doubled on every axis until the index has at most `max_bytes` bytes.
        * `progress`: called after each chunk with the number of chunks read so far, and of all.

        `ValueError` if elements are not integers, or if a label has no such level. Raises the errors of reading a
        batch.
        """
        labels = cast("Iterable[Source]", [label] if is_source(label) else label)
        return cls._built(
            labels, classes, level, lambda _, level: _extents(block, len(level.shape)), max_bytes, progress
        )

    @classmethod
    def _built(
        cls,
        sources: Iterable[Source],
        classes: Iterable[int] | None,
        level: int | None,
        block_of: Callable[[str, LabelLevel], tuple[int, ...]],
        max_bytes: int = 64 << 20,
        progress: Progress | None = None,
    ) -> ForegroundIndex:
        """As `build`; `block_of` gives the extents of blocks for the uri of a label and its level."""
        number = 0 if level is None else not_negative(level, "level")
        read = labels_read(map(uri_text, sources), number)
        if not read:
            raise ValueError("label must name at least one array")
        wanted = None if classes is None else {as_int(number, "classes") for number in classes}
        most = positive(max_bytes, "max_bytes")
        for uri, each in read.items():
            if not each.look.dtype.startswith(("int", "uint", "bool")):
                raise ValueError(f"{uri}: the elements of a label are integers (got {each.look.dtype})")
        stamps = {uri: stamp_of(uri, each.path) for uri, each in read.items()}
        labels = {uri: no_blocks(each.look.shape, block_of(uri, each.level)) for uri, each in read.items()}
        label_of = {each.uri: uri for uri, each in read.items()}
        waiting: dict[str, list[tuple[Any, Any, Any]]] = {uri: [] for uri in labels}
        rows = 0
        looks = {each.uri: each.look for each in read.values()}
        chunks = chunk_count(looks)
        for done, (read_uri, start, voxels) in enumerate(chunks_of(looks), 1):
            uri = label_of[read_uri]
            waiting[uri].append(rows_of(voxels, start, labels[uri], wanted))
            rows += len(waiting[uri][-1][0])
            if rows > _MOST_AT_ONCE:
                labels, rows = _added(labels, waiting, most), 0
            if progress is not None:
                progress(done, chunks)
        looked_for = None if wanted is None else tuple(sorted(wanted))
        return cls(_added(labels, waiting, most), stamps, {uri: each.level for uri, each in read.items()}, looked_for)

    def __repr__(self) -> str:
        count = len(self._labels)
        size = sum(label.nbytes for label in self._labels.values())
        s = "" if count == 1 else "s"
        return f"<damacy.samplers.ForegroundIndex of {count} label{s}: {len(self.classes)} classes, {size} bytes>"

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes that were found, ascending."""
        found = [label.classes for label in self._labels.values()]
        return tuple(np.unique(np.concatenate(found)).tolist())

    @property
    def uris(self) -> tuple[str, ...]:
        """The labels."""
        return tuple(self._labels)

    def block(self, uri: str) -> tuple[int, ...]:
        """The extents of the blocks of a label, in voxels of the level that was read."""
        return self._label(uri).block

    def level(self, uri: str) -> int:
        """The level of a label that was read."""
        self._label(uri)
        return self._levels[uri].number

    def counts(self, uri: str) -> dict[int, int]:
        """The number of voxels of each class in a label, at the level that was read."""
        label = self._label(uri)
        found, which = np.unique(label.classes, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, which, label.counts)
        return dict(zip(found.tolist(), sums.tolist()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index as one `.npz` file. It replaces a file of this name when it is complete."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), "uris": np.array(list(self._labels))}
        if self._looked_for is not None:
            arrays["looked_for"] = np.array(self._looked_for, np.int64)
        for k, (uri, label) in enumerate(self._labels.items()):
            fields = {"shape": label.shape, "block": label.block, "stamp": self._stamps[uri]}
            rows = {"classes": label.classes, "blocks": label.blocks, "counts": label.counts}
            level = self._levels[uri]
            on_label = [(axis.times, axis.per, axis.offset) for axis in level.axes]
            place = {"level": level.number, "label_shape": level.shape, "on_label": on_label}
            arrays |= {f"{k}.{name}": np.array(value, np.int64) for name, value in (fields | rows | place).items()}
        target = os.path.abspath(os.fspath(path))
        descriptor, written = tempfile.mkstemp(dir=os.path.dirname(target), suffix=".npz")
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez_compressed(file, **arrays)
            os.replace(written, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(written)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ForegroundIndex:
        """Read an index that `save` wrote, and compare the stamps of its labels with the files there are.

        `StorageError`, reason `changed`, if a label was written since; `ValueError` if the file is no index.
        """
        with np.load(path, allow_pickle=False) as file:
            if "format" not in file or int(file["format"]) != _FORMAT:
                raise ValueError(f"{os.fspath(path)}: no index of this version: build it again")
            uris = [str(uri) for uri in file["uris"]]
            rows = ("classes", "blocks", "counts")
            labels = {
                uri: LabelBlocks(
                    tuple(file[f"{k}.shape"].tolist()),
                    tuple(file[f"{k}.block"].tolist()),
                    *(file[f"{k}.{name}"] for name in rows),
                )
                for k, uri in enumerate(uris)
            }
            stamps = {uri: file[f"{k}.stamp"].tolist() for k, uri in enumerate(uris)}
            levels = {uri: _level_from(file, k, labels[uri].shape) for k, uri in enumerate(uris)}
            looked_for = tuple(file["looked_for"].tolist()) if "looked_for" in file else None
        for uri, look in looked_at(uris).items():
            level_path = path_of(look, levels[uri].number)
            is_same = level_path is not None and look.shape == levels[uri].shape
            if level_path is None or not is_same or list(stamp_of(uri, level_path)) != stamps[uri]:
                raise StorageError(
                    f"{os.fspath(path)} is of another version of the label (size, time): build it again",
                    reason="changed",
                    uri=uri,
                )
        return cls(labels, {uri: (stamp[0], stamp[1], stamp[2]) for uri, stamp in stamps.items()}, levels, looked_for)

    def _label(self, uri: str) -> LabelBlocks:
        if uri not in self._labels:
            raise ValueError(f"the index has no label {uri}")
        return self._labels[uri]

    def _bounds(self, uri: str) -> I64:
        """The boxes of the rows' blocks in voxels of the label: an array of shape (n, axes, 2)."""
        return self._levels[uri].on_label(self._label(uri).bounds())

    def _block_on_label(self, uri: str) -> tuple[int, ...]:
        """The extents of blocks in voxels of the label, where they do not end with it."""
        level = self._levels[uri]
        return tuple(map(min, level.voxels(self._label(uri).block), level.shape))


def _level_from(file: Any, k: int, shape: tuple[int, ...]) -> LabelLevel:
    """That of label `k` in a file."""
    if f"{k}.level" not in file:
        return same_level(shape)
    axes = (Scaled(axis, *numbers) for axis, numbers in enumerate(file[f"{k}.on_label"].tolist()))
    return LabelLevel(int(file[f"{k}.level"]), tuple(file[f"{k}.label_shape"].tolist()), tuple(axes))


def _extents(block: int | Sequence[int] | None, axes: int) -> tuple[int, ...]:
    numbers = tuple(block) if isinstance(block, Iterable) else (_BLOCK if block is None else block,) * axes
    if len(numbers) != axes:
        raise ValueError(f"block has {len(numbers)} axes, a label has {axes}")
    return tuple(positive(number, f"block[{k}]") for k, number in enumerate(numbers))


def _added(
    labels: dict[str, LabelBlocks], waiting: dict[str, list[tuple[Any, Any, Any]]], most: int
) -> dict[str, LabelBlocks]:
    """The labels with the rows that wait, in blocks that are doubled until they fit. Empties `waiting`."""
    found = {}
    for uri, label in labels.items():
        rows = waiting[uri]
        found[uri] = label.with_rows(*(np.concatenate(column) for column in zip(*rows))) if rows else label
        rows.clear()
    while sum(label.nbytes for label in found.values()) > most:
        if all(extent >= size for label in found.values() for extent, size in zip(label.block, label.shape)):
            raise ValueError(f"the classes of the labels need more than max_bytes {most}: name classes, or raise it")
        found = {uri: label.doubled() for uri, label in found.items()}
    return found
