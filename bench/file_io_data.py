"""Shared by the rows of `bench.file_io`: the file that they read, and the clock. Knows no rows."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SECONDS = 15  # after three rounds, a row starts no further round later than this


def timed(arm: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and seconds of processor time."""
    cpu, start = time.process_time(), time.perf_counter()
    arm()
    return time.perf_counter() - start, time.process_time() - cpu


def check(failed: int) -> None:
    assert failed == 0, "a baseline failed"


class Data:
    """A file of random bytes, and checks that it is in the page cache or is not."""

    def __init__(self, folder: pathlib.Path, size: int) -> None:
        self.path = str(folder / "data")
        self.size = size
        block = np.random.default_rng(0).integers(0, 256, 64 << 20, dtype=np.uint8)
        with open(self.path, "wb") as out:
            for _ in range(size // block.size):
                out.write(block)
        self.fd = os.open(self.path, os.O_RDONLY)

    def heat(self) -> None:
        from damacy import cufile

        with open(self.path, "rb", buffering=0) as file:
            space = bytearray(16 << 20)
            while file.readinto(space):
                pass
        resident, total = cufile.get_page_cache_info(self.path)
        assert resident == total, "the page cache does not hold the file"

    def chill(self) -> None:
        from damacy import cufile

        cufile.drop_file_page_cache(self.path)
        assert cufile.get_page_cache_info(self.path)[0] == 0, "pages stay resident"
