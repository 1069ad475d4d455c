"""What a halo exchange puts on the wire, by index formulas alone."""

from __future__ import annotations

import itertools

import numpy as np


def turned(block, i, j, n):
    """Turned by n; `i` and `j` are the places of the horizontal axes, None where there is none."""
    n %= 4
    shape = list(block.shape)
    if i is not None and j is not None and n % 2:
        shape[i], shape[j] = shape[j], shape[i]
    out = np.empty(shape, block.dtype)
    for at in itertools.product(*map(range, shape)):
        old = list(at)
        if i is None or j is None:
            if i is not None and n in (1, 2):
                old[i] = block.shape[i] - 1 - at[i]
            if j is not None and n in (2, 3):
                old[j] = block.shape[j] - 1 - at[j]
        else:
            ny, nx = block.shape[j], block.shape[i]
            jj, ii = at[j], at[i]
            old[j], old[i] = [(jj, ii), (ii, nx - 1 - jj), (ny - 1 - jj, nx - 1 - ii), (ny - 1 - ii, jj)][n]
        out[at] = block[tuple(old)]
    return out


def negated(block):
    """In the type: sign bits of floats, two's complement of integers."""
    if block.dtype.kind in "iu":
        bits = np.ascontiguousarray(block).view(f"u{block.dtype.itemsize}")
        return (bits.dtype.type(0) - bits).view(block.dtype).reshape(block.shape)
    part = block.dtype.itemsize // (2 if block.dtype.kind == "c" else 1)
    bits = np.ascontiguousarray(block).view(f"u{part}")
    return (bits ^ bits.dtype.type(1 << (8 * part - 1))).view(block.dtype).reshape(block.shape)


def axes_of(dims):
    i = [a for a, d in enumerate(dims) if d in ("i", "i_interface")]
    j = [a for a, d in enumerate(dims) if d in ("j", "j_interface")]
    return (i or [None])[0], (j or [None])[0]


def slots(x, y, r):
    """The blocks of one index in order; x and y are (box of the field, dims), y None for a scalar."""
    tx = turned(x[0], *axes_of(x[1]), -r)
    if y is None:
        return [tx]
    ty = turned(y[0], *axes_of(y[1]), -r)
    return [[tx, ty], [ty, negated(tx)], [negated(tx), negated(ty)], [negated(ty), tx]][-r % 4]


def wire(blocks, strides, native):
    """The bytes of all slots; `strides` are those of each slot's own spec."""
    out = b""
    for block, ranks in zip(blocks, strides):
        if native:
            out += bytes(-len(out) % 16)
            block = block.transpose(sorted(range(block.ndim), key=lambda a: (-abs(ranks[a]), a)))
        out += block.tobytes(order="C")
    return out
