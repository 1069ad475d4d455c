"""Sizes and counts at which reads of chunks take another way, and the line of the code that has each.

`test_random_pipelines.py` draws chunks, boxes and batches on both sides of all of them, and checks that the lines are
there. Knows numbers; reads no array.
"""

import dataclasses

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Threshold:
    name: str
    at: int
    file: str  # below src/damacy
    line: str  # a part of it


PARTIAL_FROM = 512 * KIB

# Bytes of a chunk, stored or decoded.
OF_CHUNKS = (
    Threshold("the head that is read first", 4 * KIB, "codec/chain.h", "kHeadBytes = 4096;"),
    Threshold(
        "kept encoded chunks of a request", 64 * KIB, "batch/worker_engine.cpp", "kEncodedBytesATask = 64 << 10;"
    ),
    Threshold("a block of zstd", 128 * KIB, "codec/gpu_zstd/descriptors.h", "kMaxBlock = 128u << 10;"),
    Threshold("chunks read in part", PARTIAL_FROM, "fetch/wanted_chunks.cpp", "kPartialFrom = 512 << 10;"),
    Threshold("kept chunks of a request", 512 * KIB, "fetch/cached_task.h", "kCachedBytesATask = 512 << 10;"),
    Threshold("a merged read", 1 * MIB, "core/limits.h", "merged_read_bytes = 1 << 20;"),
    Threshold("kept neighbours of a request", 4 * MIB, "fetch/cached_task.h", "kNeighboursBytesATask = 4 << 20;"),
)

# Chunks that a batch needs, and those of them that are absent.
OF_COUNTS = (
    Threshold("kept chunks of a request", 64, "fetch/cached_task.h", "kCachedATask = 64;"),
    Threshold("absent chunks of a request", 64, "batch/worker_engine.cpp", "kFillsATask = 64;"),
)

# Bytes of a batch.
OF_BATCHES = (Threshold("rows written together", 32 * MIB, "copy/block_copy.cpp", "kStreamedBytes = 32u << 20;"),)

# Of a chunk: more is not worth reading in part.
MOST_IN_PART = 0.75
MOST_IN_PART_AT = ("fetch/wanted_chunks.cpp", "chunk_bytes() / 4 * 3;")


def sizes_around(at: int, row: int) -> tuple[int, int, int]:
    """Sizes in whole rows: just below, at (or the next above), and just above."""
    rows = -(-at // row)
    return (rows - 1) * row, rows * row, (rows + 1) * row
