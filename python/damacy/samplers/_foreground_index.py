"""`ForegroundIndex`: where the classes of labels are, in memory and in a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from damacy._core.errors import StorageError
from damacy._core.integers import as_int
from damacy._pipeline.cropped_arrays import is_source, looked_at, positive
from damacy._pipeline.sample import uri_text
from damacy.samplers._label_blocks import LabelBlocks, no_blocks, rows_of
from damacy.samplers._label_files import chunks_of, stamp_of
from damacy.typing import Source

_FORMAT = 1
_BLOCK = 8  # voxels an axis, at first
_MOST_AT_ONCE = 1 << 20  # rows that are collected before they are added up

Stamp = tuple[int, int, int]


class ForegroundIndex:
    """The blocks of one or several labels that hold voxels of each class, with the numbers of these voxels.

    `build` reads the labels; `save` and `load` keep the result in a file.
    """

    def __init__(self, labels: dict[str, LabelBlocks], stamps: dict[str, Stamp]) -> None:
        self._labels = labels
        self._stamps = stamps

    @classmethod
    def build(
        cls,
        label: Source | Iterable[Source],
        *,
        classes: Iterable[int] | None = None,
        block: int | Sequence[int] | None = None,
        max_bytes: int = 64 << 20,
    ) -> ForegroundIndex:
        """Read one label, or several, once, chunk by chunk.

        * `classes`: those to look for; by default all except 0.
        * `block`: the extents of blocks in voxels, one number or one an axis; by default 8. All blocks are doubled on
          every axis until the index has at most `max_bytes` bytes.

        `ValueError` if elements are not integers. Raises the errors of reading a batch.
        """
        labels_given = [label] if is_source(label) else cast("Iterable[Source]", label)
        looks = looked_at(map(uri_text, labels_given))
        if not looks:
            raise ValueError("label must name at least one array")
        wanted = None if classes is None else {as_int(number, "classes") for number in classes}
        most = positive(max_bytes, "max_bytes")
        for uri, look in looks.items():
            if not look.dtype.startswith(("int", "uint", "bool")):
                raise ValueError(f"{uri}: the elements of a label are integers (got {look.dtype})")
        stamps = {uri: stamp_of(uri, look) for uri, look in looks.items()}
        labels = {uri: no_blocks(look.shape, _extents(block, look.ndim)) for uri, look in looks.items()}
        waiting: dict[str, list[tuple[Any, Any, Any]]] = {uri: [] for uri in labels}
        rows = 0
        for uri, start, voxels in chunks_of(looks):
            waiting[uri].append(rows_of(voxels, start, labels[uri], wanted))
            rows += len(waiting[uri][-1][0])
            if rows > _MOST_AT_ONCE:
                labels, rows = _added(labels, waiting, most), 0
        return cls(_added(labels, waiting, most), stamps)

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
        """The extents of the blocks of a label, in voxels."""
        return self._label(uri).block

    def counts(self, uri: str) -> dict[int, int]:
        """The number of voxels of each class in a label."""
        label = self._label(uri)
        found, which = np.unique(label.classes, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, which, label.counts)
        return dict(zip(found.tolist(), sums.tolist()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index as one `.npz` file. It replaces a file of this name when it is complete."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), "uris": np.array(list(self._labels))}
        for k, (uri, label) in enumerate(self._labels.items()):
            fields = {"shape": label.shape, "block": label.block, "stamp": self._stamps[uri]}
            rows = {"classes": label.classes, "blocks": label.blocks, "counts": label.counts}
            arrays |= {f"{k}.{name}": np.array(value, np.int64) for name, value in (fields | rows).items()}
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
        for uri, look in looked_at(uris).items():
            if look.shape != labels[uri].shape or list(stamp_of(uri, look)) != stamps[uri]:
                raise StorageError(
                    f"{os.fspath(path)} is of another version of the label (size, time): build it again",
                    reason="changed",
                    uri=uri,
                )
        return cls(labels, {uri: (stamp[0], stamp[1], stamp[2]) for uri, stamp in stamps.items()})

    def _label(self, uri: str) -> LabelBlocks:
        if uri not in self._labels:
            raise ValueError(f"the index has no label {uri}")
        return self._labels[uri]


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
