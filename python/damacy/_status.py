"""The status codes that Python and the native library share. Knows the numbers; error classes are in `_errors`."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """What kind of failure an error stands for.

    >>> Status.DECODE, Status(9).name
    (<Status.DECODE: 7>, 'OOM')
    """

    OK = 0
    AGAIN = 1
    INVAL = 2
    NOTFOUND = 3
    DTYPE = 4
    RANK = 5
    IO = 6
    DECODE = 7
    CUDA = 8
    OOM = 9
    SHUTDOWN = 10
