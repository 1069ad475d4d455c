"""The plot on the front page is made from the recorded results, and each of its bars is labelled with its rate."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from bench.plots import front_plot


@pytest.mark.parametrize("name, narrow", [("speed", False), ("speed-narrow", True)])
@pytest.mark.parametrize("theme", front_plot.THEMES)
def test_the_committed_plot_is_that_of_the_results(theme, name, narrow):
    assert (front_plot.DOCS / f"{name}-{theme}.svg").read_text() == front_plot.draw(theme, narrow), "draw it again"


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("theme", front_plot.THEMES)
def test_nothing_is_drawn_beyond_the_edges(theme, narrow):
    plot = ElementTree.fromstring(front_plot.draw(theme, narrow))
    width, height = map(float, plot.get("viewBox").split()[2:])
    for element in plot.iter():
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        length = 6.2 * len(element.text) if element.tag.endswith("text") else float(element.get("width", 0))
        assert element is plot or (x + length <= width and y + 2 <= height), (element.attrib, element.text)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("theme", front_plot.THEMES)
def test_each_bar_has_its_rate_and_the_colour_of_its_reader(theme, narrow):
    plot = ElementTree.fromstring(front_plot.draw(theme, narrow))
    shown = [element.text for element in plot.iter() if element.tag.endswith("text")]
    fills = [element.get("fill") for element in plot.iter() if element.tag.endswith("rect")]
    bars = [bar for groups in front_plot.panels().values() for group in groups for bar in group.bars.items()]
    colours = front_plot.THEMES[theme]
    assert len(bars) == 21
    assert fills == [colours[name] for name, _ in bars] + [colours[name] for name in front_plot.LEGEND]
    assert [text for text in shown if re.fullmatch(r"[\d.]+", text)] == [f"{rate:.3g}" for _, rate in bars]
    assert set(front_plot.LEGEND.values()) <= set(shown)


@pytest.mark.parametrize("page", ["README.md", "docs/reference/speed.md"])
def test_pages_link_the_files_that_the_plot_is_made_from(page):
    text = (front_plot.DOCS.parent / page).read_text()
    for file in (front_plot.HOST, front_plot.GPU, front_plot.TIER, front_plot.TIER_BLOSC):
        assert file in text
