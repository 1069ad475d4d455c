"""The HTML page of a result: it has the result's figures and plots, and loads nothing."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench import report_html

RESULTS = Path(__file__).resolve().parents[1] / "results"
RECORDED = Path(__file__).resolve().parent / "recorded.json"


def result() -> dict:
    return json.loads(RECORDED.read_text())


def plots(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.S)]


def words(plot: ElementTree.Element) -> list[str]:
    return [element.text for element in plot.iter() if element.tag.endswith("text")]


def test_a_page_has_three_plots_for_each_scenario_and_loads_nothing(tmp_path):
    report_html.main([str(RECORDED), "--out", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    assert len(plots(page)) == 3 * len(result()["scenarios"])
    assert not re.search(r"<script|<link|src=|href=|url\(", page)
    for scenario in result()["scenarios"]:
        assert f"<td>damacy<td>{scenario['loaders']['damacy']['bytes_per_s'] / 1e9:.2f}" in page


def test_bars_of_the_waterfall_follow_each_other_and_end_with_the_clock():
    plot = ElementTree.fromstring(report_html.waterfall(result()["scenarios"][0])[0])
    bars = [(float(bar.get("x")), float(bar.get("width"))) for bar in plot.iter() if bar.tag.endswith("rect")]
    *stages, clock = bars
    assert [label for label in words(plot)[::2]] == ["plan", "read", "decode", "place", "by the clock"]
    for (left, width), (following, _) in zip(stages, stages[1:]):
        assert following == pytest.approx(left + width, abs=1.2)  # a bar is at least a pixel wide
    ours = result()["scenarios"][0]["loaders"]["damacy"]
    assert words(plot)[-1] == f"{1e9 / ours['bytes_per_s']:.3f} s"
    assert clock[0] == stages[0][0]


def test_the_curve_of_a_loader_has_one_step_for_each_batch():
    scenario = result()["scenarios"][0]
    plot = ElementTree.fromstring(report_html.rate_over_time(scenario)[0])
    curves = [element for element in plot.iter() if element.tag.endswith("polyline")]
    assert [len(curve.get("points").split()) for curve in curves] == [
        2 * len(loader["gaps_s"]) for loader in scenario["loaders"].values()
    ]


def test_a_point_below_a_roof_is_drawn_below_it():
    scenario = result()["scenarios"][0]
    scenario["loaders"] = {"damacy": scenario["loaders"]["damacy"] | {"bytes_per_s": 1e9}}
    scenario["ceilings"]["wall"] = {"read": 4e9, "decode": 2e9, "cast_write": 8e9}
    plot = ElementTree.fromstring(report_html.roofline(scenario)[0])
    point = next(float(dot.get("cy")) for dot in plot.iter() if dot.tag.endswith("circle"))
    flat = [
        float(roof.get("d").split()[1].split("L")[0])
        for roof in plot.iter()
        if roof.get("stroke") in report_html.svg.COLOURS[1:3]
    ]
    decode, cast = flat
    assert cast < decode < point  # y grows downwards


def test_results_without_times_of_single_batches_give_a_page_that_says_so():
    page = report_html.page(json.loads((RESULTS / "host-2-cores-quiet.json").read_text()))
    assert "No times of single batches were kept" in page
    assert plots(page)


def test_a_loader_of_a_hostile_name_stays_text():
    recorded = result()
    loaders = recorded["scenarios"][0]["loaders"]
    loaders["<script>"] = loaders.pop("tensorstore")
    assert "<script>" not in report_html.page(recorded)


def test_a_file_that_is_no_result_is_refused_by_name(tmp_path, capsys):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(SystemExit):
        report_html.main([str(tmp_path / "other.json"), "--out", str(tmp_path / "page.html")])
    assert "other.json is not a result of python -m bench" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
