"""The page of the package index is the README without links that have no target there."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = README
    for change in settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    return text


def blocks(text):
    return re.findall(r"^```.*?^```$", text, re.M | re.S)


def test_the_page_has_only_links_with_an_address():
    links = re.findall(r"\]\(([^)]*)\)", re.sub(r"^```.*?^```$", "", page(), flags=re.M | re.S))
    assert len(links) >= 1
    assert [link for link in links if not link.startswith("https://")] == []


def test_texts_of_links_and_programs_are_unchanged():
    assert "<picture>" in README and "<picture>" not in page() and "<img" not in page()
    assert blocks(page()) == blocks(README)
    named = "CONTRIBUTING.md"
    assert f"[{named}](" in README and named in page()
