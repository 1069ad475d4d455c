"""A lower bound for the time of a copy: the time in which a core touches the cache lines that the copy must touch.

    touching = Touching(reads, writes)     # arrays of addresses; each cache line counts once
    for touch in touching.ways: touch()    # the fastest is the bound

Knows cache lines and a C compiler, not copies. Lines are touched in the order of memory, on both sides at once. The
functions in `ways` differ in the sides whose lines they prefetch. Writing a line reads it and writes the same value.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import numpy as np

LINE_BYTES = 64
LINES_AHEAD = 128
SOURCE = """
#include <stddef.h>
#include <stdint.h>
enum { line_bytes = 64 };
struct side { char* base; const uint32_t* lines; size_t count, ahead; };
static volatile uint64_t* at(struct side side, size_t i) {
  return (volatile uint64_t*)(side.base + (size_t)side.lines[i] * line_bytes);
}
/* Prefetches into the L2 cache, which can have the most lines in flight. Inlined, because GCC removes calls of
   functions that only prefetch. */
__attribute__((always_inline)) static inline void prefetch_ahead(struct side side, size_t i) {
  if (side.ahead && i + side.ahead < side.count) __builtin_prefetch((const void*)at(side, i + side.ahead), 0, 2);
}
uint64_t touch(struct side read, struct side written) {
  uint64_t sum = 0;
  size_t done = 0;
  for (size_t i = 0; i < read.count; ++i) {  /* both sides at once, as a copy does */
    prefetch_ahead(read, i);
    sum += *at(read, i);
    for (; done * read.count < (i + 1) * written.count; ++done) {
      prefetch_ahead(written, done);
      *at(written, done) = *at(written, done);
    }
  }
  return sum;
}
"""


class Side(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("lines", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("ahead", ctypes.c_size_t),
    ]


@functools.cache
def _touch():
    folder = Path(tempfile.mkdtemp())
    (folder / "touch.c").write_text(SOURCE)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", "touch.so", "touch.c"], cwd=folder, check=True)
    touch = ctypes.CDLL(folder / "touch.so").touch
    touch.argtypes, touch.restype = [Side, Side], ctypes.c_uint64
    return touch


def addresses_of(array):
    """The address of each element."""
    offsets = [np.arange(n, dtype=np.int64) * stride for n, stride in zip(array.shape, array.strides)]
    return array.ctypes.data + functools.reduce(np.add.outer, offsets).ravel()


class Touching:
    """Reads each line of `reads` once, and writes each line of `writes` once."""

    def __init__(self, reads, writes):
        self._numbers = []
        read, written = [self._side(addresses) for addresses in (reads, writes)]
        self.read_lines, self.written_lines = len(self._numbers[0]), len(self._numbers[1])
        touch = _touch()
        self.ways = [functools.partial(touch, read(a), written(b)) for a in (0, LINES_AHEAD) for b in (0, LINES_AHEAD)]

    def _side(self, addresses):
        lines = np.unique(addresses // LINE_BYTES)
        numbers = (lines - lines[0]).astype(np.uint32)
        if numbers[-1] != lines[-1] - lines[0]:
            raise ValueError("lines too far apart")
        self._numbers.append(numbers)
        return functools.partial(Side, int(lines[0]) * LINE_BYTES, numbers.ctypes.data, len(numbers))
