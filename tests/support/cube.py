"""The cubed sphere as integers in space: a cell over the edge is found by folding, with no table of turns.

Tile axes are (normal; i; j). Cell (j, i) of a tile with n cells a side is at normal * n + i' * I + j' * J, where
i' = 2 i + 1 - n runs from 1 - n to n - 1. A cell outside folds over the edge: its excess goes against the normal."""

from __future__ import annotations

import numpy as np

_X, _Y, _Z = np.eye(3, dtype=int)
TILES = [(_X, _Y, _Z), (_Y, -_X, _Z), (_Z, -_X, -_Y), (-_X, -_Z, -_Y), (-_Y, -_Z, _X), (-_Z, _Y, _X)]


def fold(tile, j, i, n):
    """The cell that is `(j, i)` of `tile` when one index is outside: (tile, j, i, I there, J there), by geometry.

    The last two are the unit vectors of the first tile's axes, carried over the edge, in the new tile's (I, J)."""
    normal, along_i, along_j = TILES[tile]
    a, b = 2 * i + 1 - n, 2 * j + 1 - n
    over_i, over_j = abs(a) > n, abs(b) > n
    assert not (over_i and over_j)
    if not over_i and not over_j:
        return tile, j, i, (1, 0), (0, 1)
    out = along_i * np.sign(a) if over_i else along_j * np.sign(b)
    excess = abs(a if over_i else b) - n
    other = along_j * b if over_i else along_i * a
    position = out * n + normal * (n - excess) + other
    carried = {tuple(out): -normal}  # what went outwards now goes down the new face

    def carry(axis):
        for was, now in carried.items():
            if tuple(axis) == was:
                return now
            if tuple(-axis) == was:
                return -now
        return axis

    new = next(t for t, (face, _, _) in enumerate(TILES) if np.array_equal(face, out))
    _, new_i, new_j = TILES[new]
    to_index = lambda axis: (int(position @ axis) + n - 1) // 2  # noqa: E731
    turned = [(int(carry(v) @ new_i), int(carry(v) @ new_j)) for v in (along_i, along_j)]
    return new, to_index(new_j), to_index(new_i), *turned


def place(tile, b, a, n):
    """Where in space the point at `a` along I and `b` along J is (from -n to n, or beyond one edge: folded), and the
    directions there in which the tile's axes go on."""
    normal, along_i, along_j = TILES[tile]
    for value, axis, other in ((a, along_i, b * along_j), (b, along_j, a * along_i)):
        if abs(value) > n:
            position = np.sign(value) * n * axis + (2 * n - abs(value)) * normal + other
            carried = -np.sign(value) * normal
            return position, *((carried, along_j) if axis is along_i else (along_i, carried))
    return n * normal + a * along_i + b * along_j, along_i, along_j
