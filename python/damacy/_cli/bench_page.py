"""Formats a result of `damacy bench` as one self-contained HTML document; measures nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable

import damacy
from damacy._cli.bench_crops import Report
from damacy._cli.console import extents
from damacy._core.sizes import size_text

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .15rem .8rem .15rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; white-space: nowrap; } h2 { margin-top: 2rem; }
.bar { width: 50%; } .bar div { background: #4878a8; height: 1rem; min-width: 1px; }
"""


def page(report: Report) -> str:
    """The document: rates next to ceilings and other readers, time by stage, advice."""
    setting = report.setting
    title = f"damacy bench {setting.uri}"
    about = (
        f"Crops of {extents(setting.crop)} in batches of {setting.batch}, {setting.threads} threads, {setting.device}; "
        f"damacy {damacy.__version__}. Rates are bytes of finished float32 batches."
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><p>{html.escape(about)}</p>"
        f"<h2>Rates</h2>{_rates(report)}<h2>Time in the stages, added up over threads</h2>{_stages(report)}"
        f"<h2>What would help</h2>{_list(report.advice())}</html>\n"
    )


def _rates(report: Report) -> str:
    rates = {"damacy": report.bytes_per_s}
    rates |= {f"ceiling: {name}": rate for name, rate in report.ceilings.items()}
    rates |= {name: rate for name, rate in report.peers.items() if not isinstance(rate, str)}
    most = max(rates.values())
    rows = [(name, f"{size_text(rate)}/s", rate / most) for name, rate in rates.items()]
    rows += [(name, why, 0.0) for name, why in report.peers.items() if isinstance(why, str)]
    return _table(rows)


def _stages(report: Report) -> str:
    most = max((metric.ms for metric in report.stages.values()), default=0) or 1
    return _table((name, f"{metric.ms:,.1f} ms", metric.ms / most) for name, metric in report.stages.items())


def _table(rows: Iterable[tuple[str, str, float]]) -> str:
    """Each row: a name, a value, and the length of its bar as a share of the width, 0 to 1."""
    cells = (
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td>"
        f'<td class="bar"><div style="width:{100 * share:.1f}%"></div></td></tr>'
        for name, value, share in rows
    )
    return f"<table>{''.join(cells)}</table>"


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"
