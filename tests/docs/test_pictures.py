"""The pictures of the documentation are those that docs/pictures/draw.py makes; they are small, and pages show them."""

import pathlib
import runpy
import sys

import pytest

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pictures"
NAMES = ["crops.png", "windows.png", "stages-light.svg", "stages-dark.svg"]


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    for package in ("zarr", "matplotlib", "PIL"):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "argv", ["draw.py", "--out", str(tmp_path)])
    runpy.run_path(str(PICTURES / "draw.py"), run_name="__main__")
    return tmp_path


@pytest.mark.timeout(120)
def test_the_program_draws_the_committed_pictures(drawn):
    """Bytes of a PNG differ with the versions of libraries: its size in pixels is compared, and its mean colour."""
    from PIL import Image, ImageStat

    assert sorted(path.name for path in drawn.iterdir()) == sorted(NAMES)
    for name in NAMES:
        if name.endswith(".svg"):
            assert (drawn / name).read_text() == (PICTURES / name).read_text(), name
            continue
        new, committed = (Image.open(folder / name).convert("RGB") for folder in (drawn, PICTURES))
        assert new.size == committed.size, name
        assert ImageStat.Stat(new).mean == pytest.approx(ImageStat.Stat(committed).mean, abs=3), name


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_small_and_pages_show_them(name):
    assert (PICTURES / name).stat().st_size < 60_000
    pages = [page.read_text() for page in PICTURES.parent.rglob("*.md")]
    assert any(f"pictures/{name}" in page for page in pages)
