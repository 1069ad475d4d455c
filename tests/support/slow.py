"""An array whose chunks take long to decode, so that a call is surely still waiting when a test looks at it.

24 chunks of 16 MiB, all one file under many names; a box of one element a chunk has all of them decoded.
"""

import gzip
import json
import os
import pathlib

import numpy as np

import damacy

CHUNKS, CHUNK_BYTES = 24, 1 << 24
OPTIONS = {
    "batch_size": 1,
    "host_buffer_bytes": 1 << 26,
    "device_buffer_bytes": 1 << 26,
    "n_io_threads": 1,
    "dtype": "u8",
}


def make_slow_array(path: pathlib.Path) -> pathlib.Path:
    path.mkdir()
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [CHUNKS, CHUNK_BYTES],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, CHUNK_BYTES]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
        "fill_value": 0,
    }
    (path / "zarr.json").write_text(json.dumps(document))
    noise = np.random.default_rng(1).integers(1, 17, 1 << 18).astype(np.uint8).tobytes()
    member = gzip.compress(noise, 1)  # gzip members concatenate
    (path / "c.0.0").write_bytes(member * (CHUNK_BYTES // len(noise)))
    for k in range(1, CHUNKS):
        os.link(path / "c.0.0", path / f"c.{k}.0")
    return path


def slow_sample(path: pathlib.Path, column: int = 0) -> damacy.Sample:
    return damacy.Sample(uri=path, aabb=[(0, CHUNKS), (column, column + 1)])
