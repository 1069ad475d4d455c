"""The documentation is correct: the parts that are generated from the code are complete, and pages fit the site.

test_programs.py runs its programs."""

import pathlib
import re
import runpy
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_SELECTIONS = {"cancelled", "failed"}  # reasons of reads by zarr-python; pipelines never raise them

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import cpp_reference  # noqa: E402
import from_code  # noqa: E402


def test_every_reason_code_of_the_source_is_explained():
    explained = {code for codes in from_code.reasons().values() for code in codes}
    given = set()
    for folder in ("zarr", "plan", "batch", "fetch", "wave", "pipeline", "single"):
        for path in (from_code.SOURCES / folder).rglob("*.cpp"):
            if not path.stem.endswith("_test"):
                # The last argument where an error is made: `Status::inval, ..., "code")`.
                given |= set(re.findall(r'(?:Status::|unsupported\()[^;]*?,\s*"([a-z-]+)"\)', path.read_text()))
    assert {"group", "codec", "aabb", "held"} <= given
    assert given - explained - OF_SELECTIONS == set()


def test_a_code_that_no_source_has_stops_the_build(monkeypatch):
    monkeypatch.setattr(from_code, "codes_in_sources", lambda: {"json"})
    with pytest.raises(ValueError, match="no source has the code"):
        from_code.reasons_page()


def test_the_table_of_limits_has_every_limit_with_its_value(monkeypatch):
    page = from_code.limits_page()
    assert "| the metadata document of an array | 1 MiB | `array_document_bytes` |" in page
    assert "| axes of an array | 32 | `rank` |" in page
    limits = from_code.limits()
    monkeypatch.setattr(from_code, "limits", lambda: limits | {"new_limit": 1})
    with pytest.raises(ValueError, match="new_limit"):
        from_code.limits_page()


def test_every_command_is_listed_with_its_options():
    pytest.importorskip("typer")
    page = from_code.commands_page()
    for command in ("info", "doctor", "demo", "verify", "bench", "preview", "plan", "cat"):
        assert f"## damacy {command}" in page
    assert "| `--json` |" in page
    assert "| `--peers, --no-peers` |" in page
    assert re.search(r"\| `--batch` \| .* Default: `8`\. \|", page)


def test_the_parts_of_memory_are_listed_for_host_and_gpu():
    host, gpu = from_code.memory_page().split("**With a GPU**")
    assert "| staging | 1.0 GiB | host | reserved | `host_buffer_bytes` | reads |" in host
    assert "| staging | 512.0 MiB | page-locked | at start | `host_buffer_bytes` |" in gpu
    for part in (
        "slabs",
        "decoded chunks",
        "decoder scratch",
        "repair",
        "images",
        "encoded on cores",
        "metadata",
        "slots",
    ):
        assert f"| {part} |" in gpu


def test_the_public_headers_are_listed_with_their_purpose():
    page = from_code.headers_page()
    for public in ("damacy.h", "array.h", "file.h"):
        assert f"`damacy/{public}`" in page
        for header in re.findall(r'#include "(damacy/[^"]+)"', (from_code.SOURCES / public).read_text()):
            assert re.search(rf"\| `{re.escape(header)}` \| .+ \|", page), header


def test_the_reference_has_each_public_header_that_is_installed():
    headers = cpp_reference.public_headers()
    assert {"damacy/fileio/cu_file.h", "damacy/zarr/array_selection.h", "damacy/c.h", "damacy/halo/mpi.h"} <= set(
        headers
    )
    page = cpp_reference.page()
    for public in from_code.PUBLIC_HEADERS:
        assert f"## damacy/{public}\n" in page
        for header in re.findall(r'#include "(damacy/[^"]+)"', (from_code.SOURCES / public).read_text()):
            assert page.count(f".. doxygenfile:: {header}\n") == 1, header


def test_comments_of_headers_become_documentation():
    header = """// The story of the file.
#pragma once

// Of the class; of a <T>.
class One {
  // -- a title --
  int a = 0;  // behind it
  const char* url = "https://x";
};"""
    assert list(cpp_reference.documented(header.splitlines()))[1:] == [
        "#pragma once",
        "",
        "/// Of the class; of a \\<T\\>.",
        "class One {",
        "",
        "  int a = 0;  ///< behind it",
        '  const char* url = "https://x";',
        "};",
    ]


def test_each_page_is_in_the_sidebar_once():
    docs = ROOT / "docs"
    listed = []
    for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", (docs / "index.md").read_text(), re.M | re.S):
        for entry in (line for line in tree.splitlines() if line and not line.startswith(":")):
            listed += sorted(path.relative_to(docs).as_posix() for path in docs.glob(entry + ".md"))
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("_")} - {"index.md"}
    assert sorted(listed) == sorted(pages)


def test_the_first_page_begins_with_an_install_command_and_a_program_that_runs():
    page = from_code.quick_start()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.M | re.S)
    assert [language for language, _ in blocks] == ["sh", "python", "python"]
    assert "pip install" in blocks[0][1]
    assert "write_image" in blocks[1][1]  # writes its own data; test_readme.py runs it


@pytest.fixture
def conf(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))  # conf.py changes it
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


def test_programs_fit_the_page_and_have_a_copy_button(conf):
    assert "sphinx_copybutton" in conf["extensions"]
    styles = "".join((ROOT / "docs" / "_static" / name).read_text() for name in conf["html_css_files"])
    columns = int(re.search(r"up to (\d+) columns", styles)[1])
    pages = {str(path.relative_to(ROOT / "docs")): path.read_text() for path in (ROOT / "docs").rglob("*.md")}
    pages = {page: text for page, text in pages.items() if not page.startswith("_")}
    for page, text in (pages | {"quick start": from_code.quick_start()}).items():
        for program in re.findall(r"^```\w+\n(.*?)^```$", text, re.M | re.S):
            assert max(map(len, program.splitlines()), default=0) <= columns, page


def test_options_of_commands_keep_their_two_hyphens(conf):
    assert conf["smartquotes"] is False


def test_the_architecture_is_short_and_names_each_folder_of_the_library():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(page.split()) <= 2500
    layers = [line.split()[0] for line in (ROOT / "src/damacy/LAYERS").read_text().splitlines()]
    assert [layer for layer in layers if f"| `{layer}/`" not in page] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "README.md", "bench/README.md"])
def test_links_to_parts_of_pages_have_a_heading(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", (ROOT / page).read_text()):
        text = ((ROOT / page).parent / target if target else ROOT / page).read_text()
        headings = [re.sub(r"[^\w\- ]", "", title).strip().lower() for title in re.findall(r"^#+ (.+)$", text, re.M)]
        assert anchor in [title.replace(" ", "-") for title in headings], (target, anchor)


def names_of(page: str) -> set[str]:
    """The identifiers and paths that a page has between backticks, without its programs."""
    text = re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    return {name for name in re.findall(r"`(~?[\w:./]+)(?:\(\))?`", text) if "NAME" not in name and "://" not in name}


CONTRIBUTORS = ["extending", "memory", "python"]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", *(f"docs/contributing/{name}.md" for name in CONTRIBUTORS)])
def test_pages_for_contributors_name_what_is_there(page):
    folders = (
        "src",
        "python/damacy",
        "python/bindings",
        "python/tests",
        "tests",
        "cmake",
        "tools",
        "bench",
        "docs",
        "fuzz",
    )
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if "_build" not in path.parts]
    known = {path.relative_to(ROOT).as_posix() for path in paths}
    suffixes = {".h", ".cpp", ".cu", ".cuh", ".py", ".cmake"}
    words = set()
    for path in paths:
        if path.suffix in suffixes:
            words |= set(re.findall(r"\w+", path.read_text()))
    missing = []
    for name in names_of(page):
        stem = name.strip("/")
        is_path = any(path == stem or path.endswith(f"/{stem}") or f"/{stem}." in f"/{path}" for path in known)
        is_word = all(word in words for word in re.findall(r"\w+", name))
        if not (is_path or (is_word and "/" not in name) or (ROOT / stem).exists()):
            missing.append(name)
    assert missing == [], page


@pytest.mark.parametrize(
    "term", ["kerchunk", "GCS", "Azure", "anndata", "spatialdata", ".ozx", "noleap", "Icechunk", "torchrun", "Slurm"]
)
def test_the_search_finds_what_people_look_for(term):
    assert term in (ROOT / "docs" / "reference" / "names.md").read_text()
