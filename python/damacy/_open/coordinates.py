"""Intervals on one-dimensional coordinates: packed numbers and CF times become values, and bounds become indices."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from damacy._open.arrays import Array

if TYPE_CHECKING:
    import numpy

    Values = numpy.ndarray[Any, Any]

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86400 * 10**6,
    "week": 7 * 86400 * 10**6,
}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "min": "minute", "h": "hour"} | {
    "hr": "hour",
    "d": "day",
}
_STANDARD = ("standard", "gregorian", "proleptic_gregorian")
_SINCE = re.compile(
    r"\s*(\w+)\s+since\s+(-?\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T\s]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?)?)?\s*(?:UTC|Z|[+-]00?(?::?00)?)?\s*$",
    re.IGNORECASE,
)


def interval(coordinate: Array, low: Any, high: Any) -> tuple[int, int]:
    """The indices of the elements with `low <= value < high`; None is open. The coordinate must be monotone."""
    import numpy

    name = coordinate.dims[0] or coordinate.uri
    if coordinate.ndim != 1:
        raise ValueError(f"coordinate {name!r} has {coordinate.ndim} axes, expected 1")
    found = values(coordinate)
    differences = numpy.diff(found)
    zero = differences.dtype.type(0)
    is_missing = bool(numpy.isnat(found).any() if found.dtype.kind == "M" else (found != found).any())
    rising, falling = bool((differences >= zero).all()), bool((differences <= zero).all())
    if is_missing or not (rising or falling):
        raise ValueError(f"coordinate {name!r} is not monotone: choose indices by its values")
    ordered = found if rising else found[::-1]
    lowest = None if low is None else _bound(low, found, name)
    highest = None if high is None else _bound(high, found, name)
    if lowest is not None and highest is not None and lowest > highest:
        raise ValueError(f"coordinate {name!r}: low must not be above high (got {low!r} and {high!r})")
    first = 0 if lowest is None else int(numpy.searchsorted(ordered, lowest, "left"))
    last = len(found) if highest is None else int(numpy.searchsorted(ordered, highest, "left"))
    return (first, last) if rising else (len(found) - last, len(found) - first)


def _bound(value: Any, values: Values, name: str) -> Any:
    import numpy

    if values.dtype.kind == "M":
        if isinstance(value, (int, float)):
            raise TypeError(f"coordinate {name!r} holds times: give a date, such as '2000-01-31' (got {value!r})")
        return numpy.datetime64(value, "us")
    if isinstance(value, (str, numpy.datetime64)):
        raise TypeError(f"coordinate {name!r} holds numbers (got {value!r})")
    if math.isnan(value):
        raise ValueError("a bound must not be NaN")
    return value


def values(coordinate: Array) -> Values:
    """The values of a coordinate: unpacked by CF, and times as `datetime64`."""
    import numpy

    found = coordinate.read()
    if found.dtype.kind not in "iufM":
        raise TypeError(f"coordinate {coordinate.uri}: elements of type {coordinate.dtype} have no order")
    if (cf := coordinate.cf) is not None and cf.problem is None:
        if cf.unsigned is not None:
            found = found.view(f"{'u' if cf.unsigned else 'i'}{found.itemsize}")
        missing = numpy.zeros(found.shape, bool)
        for value in cf.missing:
            missing |= (found != found) if value != value else found == numpy.asarray(value, found.dtype)
        if cf.is_packed or missing.any():
            found = found.astype("f8") * cf.scale_factor + cf.add_offset
            found[missing] = numpy.nan
    if (units := _units_of_times(coordinate)) is not None:
        return times(found, units, str(coordinate.attrs.get("calendar", "standard")).lower())
    return found


def has_times(coordinate: Array) -> bool:
    """Whether its values are times, by its type or its CF units."""
    return coordinate.dtype.startswith("numpy.datetime64") or _units_of_times(coordinate) is not None


def _units_of_times(coordinate: Array) -> str | None:
    units = coordinate.attrs.get("units")
    return units if isinstance(units, str) and re.search(r"\ssince\s", units) else None


def times(numbers: Values, units: str, calendar: str) -> Values:
    """CF times of the standard calendars, in microseconds.

    >>> import numpy
    >>> times(numpy.array([0, 36]), "hours since 2000-02-28", "standard").astype(str).tolist()
    ['2000-02-28T00:00:00.000000', '2000-02-29T12:00:00.000000']
    """
    import numpy

    if calendar not in _STANDARD:
        raise ValueError(f"times of the calendar {calendar!r} have no datetime64: choose indices by their values")
    matched = _SINCE.match(units)
    unit = matched[1].lower() if matched else ""
    unit = _SHORT.get(unit, unit.removesuffix("s") if len(unit) > 2 else unit)
    unit = _SHORT.get(unit, unit)
    if matched is None or unit not in _MICROSECONDS:
        raise ValueError(f"units of time {units!r}: expected a unit from microseconds to weeks since a date")
    year, month, day, hour, minute, second = (int(part or 0) for part in matched.groups()[1:7])
    start = _microseconds(year, month, day, calendar) + ((hour * 60 + minute) * 60 + second) * 10**6
    start += int((matched[8] or "0").ljust(6, "0"))
    scale = _MICROSECONDS[unit]
    if numbers.dtype.kind == "f":
        whole = numpy.floor(numbers)
        is_number = numpy.isfinite(numbers)
        with numpy.errstate(invalid="ignore"):
            steps = numpy.where(is_number, whole, 0).astype("i8") * scale
            steps += numpy.where(is_number, numpy.round((numbers - whole) * scale), 0).astype("i8")
    else:
        is_number = numpy.ones(numbers.shape, bool)
        steps = numbers.astype("i8") * scale
    found: Values = (steps + start).view("M8[us]")
    found[~is_number] = numpy.datetime64("NaT")
    return found


def _microseconds(year: int, month: int, day: int, calendar: str) -> int:
    """From 1970-01-01 to a date. The standard calendar is Julian before 1582-10-15."""
    shifted, months = year - (month < 3), (month + 9) % 12
    days = 365 * shifted + shifted // 4 + (153 * months + 2) // 5 + day - 1
    is_julian = calendar != "proleptic_gregorian" and (year, month, day) < (1582, 10, 15)
    days += -2 if is_julian else shifted // 400 - shifted // 100
    return (days - 719468) * 86400 * 10**6
