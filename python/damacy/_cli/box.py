"""Parses and prints boxes as users type them on a command line. Does not open arrays."""

from __future__ import annotations

Box = tuple[tuple[int, int], ...]


def parse_box(text: str, shape: tuple[int, ...]) -> Box:
    """Parses NumPy slices into a box of an array of `shape`. Axes that are left out at the end are whole.

    Raises `ValueError`, which names the axis. Does not check that the box lies inside the array; the read does.

    >>> parse_box("2:6, :, -8:", (10, 20, 30))
    ((2, 6), (0, 20), (22, 30))
    >>> parse_box("3, ..., :4", (10, 20, 30))
    ((3, 4), (0, 20), (0, 4))
    >>> parse_box("", (5,))
    ((0, 5),)
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if parts.count("...") > 1:
        raise ValueError(f"the box {text!r} has more than one '...'")
    if len(parts) - parts.count("...") > len(shape):
        raise ValueError(f"the box {text!r} has {len(parts)} axes, the array has {len(shape)}: its shape is {shape}")
    if "..." not in parts:
        parts.append("...")
    at = parts.index("...")
    whole = len(shape) - (len(parts) - 1)
    parts[at : at + 1] = [":"] * whole
    return tuple(_axis(k, part, size) for k, (part, size) in enumerate(zip(parts, shape)))


def box_text(box: Box) -> str:
    """
    >>> box_text(((2, 6), (0, 20)))
    '2:6,0:20'
    """
    return ",".join(f"{start}:{stop}" for start, stop in box)


def box_extents(box: Box) -> tuple[int, ...]:
    """
    >>> box_extents(((2, 6), (0, 20)))
    (4, 20)
    """
    return tuple(stop - start for start, stop in box)


def _axis(k: int, part: str, size: int) -> tuple[int, int]:
    bounds = part.split(":")
    if len(bounds) > 2:
        raise ValueError(f"box axis {k}: expected START:STOP without a step (got {part!r})")
    try:
        numbers = [_bound(text, size) for text in bounds]
    except ValueError:
        raise ValueError(f"box axis {k}: expected START:STOP in integers (got {part!r})") from None
    if len(numbers) == 1:
        if numbers[0] is None:
            raise ValueError(f"box axis {k} is empty")
        return numbers[0], numbers[0] + 1
    start = 0 if numbers[0] is None else numbers[0]
    stop = size if numbers[1] is None else numbers[1]
    if stop <= start and any(text.strip().startswith("-") for text in bounds):
        raise ValueError(
            f"box axis {k}: {part!r} is {start}:{stop} of {size} elements, which is empty: "
            "negative numbers count from the end"
        )
    return start, stop


def _bound(text: str, size: int) -> int | None:
    if not text.strip():
        return None
    number = int(text)
    return number + size if number < 0 else number
