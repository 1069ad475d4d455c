"""`ArraySpec`: what is wanted of one array of samples, and the mapping of them that a `Config` holds."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from damacy._core.dtype import Dtype
from damacy._core.integers import as_int
from damacy._pipeline.foreign_values import dtype_of

if TYPE_CHECKING:
    from damacy.typing import DtypeLike, Pad, Rounding

MAX_NAME = 64  # characters
MAX_CHANNELS = 4096
BORDERS = ("edge", "reflect", "symmetric", "wrap")
_BITS = {Dtype.U8: 8, Dtype.U16: 16, Dtype.U32: 32, Dtype.U64: 64, Dtype.BOOL: 1}
_SIGNED_BITS = {Dtype.I8: 8, Dtype.I16: 16, Dtype.I32: 32, Dtype.I64: 64}


@dataclasses.dataclass(frozen=True, slots=True, init=False)
class ArraySpec:
    """What is wanted of one array of samples: a value of `Config.arrays`.

    An element is read, unpacked and masked (`cf`), multiplied and added to (`scale`, `offset`), converted to `dtype`,
    and clipped. NumPy gives the same bits: with `f4` for f32, `(x.astype("f4") * f4(scale) + f4(offset))`. The
    arithmetic is in f32 where that holds every value of the stored type, else in f64. Without `scale`, `offset` and
    `cf` the stored value itself is converted. An axis is a name, or an integer: a negative one counts from the last
    axis, others count the stored axes from the first.

    Args:
        dtype: the element type of its rows, as for `Config.dtype`; None: `Config.dtype`.
        cf: True: elements are unpacked by the attributes `scale_factor`, `add_offset` and `_Unsigned`, and those equal
            to `_FillValue` or `missing_value` are missing, as xarray decodes them. False: stored values. None: stored
            values, with one warning for each array that is packed.
        scale, offset: `x * scale + offset`. Finite numbers, or a sequence with one number for each channel.
        clip: `(low, high)`, applied last, in `dtype`; either may be None. Integers where `dtype` is an integer type.
        rounding: to an integer type: `"truncate"` towards zero, or `"nearest"`, ties to even.
        missing: the value of missing elements; None: NaN.
        pad: what lies beyond the array, so that boxes may cross its border: `"edge"`, `"reflect"`, `"symmetric"` or
            `"wrap"` as in `numpy.pad`, a number (an element of the batch, neither scaled nor clipped), or a mapping
            from axis to one of these.
        channels: indices on the channel axis, in any order; the box must be whole on that axis.
        channel_axis: the channel axis; None: that of a stack, else the axis named c, channel, band or variable.
        axes: the names of the stored axes, where the metadata have none or wrong ones.
        order: the axes of the row, as for `xarray.DataArray.transpose`. An axis that is left out must have extent 1
            and is dropped; None in its place is a new axis of extent 1.

    >>> ArraySpec(dtype="f16", scale=1 / 255, clip=(0, 1), pad="reflect")
    ArraySpec(dtype=<Dtype.F16: 2>, scale=0.00392156862745098, clip=(0, 1), pad='reflect')
    >>> ArraySpec(pad="mirror")
    Traceback (most recent call last):
    ValueError: pad must be a number, 'edge', 'reflect', 'symmetric' or 'wrap' (got 'mirror')
    """

    dtype: Dtype | None = None
    cf: bool | None = None
    scale: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0
    clip: tuple[int | float | None, int | float | None] | None = None
    rounding: str = "truncate"
    missing: int | float | None = None
    pad: str | int | float | tuple[tuple[str | int, str | int | float], ...] | None = None
    channels: tuple[int, ...] | None = None
    channel_axis: str | int | None = None
    axes: tuple[str, ...] | None = None
    order: tuple[str | int | None, ...] | None = None

    def __init__(
        self,
        *,
        dtype: DtypeLike | None = None,
        cf: bool | None = None,
        scale: float | Iterable[float] = 1.0,
        offset: float | Iterable[float] = 0.0,
        clip: tuple[float | None, float | None] | None = None,
        rounding: Rounding = "truncate",
        missing: float | None = None,
        pad: Pad | Mapping[str | int, Pad] | None = None,
        channels: Iterable[int] | None = None,
        channel_axis: str | int | None = None,
        axes: Iterable[str] | None = None,
        order: Iterable[str | int | None] | None = None,
    ) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)  # the dataclass is frozen

        keep("dtype", None if dtype is None else dtype_of(dtype))
        if cf is not None and not isinstance(cf, bool):
            raise TypeError(f"cf must be True, False or None (got {type(cf).__name__})")
        keep("cf", cf)
        keep("scale", channel_numbers(scale, "scale"))
        keep("offset", channel_numbers(offset, "offset"))
        keep("clip", _clip(clip))
        if rounding not in ("truncate", "nearest"):
            raise ValueError(f"rounding must be 'truncate' or 'nearest' (got {rounding!r})")
        keep("rounding", rounding)
        keep("missing", None if missing is None else _number(missing, "missing"))
        keep("pad", _pad(pad))
        keep("channels", None if channels is None else _channels(channels))
        keep("channel_axis", None if channel_axis is None else axis_key(channel_axis, "channel_axis"))
        keep("axes", None if axes is None else _axes(axes))
        keep("order", None if order is None else _order(order))
        if self.dtype is not None:
            self.check_values(self.dtype)

    def check_values(self, dtype: Dtype) -> None:
        """`ValueError` for a value that rows of that element type cannot have."""
        if dtype not in _BITS and dtype not in _SIGNED_BITS:
            return
        bits = _BITS.get(dtype) or _SIGNED_BITS[dtype] - 1
        low = -(1 << bits) if dtype in _SIGNED_BITS else 0
        values: list[tuple[str, Any]] = [("clip", bound) for bound in self.clip or ()]
        values += [("missing", self.missing)]
        values += [("pad", value) for _, value in self._pads() if not isinstance(value, str)]
        for name, value in values:
            if value is not None and not (_is_integral(value) and low <= value < 1 << bits):
                known = dtype.name.lower()
                raise ValueError(f"{name} must be integers in the range of {known} (got {value})")

    def _pad_of(self, keys: Set[str | int]) -> str | int | float | None:
        """What lies beyond the array on the axis that these are names and numbers of."""
        return next((pad for axis, pad in self._pads() if axis is None or axis in keys), None)

    def _pads(self) -> tuple[tuple[str | int | None, str | int | float], ...]:
        """For each axis (None: all) what lies beyond it."""
        if self.pad is None:
            return ()
        return self.pad if isinstance(self.pad, tuple) else ((None, self.pad),)

    def _native(self) -> dict[str, Any]:
        """The fields as the bindings take them."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["dtype"] = None if self.dtype is None else int(self.dtype)
        fields["pad"] = self._pads()
        fields["clip_low"], fields["clip_high"] = fields.pop("clip") or (None, None)
        fields["rounding"] = self.rounding == "nearest"
        return fields

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(_DEFAULT, field.name)
        )
        return f"ArraySpec({', '.join(shown)})"


def axis_key(axis: Any, name: str) -> str | int:
    """An axis: its name, or its number."""
    if isinstance(axis, str):
        if not axis:
            raise ValueError(f"{name}: the name of an axis must not be empty")
        return str.__str__(axis)
    return as_int(axis, f"{name}: an axis")


def axis_keys(axes: Any, name: str) -> tuple[str | int, ...]:
    """Distinct axes; one axis may stand by itself."""
    if isinstance(axes, str) or not isinstance(axes, Iterable):
        axes = (axes,)
    keys = tuple(axis_key(axis, name) for axis in axes)
    _check_distinct(keys, name)
    return keys


def channel_numbers(value: Any, name: str) -> float | tuple[float, ...]:
    """A finite number, or one for each channel."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) != 0:
        numbers = tuple(_finite_float(each, name) for each in value)
        if not 0 < len(numbers) <= MAX_CHANNELS:
            raise ValueError(f"{name} must have 1 to {MAX_CHANNELS} numbers (got {len(numbers)})")
        return numbers
    return _finite_float(value, name)


def _finite_float(value: Any, name: str) -> float:
    number = _number(value, name)
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite (got {value})")
    return number


def _number(value: Any, name: str) -> int | float:
    """A Python number of the same value; NumPy scalars are taken."""
    if not isinstance(value, (str, bytes)):
        try:
            return operator.index(value)
        except TypeError:
            pass
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise TypeError(f"{name} must be a number (got {type(value).__name__})")


def _is_integral(value: int | float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _clip(clip: Any) -> tuple[int | float | None, int | float | None] | None:
    if clip is None:
        return None
    if not isinstance(clip, (tuple, list)) or len(clip) != 2:
        raise TypeError(f"clip must be (low, high) (got {clip!r})")
    low, high = (None if bound is None else _number(bound, "clip") for bound in clip)
    if any(bound is not None and math.isnan(bound) for bound in (low, high)):
        raise ValueError("clip must not be NaN")
    if low is not None and high is not None and low > high:
        raise ValueError(f"clip must have low <= high (got {low} and {high})")
    return None if low is None and high is None else (low, high)


def _border(value: Any) -> str | int | float:
    if isinstance(value, str):
        if value in BORDERS:
            return str.__str__(value)
    else:
        try:
            return _number(value, "pad")
        except TypeError:
            pass
    raise ValueError(f"pad must be a number, 'edge', 'reflect', 'symmetric' or 'wrap' (got {value!r})")


def _pad(pad: Any) -> Any:
    if pad is None:
        return None
    if isinstance(pad, Mapping):
        return tuple((axis_key(axis, "pad"), _border(border)) for axis, border in pad.items())
    if isinstance(pad, tuple) and all(
        isinstance(entry, tuple) for entry in pad
    ):  # the stored form, of dataclasses.replace
        return tuple((axis_key(axis, "pad"), _border(border)) for axis, border in pad)
    return _border(pad)


def _channels(channels: Any) -> tuple[int, ...]:
    if isinstance(channels, str) or not isinstance(channels, Iterable):
        raise TypeError(f"channels must be a sequence of indices (got {channels!r})")
    indices = tuple(as_int(channel, "channels") for channel in channels)
    if not 0 < len(indices) <= MAX_CHANNELS:
        raise ValueError(f"channels must have 1 to {MAX_CHANNELS} indices (got {len(indices)})")
    for index in indices:
        if index < 0:
            raise ValueError(f"channels must be >= 0 (got {index})")
    return indices


def _axes(axes: Any) -> tuple[str, ...]:
    if isinstance(axes, str):
        raise TypeError(f"axes must be a sequence of names (got {axes!r})")
    names = tuple(axes)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"axes must be names (got {name!r})")
    _check_distinct(names, "axes")
    return names


def _order(order: Any) -> tuple[str | int | None, ...]:
    if isinstance(order, str):
        raise TypeError(f"order must be a sequence of axes (got {order!r})")
    keys = tuple(None if axis is None else axis_key(axis, "order") for axis in order)
    _check_distinct([key for key in keys if key is not None], "order")
    return keys


def _check_distinct(keys: Iterable[Any], name: str) -> None:
    seen: set[Any] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"{name}: {key!r} occurs twice")
        seen.add(key)


_DEFAULT = ArraySpec()


class ArraySpecs(Mapping[str, ArraySpec]):
    """An immutable, hashable mapping from the names of arrays to specs, in the order given."""

    __slots__ = ("_specs",)

    def __init__(self, specs: Mapping[str, ArraySpec]) -> None:
        self._specs = dict(specs)

    def __getitem__(self, name: str) -> ArraySpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __hash__(self) -> int:
        return hash(frozenset(self._specs.items()))

    def __repr__(self) -> str:
        return repr(self._specs)


def specs_of(arrays: Any) -> ArraySpecs | None:
    """`Config.arrays` as it is stored. A spec of the only array has the name `""`."""
    if arrays is None or isinstance(arrays, ArraySpecs):
        return arrays
    if isinstance(arrays, ArraySpec):
        return ArraySpecs({"": arrays})
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays must be an ArraySpec or a mapping from names to them (got {type(arrays).__name__})")
    if not arrays:
        raise ValueError("arrays must name at least one array")
    for name, spec in arrays.items():
        check_name(name)
        if not isinstance(spec, ArraySpec):
            raise TypeError(f"arrays[{name!r}] must be an ArraySpec (got {type(spec).__name__})")
    return ArraySpecs(arrays)


def check_name(name: Any) -> None:
    """`TypeError` or `ValueError` for what cannot name an array of a sample."""
    if not isinstance(name, str):
        raise TypeError(f"array names must be str (got {type(name).__name__})")
    import unicodedata  # a shared library, and `import damacy` does not need it

    if not 0 < len(name) <= MAX_NAME or any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise ValueError(f"array names must have 1 to {MAX_NAME} characters, no control characters (got {name!r})")
