"""The readers that the remote benchmarks compare: each a function of (url or path, corners, extent of a crop) that
gives one crop after another. A crop may be overwritten or freed once the next is asked for, as in a training loop.
What it reads stays open for the next call, except where all that was read would stay too. `make` raises ImportError
where a package is missing. Knows no server and no clock."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bench.remote.data import box

Corners = Sequence[tuple[int, ...]]
Read = Callable[[str, Corners, int], Iterator[np.ndarray]]


MEMORY = 512 << 20  # of answers and of chunks, where a reader has a setting for it


class Damacy:
    """One pipeline of batches of 8 crops, until another array is read, or, without `stays`, until the read has ended.
    `counts`: what the last read has counted."""

    COUNTED = ("requests", "bytes_received", "disk_hits", "disk_misses")

    def __init__(self, *, stays: bool = False, **fields: Any) -> None:
        self.fields = {"batch_size": 8, "device": "cpu", "dtype": "u16", "host_buffer_bytes": MEMORY} | fields
        self.stays = stays
        self.opened: tuple[tuple[str, int], Any] | None = None
        self.counts: dict[str, int] = {}

    def close(self) -> None:
        if self.opened:
            self.opened[1].close()
        self.opened = None

    def __call__(self, url: str, corners: Corners, crop: int) -> Iterator[np.ndarray]:
        import damacy

        if self.opened is None or self.opened[0] != (url, crop):
            self.close()
            self.opened = ((url, crop), damacy.Pipeline(damacy.Config(**self.fields)))
        pipeline = self.opened[1]
        before = pipeline.stats()
        pipeline.push(damacy.Sample(url, [(c, c + crop) for c in corner]) for corner in corners)
        if len(corners) % self.fields["batch_size"] != 0:
            pipeline.flush()  # waits for the batches in production
        for _ in range(0, len(corners), self.fields["batch_size"]):
            with pipeline.pop() as held:
                yield from held.numpy()
        after = pipeline.stats()
        self.counts = {name: getattr(after, name) - getattr(before, name) for name in self.COUNTED}
        if not self.stays:
            self.close()


def tensorstore_reader(requests: int | None = None, pool: int = 0) -> Read:
    """All reads at once. `pool`: bytes of decoded chunks that are kept until the read has ended."""
    import tensorstore

    def opened(url: str) -> Any:
        context = {} if requests is None else {"http_request_concurrency": {"limit": requests}}
        context |= {"cache_pool": {"total_bytes_limit": pool}} if pool else {}
        spec = {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": url}, "context": context}
        return tensorstore.open(spec, open=True, read=True).result()

    kept = functools.lru_cache(maxsize=1)(opened)

    def read(url: str, corners: Corners, crop: int) -> Iterator[np.ndarray]:
        array = opened(url) if pool else kept(url)
        reads = collections.deque([array[box(corner, crop)].read() for corner in corners])
        while reads:
            yield reads.popleft().result()

    return read


def zarr_reader(requests: int) -> Read:
    """zarr-python over obstore: crop by crop, so many requests at once within one."""
    import zarr
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    @functools.lru_cache(maxsize=1)
    def opened(url: str) -> Any:
        store = ObjectStore(HTTPStore(url, client_options={"allow_http": True}), read_only=True)
        return zarr.open_array(store, mode="r")

    def read(url: str, corners: Corners, crop: int) -> Iterator[np.ndarray]:
        with zarr.config.set({"async.concurrency": requests}):
            array = opened(url)
            for corner in corners:
                yield array[box(corner, crop)]

    return read


def read_all(crops: Iterator[np.ndarray]) -> None:
    for _ in crops:
        pass


READERS: dict[str, Callable[[], Read]] = {
    "damacy": lambda: Damacy(stays=True),
    "damacy, 8 batches": lambda: Damacy(stays=True, n_batches=8, lookahead_batches=16),
    "tensorstore": tensorstore_reader,
    "tensorstore, 256 requests": lambda: tensorstore_reader(256),
    "tensorstore, 256 requests, pool": lambda: tensorstore_reader(256, MEMORY),
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
