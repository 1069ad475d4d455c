"""`Array`: the description of a stored array, with its elements and its place in the world."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from damacy._core import log
from damacy._core.errors import DamacyError, DecodeError
from damacy._core.integers import as_int
from damacy._open.describe import text_of
from damacy._open.html import html_of_array
from damacy._open.rows import row
from damacy._open.selection import selection
from damacy._open.world import Place, around, edges, finite, first_voxel
from damacy._pipeline.array_spec import ArraySpec
from damacy._pipeline.info import ArrayInfo

if TYPE_CHECKING:
    import numpy
    import numpy.typing

Axis = str | int
"""An axis of an array: its name, or its number, from the last one if it is negative."""


@dataclasses.dataclass(frozen=True, slots=True)
class Transformation:
    """Scale and translation of each axis, None where unknown; or why they cannot be used."""

    scale: tuple[float | None, ...] = ()
    translation: tuple[float | None, ...] = ()
    problem: tuple[str, str] | None = None  # pointer and message


@dataclasses.dataclass(frozen=True, slots=True)
class Array(ArrayInfo):
    """An opened array: its description, and its elements on demand. It can be the uri of a `Sample`.

    ::

        array = damacy.open_array("cell.zarr/0")
        array[:16, 100:200].mean()
        array.read(array.box(start={"x": 20.0}, stop={"x": 45.0}))

    In addition to the fields of `ArrayInfo`:

    * `units`: the attribute `units`; for an image a tuple with the unit of each axis. None if there is none.
    * `scale`, `translation`: one number an axis. The centre of voxel `i` lies at `scale * i + translation`. None where
      the metadata do not say.
    """

    units: str | tuple[str | None, ...] | None = None
    _transformation: Transformation = dataclasses.field(default=Transformation(), repr=False)
    # The native place that was opened, which stays the same if another store is mounted; None for files and in pickles.
    _opened: Any = dataclasses.field(default=None, repr=False, compare=False)
    # Of a level: the names of the image's axes, if all have one, and the channel axis.
    _axes_of_image: tuple[tuple[str, ...], Axis | None] | None = dataclasses.field(default=None, repr=False)

    def _transformed(self) -> Transformation:
        if self._transformation.problem is not None:
            pointer, message = self._transformation.problem
            raise DecodeError(message, pointer=pointer, uri=self.uri, reason="ngff")
        return self._transformation

    @property
    def scale(self) -> tuple[float | None, ...]:
        """World units per voxel, by axis. `DecodeError` if the metadata of the image cannot be used."""
        return self._transformed().scale or (None,) * self.ndim

    @property
    def translation(self) -> tuple[float | None, ...]:
        """The centre of the first voxel in world units, by axis."""
        return self._transformed().translation or (None,) * self.ndim

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, decoded."""
        return self.size * _itemsize(self.dtype)

    def stored_bytes(self) -> int:
        """The bytes of the stored chunks or shards. Asks the storage for the size of each one."""
        from damacy import _native

        with log.drained:
            return int(_native.stored_bytes(self.uri, self._opened))

    # -- elements

    def read(self, box: Any = None, *, spec: ArraySpec | None = None) -> numpy.ndarray[Any, Any]:
        """The stored elements of a box in the stored type; without a box, all of them.

        An axis of a box is a `(start, stop)` pair, a `range`, a `Take`, a `slice` or an integer. Integers and slices
        follow NumPy: negative numbers count from the end, and an integer drops its axis.

        With a `spec` it is the row that a `Pipeline` on the host makes with `Config(arrays=spec)`: of type f32, unless
        the spec has a `dtype`. Pairs, ranges and `Take` may then lie beyond the array on axes with a `pad`.

        Chunks are decoded anew by each read, unless `damacy.set_read_cache` has set a size.
        """
        import numpy

        from damacy import _native

        if spec is not None:
            return row(self, box, self._named(spec), self._opened)

        try:
            wanted = selection(box, self.shape)
        except DamacyError as error:
            error.uri = self.uri
            raise
        out = numpy.empty(wanted.extents, self._numpy_dtype())
        raw = out.reshape(-1).view("u1")
        with log.drained:
            _native.read_array(self.uri, list(self.shape), self.dtype, wanted.stretches, raw, self._opened)
        return out.reshape(wanted.shape)

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of_array(self)

    def __getitem__(self, box: Any) -> numpy.ndarray[Any, Any]:
        return self.read(box)

    __iter__ = None  # an array would be read element by element

    def __array__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise TypeError("a damacy.Array holds no elements: say .read()")

    def _named(self, spec: Any) -> ArraySpec:
        """The spec; for a level of an image with the names of the image's axes, which the level's uri does not give."""
        if not isinstance(spec, ArraySpec):
            raise TypeError(f"spec must be a damacy.ArraySpec (got {type(spec).__name__})")
        if self._axes_of_image is None or spec.axes is not None:
            return spec
        names, channel_axis = self._axes_of_image
        channel_axis = channel_axis if spec.channel_axis is None else spec.channel_axis
        return dataclasses.replace(spec, axes=names, channel_axis=channel_axis)

    def _numpy_dtype(self) -> numpy.dtype[Any]:
        import numpy

        if self.dtype == "bfloat16":
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError("NumPy has no bfloat16: install ml_dtypes") from None
            bfloat16: numpy.dtype[Any] = numpy.dtype(ml_dtypes.bfloat16)
            return bfloat16
        if self.dtype.startswith("numpy."):
            letter = "M" if self.dtype == "numpy.datetime64" else "m"
            return numpy.dtype(f"{letter}8[{self.time_unit}]" if self.time_unit else f"{letter}8")
        try:
            return numpy.dtype(self.dtype)
        except TypeError:
            raise TypeError(f"elements of type {self.dtype} cannot be read: {self.why_not}") from None

    # -- the world

    def axis(self, axis: Axis) -> int:
        """The number of an axis, by its name or number."""
        if isinstance(axis, str):
            if axis in self.dims:
                return self.dims.index(axis)
            named = [name for name in self.dims if name is not None]
            has = f"the array has {', '.join(map(repr, named))}" if named else "the axes of the array have no names"
            raise ValueError(f"no axis {axis!r}; {has}")
        number = as_int(axis, "axis")
        if not -self.ndim <= number < self.ndim:
            raise ValueError(f"no axis {number}: the array has {self.ndim} axes")
        return number % self.ndim

    def box(
        self,
        *,
        start: Mapping[Axis, float] | None = None,
        stop: Mapping[Axis, float] | None = None,
        center: Mapping[Axis, float] | None = None,
        shape: Mapping[Axis, int] | None = None,
    ) -> tuple[tuple[int, int], ...]:
        """A box in voxels from world coordinates: from `start` to `stop`, or `shape` voxels around `center`.

        It has the voxels whose centres lie in the half-open interval. Axes that are left out are whole. The box is not
        cut at the ends of the array. Where the metadata give a scale and no translation, the first voxel lies at 0.
        """
        if (center is None) != (shape is None):
            raise TypeError("box: center and shape belong together")
        if center is not None and (start is not None or stop is not None):
            raise TypeError("box: give start and stop, or center and shape")
        box = [(0, size) for size in self.shape]
        if center is not None and shape is not None:
            centers, counts = self._by_axis(center, "center"), self._by_axis(shape, "shape")
            if centers.keys() != counts.keys():
                raise ValueError("box: center and shape must have the same axes")
            for k, world in centers.items():
                count = as_int(counts[k], f"shape[{self._name(k)}]")
                if count < 0:
                    raise ValueError(f"shape[{self._name(k)}] must be >= 0 (got {count})")
                box[k] = around(self._place(k), finite(world, f"center[{self._name(k)}]"), count)
            return tuple(box)
        for k, world in self._by_axis(start or {}, "start").items():
            box[k] = first_voxel(self._place(k), finite(world, f"start[{self._name(k)}]")), box[k][1]
        for k, world in self._by_axis(stop or {}, "stop").items():
            box[k] = box[k][0], first_voxel(self._place(k), finite(world, f"stop[{self._name(k)}]"))
        for k, (first, end) in enumerate(box):
            if end < first:
                raise ValueError(f"box: axis {self._name(k)} stops at voxel {end}, before its start at {first}")
        return tuple(box)

    def world(self, box: Any) -> dict[Axis, tuple[float, float]]:
        """The world interval of a box, edge to edge, by axis. Axes without a name have their number, and axes without a
        scale are left out."""
        pairs = [tuple(axis) for axis in box]
        if len(pairs) != self.ndim:
            raise ValueError(f"world: the box has {len(pairs)} axes, the array has {self.ndim}")
        found: dict[Axis, tuple[float, float]] = {}
        for k, pair in enumerate(pairs):
            if self.scale[k] is not None:
                start, stop = (as_int(bound, f"world: axis {k}") for bound in pair)
                found[self.dims[k] or k] = edges(self._place(k), start, stop)
        return found

    def _by_axis(self, values: Mapping[Axis, Any], name: str) -> dict[int, Any]:
        if not isinstance(values, Mapping):
            raise TypeError(f"box: {name} must be a mapping from axis to number (got {type(values).__name__})")
        found: dict[int, Any] = {}
        for axis, value in values.items():
            if (k := self.axis(axis)) in found:
                raise ValueError(f"box: {name} names axis {self._name(k)} twice")
            found[k] = value
        return found

    def _name(self, k: int) -> str:
        return self.dims[k] or str(k)

    def _place(self, k: int) -> Place:
        scale = self.scale[k]
        if scale is None:
            raise ValueError(f"axis {self._name(k)} has no scale: the metadata of {self.uri} give none")
        return Place(scale, self.translation[k] or 0.0)


def _itemsize(dtype: str) -> int:
    if dtype.startswith("numpy."):
        return 8
    if dtype == "bool":
        return 1
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) // 8 if digits else 0


def child_uri(uri: str, path: str) -> str:
    """The uri of a node below a group."""
    return os.path.join(uri, path) if "://" not in uri else f"{uri.rstrip('/')}/{path}"


# Pickles and tracebacks show damacy.Array.
Array.__module__ = "damacy"
