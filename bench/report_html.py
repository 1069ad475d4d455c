"""Writes a result of `python -m bench` as one self-contained HTML page with plots.

    python -m bench.report_html bench/results/host-2-cores-quiet.json --out page.html

Knows the structure of a result and chooses the plots; svg.py draws them. Measures nothing.
"""

from __future__ import annotations

import argparse
import html
import itertools
import json
from pathlib import Path

from bench import svg

OURS = "damacy"
# Metrics of `damacy.Stats` in the order in which a chunk passes the stages, and their names on the page.
STAGES = {"plan": "plan", "io": "read", "h2d": "copy to the GPU", "decompress": "decode", "assemble": "place"}
WAITS = ("pop_wait_io", "pop_wait_compute")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } svg { max-width: 100%; height: auto; } figure { margin: 1.5rem 0; }
figcaption { color: #555; max-width: 46rem; }
"""


def page(result: dict) -> str:
    """The whole document; it loads nothing."""
    parts = [_head(result)]
    for scenario in result["scenarios"]:
        parts += [f"<h2>{html.escape(scenario['scenario'])}</h2>", _table(scenario)]
        parts += [_figure(*plot(scenario)) for plot in (waterfall, rate_over_time, roofline)]
    title = html.escape(_title(result))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{''.join(parts)}</html>\n"
    )


def waterfall(scenario: dict) -> tuple[str, str]:
    """Seconds that each stage took for 10⁹ bytes of finished batches, one after the other."""
    ours = scenario["loaders"].get(OURS)
    if not ours or not ours["counters"]:
        return "", "No stage times: this run did not measure damacy."
    counters = ours["counters"]
    gigabytes = counters["assemble"]["output_bytes"] / 1e9
    if not gigabytes:
        return "", "No stage times: no batch was placed."
    spent = [(label, counters[name]["ms"] / 1e3 / gigabytes) for name, label in STAGES.items()]
    spent = [(label, seconds) for label, seconds in spent if seconds > 0]
    clock = 1e9 / ours["bytes_per_s"]
    waited = sum(counters[name]["ms"] for name in WAITS) / 1e3 / gigabytes
    caption = (
        "Time in each stage for 1 GB of finished batches, summed over threads or streams. Stages "
        f"overlap: by the clock 1 GB took {clock:.3f} s, of which the consumer waited {waited:.3f} s."
    )
    return svg.waterfall(spent, clock, "by the clock"), caption


def rate_over_time(scenario: dict) -> tuple[str, str]:
    """The rate of each batch, from the times between batches; a stall shows as a dip."""
    work = scenario["ceilings"]["work"]
    batch = work["out_bytes"] / work["batches"]
    curves = []
    for name, loader in scenario["loaders"].items():
        gaps = loader.get("gaps_s")
        if gaps:
            ends = list(itertools.accumulate(gaps))
            curves.append((name, [0.0, *ends], [batch / gap / 1e9 if gap > 0 else 0.0 for gap in gaps]))
    if not curves:
        known = ", ".join(
            f"{name} {loader['gap_mean_s'] * 1e3:.0f} and {loader['gap_p99_s'] * 1e3:.0f} ms"
            for name, loader in scenario["loaders"].items()
        )
        caption = f"No times of single batches were kept. Between batches, mean and 99th percentile: {known}."
        return "", html.escape(caption)
    caption = (
        "Rate of each batch over the time of one run: the bytes of a batch, divided by the time since the one before. "
        "The first step of a curve includes the time to fill the pipeline."
    )
    return svg.steps(curves, "seconds", "GB/s"), caption


def roofline(scenario: dict) -> tuple[str, str]:
    """The ceiling of each stage by itself, and the measured rates."""
    ceilings = scenario["ceilings"]
    work = ceilings["work"]
    at = work["out_bytes"] / max(1, work["needed_stored_bytes"])
    sloped = [(name, rate / 1e9 / at) for name, rate in ceilings["wall"].items() if name in ("read", "h2d")]
    on_cores = " (cores)" if "h2d" in ceilings["wall"] else ""  # with a GPU, which does these stages too
    flat = [(name + on_cores, ceilings["wall"][name] / 1e9) for name in ("decode", "cast_write")]
    flat += [(name, rate / 1e9) for name, rate in ceilings["wall"].items() if name == "place"]
    points = [(name, loader["bytes_per_s"] / 1e9) for name, loader in scenario["loaders"].items()]
    caption = (
        "Lines: the rate of finished batches that each stage allows on this machine, if it were the only one. Here a "
        f"batch has {at:.2f} bytes for each stored byte that it needs (the dotted line). Better compression moves that "
        f"line to the right, where reading and copying matter less. The bottleneck here: {ceilings['binding']}."
    )
    return svg.roofline(sloped, flat, points, at, "bytes of batches for a stored byte", "GB/s"), html.escape(caption)


def _title(result: dict) -> str:
    return "damacy: " + ", ".join(scenario["scenario"] for scenario in result["scenarios"])


def _head(result: dict) -> str:
    machine = result["machine"]
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['gpu'] or 'no GPU'}"
    load = ", ".join(f"{number:.1f}" for number in result["load_before"])
    lines = (
        f"{result['date']}, commit {result['commit']}{' with changes' if result['changed'] else ''}",
        f"{where}; load before: {load}",
        result["command"],
    )
    return "<p>" + "<br>".join(map(html.escape, lines)) + "</p>"


def _table(scenario: dict) -> str:
    rows = ["<tr><th>loader<th>GB/s<th>spread<th>CPU s/GB<th>p99 / mean</tr>"]
    for name, loader in scenario["loaders"].items():
        late = loader["gap_p99_s"] / loader["gap_mean_s"]
        rows.append(
            f"<tr><td>{html.escape(name)}<td>{loader['bytes_per_s'] / 1e9:.2f}<td>{loader['spread']:.0%}"
            f"<td>{loader['cpu_s_per_gb']:.2f}<td>{late:.2f}</tr>"
        )
    for name, why in scenario["refused"].items():
        rows.append(f'<tr><td>{html.escape(name)}<td colspan="4">left out: {html.escape(str(why))}</tr>')
    return f"<table>{''.join(rows)}</table>"


def _figure(plot: str, caption: str) -> str:
    return f"<figure>{plot}<figcaption>{caption}</figcaption></figure>"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m bench.report_html", description=__doc__.split("\n")[0])
    parser.add_argument("result", type=Path, help="JSON of a run of python -m bench")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    options = parser.parse_args(arguments)
    try:
        result = json.loads(options.result.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"{options.result}: {error}")
    if not isinstance(result, dict) or "scenarios" not in result:
        parser.error(f"{options.result} is not a result of python -m bench: it has no member `scenarios`")
    options.out.write_text(page(result))


if __name__ == "__main__":
    main()
