"""`SharedCache`: a cache of encoded chunks that the processes of a host share. Knows its name and size; opens none."""

from __future__ import annotations

import dataclasses
import re

from damacy._core.sizes import as_bytes

_LEAST = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclasses.dataclass(frozen=True, slots=True)
class SharedCache:
    """Memory for encoded chunks that processes of this user on this host share, for `Config.host_cache`.

    The first pipeline that names it makes the memory, others join, and the system frees it with the last process that
    uses it, also if that is killed. All give the same size. Other users cannot open it.

    >>> SharedCache("imagenet", "40 GiB").bytes
    42949672960
    >>> SharedCache("a/b", 1 << 30)
    Traceback (most recent call last):
    ValueError: the name of a SharedCache has 1 to 64 letters, digits, '.', '-' and '_' (got 'a/b')

    Args:
        name: which memory, for processes that see the same process numbers (of one container, for example).
        bytes: of all of it, with its index, at least 1 MiB: an int, or text with a unit, such as `"40GiB"`.

    `Pipeline` raises `InvalidArgument` if the memory has another size, if it was made by another release of damacy that
    divides it otherwise, or if 64 processes use it. It raises `OutOfMemory` if the process that makes the memory does
    not find so much free, and `StorageError` if `/dev/shm` or `/proc` cannot be used.
    """

    name: str
    bytes: int

    def __init__(self, name: str, bytes: int | str) -> None:  # noqa: A002  the parameter's name in the documentation
        if not isinstance(name, str):
            raise TypeError(f"the name of a SharedCache must be a str (got {type(name).__name__})")
        if _NAME.fullmatch(name) is None or not name.strip("."):
            raise ValueError(f"the name of a SharedCache has 1 to 64 letters, digits, '.', '-' and '_' (got {name!r})")
        size = as_bytes(bytes, "bytes")
        if size < _LEAST:
            raise ValueError(f"bytes of a SharedCache must be >= {_LEAST} (got {size})")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "bytes", size)
