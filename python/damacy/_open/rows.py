"""Rows of an `ArraySpec` for `Array.read`: a pipeline of one sample on the host makes them. Knows which axes an index
drops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from damacy._core import log
from damacy._core.errors import DamacyError, InvalidArgument
from damacy._open.selection import is_index, row_box
from damacy._pipeline.config import Config
from damacy._pipeline.pipeline import Pipeline
from damacy._pipeline.sample import Sample

if TYPE_CHECKING:
    import numpy

    from damacy._pipeline.array_spec import ArraySpec
    from damacy._pipeline.info import ArrayInfo


def row(array: ArrayInfo, box: Any, spec: ArraySpec, place: Any) -> numpy.ndarray[Any, Any]:
    """The row that a pipeline with `spec` makes of a box, without the axes at which the box has an integer.

    `place` is the native place where the array was opened, or None.
    """
    try:
        axes = row_box(box, array.shape)
        pairs = [(axis, axis + 1) if is_index(axis) else axis for axis in axes]
        found = _from_pipeline(array, pairs, spec, place)
        dropped = _places([k for k, axis in enumerate(axes) if is_index(axis)], array, spec)
        for k in dropped:
            if found.shape[k] != 1:
                raise InvalidArgument("channels: the box must be whole on the channel axis", reason="channels")
        return found.squeeze(tuple(dropped))
    except DamacyError as error:
        # The caller pushed no sample and knows no batch.
        error.sample_index = error.stream_index = error.batch_id = error.what = None
        error.lost = ()
        error.uri = error.uri or array.uri
        raise


def _from_pipeline(array: ArrayInfo, box: list[Any], spec: ArraySpec, place: Any) -> numpy.ndarray[Any, Any]:
    config = Config.for_this_machine(1, device="cpu", n_batches=1, arrays=spec)
    try:
        with Pipeline(config) as pipeline:
            pipeline.push([Sample(array, box)])
            view = pipeline.pop().numpy()  # keeps the slot after the pipeline is closed
    except DamacyError:
        _refuse_changed(array, place)  # the reason for the error, if the box fits only the array that was opened
        raise
    # Afterwards, because the pipeline opens the array itself: what it opened is what is there now, or older.
    _refuse_changed(array, place)
    first: numpy.ndarray[Any, Any] = view.reshape(view.shape[1:])
    return first


def _refuse_changed(array: ArrayInfo, place: Any) -> None:
    """Raises the error of `Array.read` without a spec if the stored array has another shape or type than `array`, and
    an error if another store is mounted at its uri."""
    from damacy import _native

    with log.drained:
        _native.check_array(array.uri, list(array.shape), array.dtype, place)


def _places(stored: list[int], array: ArrayInfo, spec: ArraySpec) -> list[int]:
    """Where these stored axes are in a row; those that `order` leaves out are in none."""
    if spec.order is None or not stored:
        return stored
    names = spec.axes or array.dims
    order = [
        names.index(axis) if isinstance(axis, str) else None if axis is None else axis % len(array.shape)
        for axis in spec.order
    ]
    return [order.index(k) for k in stored if k in order]
