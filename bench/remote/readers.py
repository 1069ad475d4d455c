"""The readers that the remote benchmarks compare: each a function of (url or path, corners, extent of a crop) that
gives one crop after another. A crop may be overwritten or freed once the next is asked for, as in a training loop.
`make` raises ImportError where a package is missing. Knows no server and no clock."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bench.remote.data import box

Corners = Sequence[tuple[int, ...]]
Read = Callable[[str, Corners, int], Iterator[np.ndarray]]


class Damacy:
    """Pipelines of batches of 8 crops. `stats` are those of the last read."""

    def __init__(self, **fields: Any) -> None:
        import damacy

        self.fields = {"batch_size": 8, "device": "cpu", "dtype": "u16", "host_buffer_bytes": 512 << 20} | fields
        self.stats: damacy.Stats | None = None

    def __call__(self, url: str, corners: Corners, crop: int) -> Iterator[np.ndarray]:
        import damacy

        with damacy.Pipeline(damacy.Config(**self.fields)) as pipeline:
            pipeline.push(damacy.Sample(url, [(c, c + crop) for c in corner]) for corner in corners)
            if len(corners) % self.fields["batch_size"] != 0:
                pipeline.flush()  # waits for the batches in production
            for batch in pipeline:
                with batch as held:
                    yield from held.numpy()
        self.stats = pipeline.stats()


def tensorstore_reader(requests: int | None = None) -> Read:
    import tensorstore

    def read(url: str, corners: Corners, crop: int) -> Iterator[np.ndarray]:
        limits = {} if requests is None else {"http_request_concurrency": {"limit": requests}}
        base, path = re.fullmatch(r"(http://[^/]+)/(.*)", url).groups()
        spec = {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": f"{base}/{path}"}, "context": limits}
        array = tensorstore.open(spec, open=True, read=True).result()
        reads = collections.deque([array[box(corner, crop)].read() for corner in corners])
        while reads:
            yield reads.popleft().result()

    return read


def zarr_reader(requests: int) -> Read:
    """zarr-python over obstore: crop by crop, so many requests at once within one."""
    import zarr
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    def read(url: str, corners: Corners, crop: int) -> Iterator[np.ndarray]:
        with zarr.config.set({"async.concurrency": requests}):
            store = ObjectStore(HTTPStore(url, client_options={"allow_http": True}), read_only=True)
            array = zarr.open_array(store, mode="r")
            for corner in corners:
                yield array[box(corner, crop)]

    return read


def read_all(crops: Iterator[np.ndarray]) -> None:
    for _ in crops:
        pass


READERS: dict[str, Callable[[], Read]] = {
    "damacy": Damacy,
    "damacy, 8 batches": lambda: Damacy(n_batches=8, lookahead_batches=16),
    "tensorstore": tensorstore_reader,
    "tensorstore, 256 requests": lambda: tensorstore_reader(256),
    "zarr and obstore, 128 at once": lambda: zarr_reader(128),
}


def available(names: Sequence[str] = tuple(READERS)) -> tuple[dict[str, Read], dict[str, str]]:
    """The readers that can be made, and why the others cannot."""
    made, missing = {}, {}
    for name in names:
        try:
            made[name] = READERS[name]()
        except ImportError as error:
            missing[name] = str(error)
    return made, missing
