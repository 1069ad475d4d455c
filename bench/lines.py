"""How long it takes a core to touch the lines of memory that a copy cannot do without: a bound for the copy.

    touching = Touching(reads, writes)     # arrays of addresses, of which each line counts once
    for touch in touching.ways: touch()    # the fastest is the bound

Knows lines and a C compiler, not copies. Lines are touched in the order of memory, both sides at once; the ways differ
in which sides' lines are asked for well before they are needed. A line that is written is read and put back as it was.
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
/* Into the second cache, where most can be on their way. Inlined, as GCC drops calls of what only asks. */
__attribute__((always_inline)) static inline void ask_beyond(struct side side, size_t i) {
  if (side.ahead && i + side.ahead < side.count) __builtin_prefetch((const void*)at(side, i + side.ahead), 0, 2);
}
uint64_t touch(struct side read, struct side written) {
  uint64_t sum = 0;
  size_t done = 0;
  for (size_t i = 0; i < read.count; ++i) {  /* both sides at once, as a copy does */
    ask_beyond(read, i);
    sum += *at(read, i);
    for (; done * read.count < (i + 1) * written.count; ++done) {
      ask_beyond(written, done);
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
    """Of each element."""
    offsets = [np.arange(n, dtype=np.int64) * stride for n, stride in zip(array.shape, array.strides)]
    return array.ctypes.data + functools.reduce(np.add.outer, offsets).ravel()


class Touching:
    """One read of each line of `reads`, one write of each of `writes`."""

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
