"""The plot of the README and of the documentation's first page: batches compared with other readers, from results.

    python -m bench.plots.front_plot        writes docs/speed-*.svg; speed-narrow-*.svg are for phones

Knows which figures of `results/` are shown, and how. Measures nothing.
"""

from __future__ import annotations

import dataclasses
import html
import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results"
DOCS = RESULTS.parents[1] / "docs"

HOST, GPU, TIER, TIER_BLOSC = "host-2-cores-quiet", "coarse-4-h200", "device-cached-h200-4", "device-cached-h200-5"

WIDTH = 430  # of a panel
BAR, GAP, GROUP_TITLE, TOP, BAR_LENGTH, LEGEND_LINE = 14, 10, 17, 52, 312, 20
THEMES = {
    "light": {"text": "#1f2328", "faint": "#59636e", "damacy": "#0b62a4", "kept": "#6aa5d8", "tensorstore": "#d9822b"}
    | {"zarr": "#9aa4af"},
    "dark": {"text": "#e6edf3", "faint": "#9198a1", "damacy": "#58a6ff", "kept": "#a5d6ff", "tensorstore": "#e3994b"}
    | {"zarr": "#6e7681"},
}
LEGEND = {
    "damacy": "damacy",
    "kept": "damacy, encoded chunks kept in GPU memory",
    "tensorstore": "TensorStore",
    "zarr": "zarr-python",
}


@dataclasses.dataclass(frozen=True)
class Group:
    """Bars of one job: by name of `LEGEND`, GB/s of finished float32 batches."""

    title: str
    bars: dict[str, float]


def _scenario(file: str, name: str) -> dict:
    scenarios = json.loads((RESULTS / f"{file}.json").read_text())["scenarios"]
    return next(s for s in scenarios if s["scenario"] == name and s.get("dtype", "f32") == "f32")


def compared(title: str, file: str, name: str) -> Group:
    loaders = _scenario(file, name)["loaders"]
    return Group(title, {loader: loaders[loader]["bytes_per_s"] / 1e9 for loader in ("damacy", "tensorstore", "zarr")})


def with_tier(title: str, file: str, name: str) -> Group:
    rates = _scenario(file, f"{name}-device-cached")["gb_per_s"]
    return Group(title, {"damacy": rates["plain"], "kept": rates["cached"]})


def panels() -> dict[str, list[Group]]:
    return {
        "2 CPU cores, batches in host memory": [
            compared("128³ crops, zstd", HOST, "default"),
            compared("128³ crops, blosc zstd", HOST, "blosc-zstd"),
            compared("128³ crops, blosc lz4", HOST, "blosc-lz4"),
            compared("64³ crops of 4 MiB blosc chunks", HOST, "coarse-4"),
        ],
        "One H200 with 16 cores, batches in GPU memory": [
            compared("64³ crops of 4 MiB blosc chunks (the others: in host memory)", GPU, "coarse-4"),
            with_tier("128³ crops, zstd", TIER, "throughput"),
            with_tier("128³ crops, blosc zstd", TIER_BLOSC, "blosc-zstd"),
            with_tier("128³ crops, blosc lz4", TIER_BLOSC, "blosc-lz4"),
        ],
    }


def draw(theme: str, narrow: bool = False) -> str:
    """The panels next to each other, or, if `narrow`, below each other."""
    colours = THEMES[theme]
    parts = []
    ends = [0.0]  # of the panels
    for number, (title, groups) in enumerate(panels().items()):
        left, top = (8.0, ends[-1]) if narrow else (8.0 + number * WIDTH, 0.0)
        y = top + TOP
        parts.append(_text(left, top + 20, title, colours["text"], weight=600))
        parts.append(_text(left, top + 37, "GB/s of finished float32 batches", colours["faint"]))
        longest = max(rate for group in groups for rate in group.bars.values())
        for group in groups:
            parts.append(_text(left, y + 12, group.title, colours["text"]))
            y += GROUP_TITLE
            for name, rate in group.bars.items():
                length = max(1.5, rate / longest * BAR_LENGTH)
                parts.append(
                    f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colours[name]}"/>'
                )
                parts.append(_text(left + length + 6, y + 10.5, f"{rate:.3g}", colours["text"]))
                y += BAR
            y += GAP
        ends.append(y - 2)
    width = WIDTH if narrow else 2 * WIDTH
    x, y = 8.0, max(ends)
    for name, label in LEGEND.items():
        length = 48 + 6.6 * len(label)
        if x + length > width + 24:
            x, y = 8.0, y + LEGEND_LINE
        parts.append(f'<rect x="{x}" y="{y + 3}" width="12" height="12" fill="{colours[name]}"/>')
        parts.append(_text(x + 17, y + 13, label, colours["text"]))
        x += length
    return (
        f'<svg viewBox="0 0 {width} {y + LEGEND_LINE:g}" width="{width}" xmlns="http://www.w3.org/2000/svg" '
        f'font-size="12" font-family="system-ui, sans-serif">{"".join(parts)}</svg>\n'
    )


def _text(x: float, y: float, words: str, colour: str, weight: int = 400) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}">{html.escape(words)}</text>'


def main() -> None:
    for theme in THEMES:
        (DOCS / f"speed-{theme}.svg").write_text(draw(theme))
        (DOCS / f"speed-narrow-{theme}.svg").write_text(draw(theme, narrow=True))


if __name__ == "__main__":
    main()
