"""Counters of a pipeline as text for Prometheus.

>>> import damacy
>>> from damacy import metrics
>>> config = damacy.Config(batch_size=1, device="cpu", host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24)
>>> with damacy.Pipeline(config) as pipeline:
...     print(metrics.text(pipeline.stats(), {"rank": "0"}).splitlines()[1])
damacy_stage_seconds_total{rank="0",stage="plan"} 0.0

Knows the fields of `damacy.Stats` and the text format. Serves nothing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from damacy._pipeline.stats import METRICS, Stats

_GAUGES = re.compile(r".*_committed|requests_in_flight(_best)?")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def text(stats: Stats, labels: Mapping[str, str] | None = None) -> str:
    """All counters of `pipeline.stats()` or `loader.stats()` in Prometheus' text format, version 0.0.4.

    A counter is `damacy_NAME_total`, a gauge `damacy_NAME`, with the names of `damacy.Stats`. Stages, such as `plan`
    and `io`, are values of the label `stage` of `damacy_stage_seconds_total`, `_input_bytes_total`,
    `_output_bytes_total` and `_observations_total`. `labels` are added to each line, for example the rank.

    `ValueError` for a name of a label that Prometheus does not allow.
    """
    own = dict(labels or {})
    if wrong := [name for name in own if not _LABEL.fullmatch(name) or name == "stage"]:
        raise ValueError(f"labels: {wrong[0]!r} cannot be a label: letters, digits and _, and not 'stage'")
    lines = []
    for suffix, field, factor in (
        ("seconds", "ms", 1e-3),
        ("input_bytes", "input_bytes", 1),
        ("output_bytes", "output_bytes", 1),
        ("observations", "count", 1),
    ):
        name = f"damacy_stage_{suffix}_total"
        lines.append(f"# TYPE {name} counter")
        lines += [
            f"{name}{_shown({**own, 'stage': stage})} {getattr(getattr(stats, stage), field) * factor}"
            for stage in METRICS
        ]
    for counted in dataclasses.fields(stats):
        if counted.name not in METRICS:
            gauge = _GAUGES.fullmatch(counted.name) is not None
            name = f"damacy_{counted.name}" + ("" if gauge else "_total")
            lines += [f"# TYPE {name} {'gauge' if gauge else 'counter'}"]
            lines += [f"{name}{_shown(own)} {getattr(stats, counted.name)}"]
    return "\n".join(lines) + "\n"


def _shown(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    values = {name: str(value).replace("\\", r"\\").replace("\n", r"\n") for name, value in labels.items()}
    escaped = [f'{name}="{value.replace(chr(34), chr(92) + chr(34))}"' for name, value in values.items()]
    return "{" + ",".join(escaped) + "}"
