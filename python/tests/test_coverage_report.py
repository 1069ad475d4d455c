"""The sums of `make coverage`, on small reports."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report():
    return loaded(ROOT / "tools" / "coverage_report.py")


def entry(path, lines, run, branches=0, branches_run=0):
    counts = {"line_total": lines, "line_covered": run, "branch_total": branches, "branch_covered": branches_run}
    return {"filename": f"src/damacy/{path}"} | counts


def test_files_are_added_up_by_layer(report):
    files = [entry("codec/lz4.cpp", 10, 9, 4, 2), entry("codec/cuda/a.h", 5, 0), entry("damacy.h", 1, 1)]
    assert report.sums(report.of_gcovr({"files": files})) == {
        ".": {"lines": 1, "lines_run": 1, "branches": 0, "branches_run": 0},
        "codec": {"lines": 15, "lines_run": 9, "branches": 4, "branches_run": 2},
    }


def test_modules_are_added_up_by_folder(report):
    summary = {"num_statements": 7, "covered_lines": 6, "num_branches": 2, "covered_branches": 1}
    files = {"python/damacy/zarr/_stores.py": {"summary": summary}, "python/damacy/cli.py": {"summary": summary}}
    counts = {"lines": 7, "lines_run": 6, "branches": 2, "branches_run": 1}
    assert report.sums(report.of_coverage({"files": files})) == {".": counts, "zarr": counts}


def test_the_page_has_a_row_for_each_layer_and_their_sum():
    from_code = loaded(ROOT / "docs" / "_ext" / "from_code.py")
    io = {"lines": 1200, "lines_run": 900, "branches": 0, "branches_run": 0}
    top = {"lines": 800, "lines_run": 800, "branches": 4, "branches_run": 1}
    of = {"date": "2026-01-02T03:04:05+00:00", "commit": "0123456789abcdef", "command": "make coverage"}
    page = from_code.coverage_tables(of | {"cpp": {".": top, "io": io}, "python": {".": top}})
    assert page.startswith("Measured on 2026-01-02 at commit `0123456789` by `make coverage`.\n")
    assert "| io | 1 200 | 75.0 % | 0 | — |\n| **all** | 2 000 | 85.0 % | 4 | 25.0 % |" in page
    assert "| top | 800 | 100.0 % | 4 | 25.0 % |\n| **all** | 800 | 100.0 % | 4 | 25.0 % |" in page
