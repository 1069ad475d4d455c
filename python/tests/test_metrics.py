"""`damacy.metrics`: every field of `Stats` in Prometheus' text format."""

import dataclasses
import re

import pytest

from damacy import Metric, Stats, metrics
from damacy._pipeline.stats import METRICS

LINE = re.compile(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-z]\w*="(?:[^"\\\n]|\\.)*"(?:,[a-z]\w*="(?:[^"\\\n]|\\.)*")*)\})? (\S+)'
)
NUMBERS = {field.name: number for number, field in enumerate(dataclasses.fields(Stats), 1) if field.name not in METRICS}


def stats() -> Stats:
    stages = {name: Metric(name, 1500.0 + at, 1.0, 10.0 + at, 20.0, 5) for at, name in enumerate(METRICS)}
    return Stats(**stages, **NUMBERS)


def samples(text: str) -> dict[tuple[str, str], float]:
    lines = [LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#")]
    assert None not in lines
    found = {(line[1], line[2] or ""): float(line[3]) for line in lines}
    assert len(found) == len(lines)
    return found


def test_every_field_is_there_once_with_its_value():
    found = samples(metrics.text(stats()))
    by_name = {name: value for (name, labels), value in found.items() if not labels}
    assert len(by_name) == len(NUMBERS)
    for name, number in NUMBERS.items():
        assert (by_name.get(f"damacy_{name}"), by_name.get(f"damacy_{name}_total")) in ((number, None), (None, number))
    for at, stage in enumerate(METRICS):
        assert found["damacy_stage_seconds_total", f'stage="{stage}"'] == pytest.approx(1.5 + at / 1000)
        assert found["damacy_stage_input_bytes_total", f'stage="{stage}"'] == 10 + at
        assert found["damacy_stage_observations_total", f'stage="{stage}"'] == 5


def test_gauges_are_those_that_stats_calls_gauges():
    gauges = re.findall(r"^# TYPE damacy_(\w+) gauge$", metrics.text(stats()), re.M)
    assert sorted(gauges) == [
        "gpu_bytes_committed",
        "host_bytes_committed",
        "kept_bytes_committed",
        "requests_in_flight",
        "requests_in_flight_best",
    ]


def test_each_name_has_one_type_which_stands_before_its_samples():
    text = metrics.text(stats())
    names = list(dict.fromkeys(name for name, _ in samples(text)))
    assert re.findall(r"^# TYPE (\S+)", text, re.M) == names
    assert re.findall(r"^# HELP (\S+) \w[^\n\\]+\n# TYPE \1 ", text, re.M) == names
    assert text.endswith("\n")


def test_labels_are_on_every_line_and_escaped():
    found = samples(metrics.text(stats(), {"rank": "0", "run": 'a"b\\c\nd'}))
    assert all(labels.startswith(r'rank="0",run="a\"b\\c\nd"') for _, labels in found)


@pytest.mark.parametrize("name", ["", "0a", "a-b", "a b", "stage"])
def test_a_label_that_prometheus_does_not_allow_is_refused(name):
    with pytest.raises(ValueError, match="cannot be a label"):
        metrics.text(stats(), {name: "x"})
