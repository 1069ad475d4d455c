"""Labels as stored: their voxels, chunk by chunk, and a stamp that changes when they are written."""

from __future__ import annotations

import collections
import itertools
import math
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from damacy._core.counter_rng_many import I64
from damacy._pipeline.config import Config
from damacy._pipeline.pipeline import Pipeline
from damacy._pipeline.sample import Sample

_BATCH_VOXELS = 1 << 20
_MOST_ROWS = 64


def stamp_of(uri: str, path_in: str) -> tuple[int, int, int]:
    """The number of files of an array, their bytes, and when the last one was written, in ns. Visits every file.
    `path_in`: of the array in the image at the uri; empty for an array."""
    path = os.path.join(_path(uri), path_in)
    files = size = newest = 0
    for folder, _, names in os.walk(path):
        for name in names:
            found = os.stat(os.path.join(folder, name))
            files, size, newest = files + 1, size + found.st_size, max(newest, found.st_mtime_ns)
    return files, size, newest


def _path(uri: str) -> str:
    if not uri.startswith("file://"):
        return uri
    parts = urllib.parse.urlsplit(uri)
    return urllib.parse.unquote(parts.path)


def chunk_count(looks: Mapping[str, Any]) -> int:
    """How many chunks `chunks_of` gives."""
    return sum(
        math.prod(-(-size // extent) for size, extent in zip(look.shape, look.chunks)) for look in looks.values()
    )


def chunks_of(looks: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...], I64]]:
    """The uri, the first voxel and the voxels of each chunk of the labels. Each chunk is read once.

    The voxels are valid until the next ones. Raises the errors of `Pipeline.push` and `pop`.
    """
    by_extents = collections.defaultdict(list)
    for uri, look in looks.items():
        for box in _boxes(look.shape, look.chunks):
            by_extents[tuple(stop - start for start, stop in box)].append((uri, box))
    for extents, places in by_extents.items():
        voxels = 1
        for extent in extents:
            voxels *= extent
        rows = max(1, min(_BATCH_VOXELS // voxels, _MOST_ROWS))
        with Pipeline(Config(batch_size=rows, device="cpu", dtype="i64")) as pipeline:
            pipeline.push(Sample(uri, box) for uri, box in places)
            pipeline.flush()
            for batch in pipeline:
                with batch as lent:
                    for index, row in zip(lent.sample_indices, lent.numpy()):
                        uri, box = places[index]
                        yield uri, tuple(start for start, _ in box), row


def _boxes(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    axes = (
        [(start, min(start + extent, size)) for start in range(0, size, extent)] for size, extent in zip(shape, chunk)
    )
    return itertools.product(*axes)
