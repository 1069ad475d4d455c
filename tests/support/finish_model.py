"""What a row with an `ArraySpec` must hold, as its documentation words it, in NumPy: `numpy.pad`, `numpy.take`, one
multiplication, one addition, `numpy.transpose` and `numpy.flip`. Only the conversion of element types is the exact
model of `convert_model`. Works on bits; reads no files.
"""

import numpy as np

from support import convert_model
from support.element_types import as_bits, bits_type, from_bits

EXACT_IN_F32 = ("float32", "bfloat16", "float16", "uint8", "int8", "uint16", "int16", "bool")
WIDE_OUTPUTS = ("float64", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def part(bits, indices, borders, finish):
    """The elements of a box, in stored order of axes.

    `indices`: for each axis those that are wanted, also beyond the array. `borders`: for each axis None, a mode of
    `numpy.pad`, or the bits of a constant. `finish`: makes bits of the output of stored bits.
    """
    sizes = bits.shape
    for axis, (wanted, border) in enumerate(zip(indices, borders)):
        size = bits.shape[axis]
        below, above = max(0, -min(wanted)), max(0, max(wanted) - size + 1)
        width = [(0, 0)] * bits.ndim
        width[axis] = (below, above)
        if below or above:
            bits = np.pad(bits, width, mode=border if isinstance(border, str) else "constant")
        bits = np.take(bits, np.asarray(wanted) + below, axis=axis)
    result = finish(bits)
    shape = result.shape
    decided = np.zeros(shape, bool)
    for axis, (wanted, border) in enumerate(zip(indices, borders)):
        if border is None or isinstance(border, str):
            continue
        beyond = np.array([not 0 <= index < sizes[axis] for index in wanted])
        where = beyond.reshape([-1 if k == axis else 1 for k in range(len(shape))]) & ~decided
        result = np.where(where, np.asarray(border, result.dtype), result)
        decided |= np.broadcast_to(where, shape)
    return result


def finished(bits, stored, output, *, scale=None, offset=None, rounding="truncate", low=None, high=None):
    """One element after the other, all alike: scale and offset may be arrays that broadcast."""
    value = from_bits(bits, stored)
    nearest = rounding == "nearest" and output not in FLOATS
    kind = stored
    with np.errstate(all="ignore"):
        if scale is not None or offset is not None:
            wide = stored not in EXACT_IN_F32 or output in WIDE_OUTPUTS
            working = np.float64 if wide else np.float32
            value = value.astype(working)
            value = value * np.asarray(1.0 if scale is None else scale, working)
            value = value + np.asarray(0.0 if offset is None else offset, working)
            value = np.where(np.isnan(value), working(np.nan), value)
            if wide and output not in WIDE_OUTPUTS:
                value = value.astype(np.float32)
            kind = str(value.dtype)
            if nearest:
                value = np.rint(value)
        elif nearest and stored in FLOATS:
            value, kind = np.rint(value.astype(np.float64)), "float64"
    result = convert_model.convert_bits(as_bits(value, kind), kind, output)
    for bound, is_beyond in ((low, np.less_equal), (high, np.greater_equal)):
        if bound is not None:
            limit = bits_of(bound, output)
            result = np.where(is_beyond(comparable(result, output), comparable(limit, output)), limit, result)
    return result


def comparable(bits, output):
    return bits if output == "bool" else from_bits(np.asarray(bits, bits_type(output)), output)


def bits_of(number, output):
    """A Python number as an element of `output`."""
    if isinstance(number, int):
        source = "int64" if number < 2**63 else "uint64"
        element = np.array(number, source)
    else:
        source, element = "float64", np.array(number)
    return convert_model.convert_bits(as_bits(element, source), source, output)[()]


def row(parts, order, transpose, flip):
    """`parts`: one array, or a list of the parts of a stack. Axes by number, `flip` and `transpose` from the last."""
    result = np.stack(parts) if isinstance(parts, list) else parts
    if order is not None:
        kept = [axis for axis in order if axis is not None]
        dropped = [axis for axis in range(result.ndim) if axis not in kept]
        result = np.transpose(np.squeeze(result, tuple(dropped)), np.argsort(np.argsort(kept)))
        result = np.expand_dims(result, tuple(k for k, axis in enumerate(order) if axis is None))
    if transpose:
        places = sorted(result.ndim + axis for axis in transpose)
        axes = list(range(result.ndim))
        for place, axis in zip(places, transpose):
            axes[place] = result.ndim + axis
        result = np.transpose(result, axes)
    return np.flip(result, flip) if flip else result
