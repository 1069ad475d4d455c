"""The number of threads that a call on the host may use, for the whole process."""

from __future__ import annotations

import operator

from damacy.halo._errors import InvalidArgument, number_from_environment

_threads = number_from_environment("DAMACY_HALO_THREADS", 1, 1)


def set_num_threads(n: int) -> None:
    """Sets the number of threads that a call of a CPU transformer may use, the caller's thread included."""
    global _threads
    if operator.index(n) < 1:
        raise InvalidArgument(f"threads: {n}")
    _threads = operator.index(n)


def num_threads() -> int:
    return _threads
