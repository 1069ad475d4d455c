"""Counters of a pipeline as text for Prometheus.

>>> import damacy
>>> from damacy import metrics
>>> config = damacy.Config(batch_size=1, device="cpu", host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24)
>>> with damacy.Pipeline(config) as pipeline:
...     print(metrics.text(pipeline.stats(), {"rank": "0"}).splitlines()[2])
damacy_stage_seconds_total{rank="0",stage="plan"} 0.0

Knows the fields of `damacy.Stats` and the text format; what each counts is in the native library. Serves nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from damacy import _native
from damacy._pipeline.stats import METRICS, Stats

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def text(stats: Stats, labels: Mapping[str, str] | None = None) -> str:
    """All counters of `pipeline.stats()` or `loader.stats()` in Prometheus' text format, version 0.0.4.

    A counter is `damacy_NAME_total`, a gauge `damacy_NAME`, with the names of `damacy.Stats`. Stages, such as `plan`
    and `io`, are values of the label `stage` of `damacy_stage_seconds_total`, `_input_bytes_total`,
    `_output_bytes_total` and `_observations_total`. A line `# HELP` says what each counts. `labels` are added to each
    line, for example the rank.

    `ValueError` for a name of a label that Prometheus does not allow.
    """
    own = dict(labels or {})
    if wrong := [name for name in own if not _LABEL.fullmatch(name) or name == "stage"]:
        raise ValueError(f"labels: {wrong[0]!r} cannot be a label: letters, digits and _, and not 'stage'")
    lines = []
    for suffix, field, factor, meaning in (
        ("seconds", "ms", 1e-3, "time that a stage took"),
        ("input_bytes", "input_bytes", 1, "bytes that a stage took in"),
        ("output_bytes", "output_bytes", 1, "bytes that a stage gave out"),
        ("observations", "count", 1, "times that a stage ran"),
    ):
        name = f"damacy_stage_{suffix}_total"
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
        lines += [
            f"{name}{_shown({**own, 'stage': stage})} {getattr(getattr(stats, stage), field) * factor}"
            for stage in METRICS
        ]
    for counter, (meaning, is_gauge) in _native.stats_counters().items():
        name = f"damacy_{counter}" + ("" if is_gauge else "_total")
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {'gauge' if is_gauge else 'counter'}"]
        lines += [f"{name}{_shown(own)} {getattr(stats, counter)}"]
    return "\n".join(lines) + "\n"


def _shown(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    values = {name: str(value).replace("\\", r"\\").replace("\n", r"\n") for name, value in labels.items()}
    escaped = [f'{name}="{value.replace(chr(34), chr(92) + chr(34))}"' for name, value in values.items()]
    return "{" + ",".join(escaped) + "}"
