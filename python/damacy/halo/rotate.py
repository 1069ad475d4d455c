"""Rotates arrays clockwise by quarter turns, as views. Knows which dimensions are horizontal; not boxes or wires."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from damacy import _native
from damacy.halo._dtypes import CODES
from damacy.halo._errors import InvalidArgument


def horizontal_axes(dims: Sequence[str]) -> tuple[int, int]:
    """The indices of the I and the J dimension; -1 for a dimension that is missing."""
    return _native.halo_axes(dims)


def _flipped(data: Any, axes: Sequence[int]) -> Any:
    if hasattr(data, "flip") and not hasattr(data, "__array_interface__"):
        return data.flip(tuple(axes))  # torch has no negative strides
    index = [slice(None)] * len(data.shape)
    for axis in axes:
        index[axis] = slice(None, None, -1)
    return data[tuple(index)]


def rotate_scalar_data(data: Any, dims: Sequence[str], numpy: Any, n_clockwise_rotations: int) -> Any:
    """`data` rotated clockwise by `n_clockwise_rotations` quarter turns (any integer); a view if the library has them.

    `numpy` is the array module, or None. If there is only one horizontal dimension, it is flipped or unchanged.

    >>> import numpy as np
    >>> rotate_scalar_data(np.arange(6).reshape(2, 3), ("j", "i"), np, 1).tolist()
    [[2, 5], [1, 4], [0, 3]]
    """
    n = operator.index(n_clockwise_rotations) % 4
    if len(dims) != len(data.shape):
        raise InvalidArgument(f"data of shape {tuple(data.shape)} with dims {tuple(dims)}")
    i_axis, j_axis = horizontal_axes(dims)
    flips_i, flips_j, swaps = _native.halo_turn(i_axis, j_axis, n)
    flips = [axis for axis, is_flipped in ((i_axis, flips_i), (j_axis, flips_j)) if is_flipped]
    if flips:
        data = _flipped(data, flips)
    if swaps:
        data = data.swapaxes(i_axis, j_axis)
    return data


def rotate_vector_data(
    x_data: Any, y_data: Any, n_clockwise_rotations: int, dims: Sequence[str], numpy: Any
) -> list[Any]:
    """The x and the y component of a vector, rotated clockwise. Components are exchanged and negated with the axes.

    `dims`: names of the dimensions of both components, or a pair of tuples of names.
    """
    x_dims, y_dims = (dims, dims) if all(isinstance(d, str) for d in dims) else dims
    x = rotate_scalar_data(x_data, x_dims, numpy, n_clockwise_rotations)
    y = rotate_scalar_data(y_data, y_dims, numpy, n_clockwise_rotations)
    n = n_clockwise_rotations % 4
    for data in (x_data, y_data) if n else ():
        code = CODES.get(str(getattr(data, "dtype", "")).removeprefix("torch."))
        if code is not None:
            _native.check_negatable(code)
    slots = []
    for from_y, is_negated in _native.halo_components(n):
        component = y if from_y else x
        slots.append(-component if is_negated else component)
    return slots
