"""The cache of compiled plans, which the native library keeps, and the number of threads that run them on the host.
Both are of the whole process. Knows no key of the cache."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping

from damacy import _native
from damacy.halo._errors import InvalidArgument, number_from_environment


class _Cache(Mapping[bytes, "_native.CopyPlan"]):
    """The compiled plans of the process, most recently used first. Users may clear it at any time."""

    def __getitem__(self, key: bytes) -> _native.CopyPlan:
        found: _native.CopyPlan = _native.cached_halo_plans()[key]
        return found

    def __iter__(self) -> Iterator[bytes]:
        return iter(_native.cached_halo_plans())

    def __len__(self) -> int:
        return len(_native.cached_halo_plans())

    def clear(self) -> None:
        _native.clear_cached_halo_plans()


INDICES_CACHE = _Cache()


_native.set_halo_threads(number_from_environment("DAMACY_HALO_THREADS", 1, 1))
num_threads = _native.halo_threads


def set_num_threads(n: int) -> None:
    """Sets the number of threads that a call of a CPU transformer may use, the caller's thread included."""
    if operator.index(n) < 1:
        raise InvalidArgument(f"threads: {n}")
    _native.set_halo_threads(operator.index(n))
