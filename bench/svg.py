"""Plots as SVG text: a waterfall of bars, step curves, a roofline. Knows lines and scales, not their meaning."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

WIDTH, HEIGHT = 820, 340
LEFT, RIGHT, TOP, BOTTOM = 130, 150, 16, 46
COLOURS = ("#0b62a4", "#d9822b", "#3a8f4b", "#8a4fa3", "#b8323c", "#4f6d7a", "#a58a00")

Scale = Callable[[float], float]


def waterfall(bars: Sequence[tuple[str, float]], total: float, total_label: str) -> str:
    """Bars in seconds, each starting where the one before ends, and `total` from 0 below them."""
    end = max(sum(length for _, length in bars), total)
    x = linear(0, end, LEFT, WIDTH - RIGHT)
    step, start, parts = 36, 0.0, []
    for row, (label, length) in enumerate([*bars, (total_label, total)]):
        last = row == len(bars)
        begin = 0.0 if last else start
        y = TOP + row * step
        colour = "#555" if last else COLOURS[row % len(COLOURS)]
        parts.append(
            f'<rect x="{x(begin):.1f}" y="{y}" width="{max(1.0, x(length) - x(0)):.1f}" height="24" fill="{colour}"/>'
        )
        parts.append(text(LEFT - 8, y + 17, label, "end"))
        parts.append(text(x(begin + length) + 6, y + 17, f"{length:.3f} s"))
        start += length
    return _svg(parts, TOP + step * (len(bars) + 1))


def steps(curves: Sequence[tuple[str, list[float], list[float]]], x_label: str, y_label: str) -> str:
    """Each curve has the borders of its steps, one more than heights."""
    x = linear(0, max(borders[-1] for _, borders, _ in curves), LEFT, WIDTH - RIGHT)
    y = linear(0, max(max(heights) for _, _, heights in curves), HEIGHT - BOTTOM, TOP)
    parts = _axes(x, y, x_label, y_label)
    for number, (label, borders, heights) in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        points = []
        for left, right, height in zip(borders, borders[1:], heights):
            points += [f"{x(left):.1f},{y(height):.1f}", f"{x(right):.1f},{y(height):.1f}"]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts.append(text(WIDTH - RIGHT + 12, TOP + 14 + 18 * number, label, colour=colour))
    return _svg(parts, HEIGHT)


def roofline(
    sloped: Sequence[tuple[str, float]],
    flat: Sequence[tuple[str, float]],
    points: Sequence[tuple[str, float]],
    at: float,
    x_label: str,
    y_label: str,
) -> str:
    """Log-log: roofs y = rate * x and y = rate, and points at x = `at`."""
    rates = [rate * at for _, rate in sloped] + [rate for _, rate in (*flat, *points)]
    left, right = at / 8, at * 8
    low, high = 10 ** math.floor(math.log10(min(rates) / 2)), 10 ** math.ceil(math.log10(max(rates) * 2))
    x, y = logarithmic(left, right, LEFT, WIDTH - RIGHT), logarithmic(low, high, HEIGHT - BOTTOM, TOP)
    parts = _axes(x, y, x_label, y_label, _powers(left, right, 2), _powers(low, high, 10))
    parts.append(_line(x(at), TOP, x(at), HEIGHT - BOTTOM, "#999", dashes="2 4"))
    labels = []
    for number, (label, rate) in enumerate((*sloped, *flat)):
        colour = COLOURS[number % len(COLOURS)]
        if number < len(sloped):
            begin, end = max(left, low / rate), min(right, high / rate)
            parts.append(_line(x(begin), y(rate * begin), x(end), y(rate * end), colour))
            labels.append((y(rate * end), label, colour))
        else:
            parts.append(_line(x(left), y(rate), x(right), y(rate), colour))
            labels.append((y(rate), label, colour))
    for number, (label, rate) in enumerate(points):
        parts.append(f'<circle cx="{x(at):.1f}" cy="{y(rate):.1f}" r="4.5" fill="#222"/>')
        side, anchor = ((10, "start"), (-10, "end"))[number % 2]
        parts.append(text(x(at) + side, y(rate) + 4, f"{label} {rate:.2f}", anchor))
    at_least = 0.0
    for height, label, colour in sorted(labels):
        at_least = max(height + 4, at_least)
        parts.append(text(WIDTH - RIGHT + 8, at_least, label, colour=colour))
        at_least += 15
    return _svg(parts, HEIGHT)


def linear(low: float, high: float, first: float, last: float) -> Scale:
    return lambda value: first + (value - low) / ((high - low) or 1) * (last - first)


def logarithmic(low: float, high: float, first: float, last: float) -> Scale:
    by_log = linear(math.log(low), math.log(high), first, last)
    return lambda value: by_log(math.log(value))


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(words)}</text>'


def _axes(
    x: Scale,
    y: Scale,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float] | None = None,
    y_ticks: Sequence[float] | None = None,
) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [_line(LEFT, bottom, right, bottom, "#222"), _line(LEFT, bottom, LEFT, TOP, "#222")]
    for tick in _round_ticks(x, right) if x_ticks is None else x_ticks:
        parts += [
            _line(x(tick), bottom, x(tick), bottom + 5, "#222"),
            text(x(tick), bottom + 19, f"{tick:g}", "middle"),
        ]
    for tick in _round_ticks(y, TOP) if y_ticks is None else y_ticks:
        parts += [_line(LEFT, y(tick), right, y(tick), "#e4e4e4"), text(LEFT - 8, y(tick) + 4, f"{tick:g}", "end")]
    parts.append(text((LEFT + right) / 2, bottom + 38, x_label, "middle"))
    parts.append(text(8, TOP + 12, y_label))
    return parts


def _round_ticks(scale: Scale, end: float) -> list[float]:
    """About five round numbers from 0 to the end of a linear scale."""
    high = (end - scale(0)) / (scale(1) - scale(0))
    step = 10 ** math.floor(math.log10(high / 2)) if high > 0 else 1
    step = next(step * factor for factor in (1, 2, 5, 10) if high / (step * factor) <= 6)
    return [step * number for number in range(int(high / step) + 1)]


def _powers(low: float, high: float, base: int) -> list[float]:
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    return [float(base) ** power for power in range(first, last + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" fill="none"{dashed}/>'


def _svg(parts: Sequence[str], height: float) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" xmlns="http://www.w3.org/2000/svg" '
        f'font-size="13" font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )
