"""HTML of opened nodes: escaped, self-contained, and never above 64 KiB."""

import html.parser
import json

import pytest

import damacy
from damacy._open.html import CELL_CHARACTERS, MAX_BYTES, Page

zarr = pytest.importorskip("zarr")


class Checked(html.parser.HTMLParser):
    """Counts open tags, and keeps names of tags and texts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


HOSTILE = "<script>alert('x')</script>&<img src=x onerror=1>"
TAGS = {"div", "b", "table", "tr", "td", "details", "summary"}


def test_an_array_shows_its_description_and_escaped_attributes(tmp_path):
    zarr.create_array(
        tmp_path / "a<b>", shape=(4, 6), dtype="f4", attributes={HOSTILE: HOSTILE}, dimension_names=["<y>", "x"]
    )
    page = Checked(damacy.open(tmp_path / "a<b>")._repr_html_())
    assert page.tags <= TAGS
    assert {"damacy.Array", "4 × 6", "<y>, x", "float32", "attributes", HOSTILE, json.dumps(HOSTILE)} <= set(page.texts)


def test_a_group_shows_its_nodes(tmp_path):
    root = zarr.open_group(tmp_path / "g", mode="w", attributes={"title": HOSTILE})
    root.create_array("a&b", shape=(2,), dtype="i2")
    page = Checked(damacy.open(tmp_path / "g")._repr_html_())
    assert page.tags <= TAGS
    assert {"a&b", "int16 (2) chunks (2,)", "attributes"} <= set(page.texts)


def test_an_image_shows_its_levels(tmp_path):
    root = zarr.open_group(tmp_path / "i", mode="w", zarr_format=2)
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scale = [{"type": "scale", "scale": [0.5, 0.25]}]
    datasets = [{"path": "0", "coordinateTransformations": scale}]
    root.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    root.create_array("0", shape=(4, 4), dtype="u1")
    page = Checked(damacy.open(tmp_path / "i")._repr_html_())
    assert {"levels", "scale 0.5, 0.25", "translation 0, 0"} <= set(page.texts)
    assert "0.5, 0.25" in page.texts


@pytest.mark.parametrize("value", ["x" * 100_000, "<" * 100_000, "é" * 100_000])
def test_large_attributes_are_cut(tmp_path, value):
    attributes = {f"{value[:2]}{k}": value for k in range(1000)}
    zarr.create_array(tmp_path / "a", shape=(1,), dtype="u1")
    document = json.loads((tmp_path / "a" / "zarr.json").read_text())
    document["attributes"] = {name: text[:300] for name, text in attributes.items()}
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(document, ensure_ascii=False))
    text = damacy.open(tmp_path / "a")._repr_html_()
    assert len(text.encode()) <= MAX_BYTES
    assert any("more)" in part for part in Checked(text).texts)


def test_the_limit_is_exact():
    rows = [("a", "b" * 50)] * 10
    whole = Page("t", limit=1 << 20)
    whole.table(rows)
    size = len(whole.text().encode())
    spare = len("<tr><td>… (+10 more)</td></tr>".encode())  # kept free for the count
    for limit, complete in ((size + spare - 1, False), (size + spare, True), (size + spare + 1, True)):
        page = Page("t", limit=limit)
        page.table(rows)
        assert len(page.text().encode()) <= limit
        assert (page.text() == whole.text()) is complete


def test_long_cells_are_cut():
    page = Page("t")
    page.table([("x" * (CELL_CHARACTERS + 1), "y" * CELL_CHARACTERS)])
    texts = Checked(page.text()).texts
    assert "x" * CELL_CHARACTERS + "…" in texts
    assert "y" * CELL_CHARACTERS in texts
