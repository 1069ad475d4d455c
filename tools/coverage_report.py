"""Sums up test coverage: lines and branches of the C++ library by layer, and of the Python package by folder.

Reads the JSON summary of gcovr and the JSON report of coverage.py; writes bench/results/coverage.json, which
docs/reference/coverage.md shows. Runs no tests: `make coverage` does.

usage: coverage_report.py GCOVR_JSON COVERAGE_JSON OUT
"""

from __future__ import annotations

import collections
import json
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMAND = "make coverage"


def sums(files: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Counts of files, summed by the first folder of their path; files at the top are summed under `.`."""
    found: dict[str, dict[str, int]] = collections.defaultdict(lambda: dict.fromkeys(_KEYS, 0))
    for path, counts in files.items():
        folder = path.partition("/")[0] if "/" in path else "."
        for key in _KEYS:
            found[folder][key] += counts[key]
    return {folder: found[folder] for folder in sorted(found)}


_KEYS = ("lines", "lines_run", "branches", "branches_run")


def of_gcovr(report: Any) -> dict[str, dict[str, int]]:
    """By path below src/damacy, from `gcovr --json-summary`."""
    return {
        entry["filename"].removeprefix("src/damacy/"): {
            "lines": entry["line_total"],
            "lines_run": entry["line_covered"],
            "branches": entry["branch_total"],
            "branches_run": entry["branch_covered"],
        }
        for entry in report["files"]
    }


def of_coverage(report: Any) -> dict[str, dict[str, int]]:
    """By path below python/damacy, from `coverage json`."""
    return {
        path.removeprefix("python/damacy/"): {
            "lines": entry["summary"]["num_statements"],
            "lines_run": entry["summary"]["covered_lines"],
            "branches": entry["summary"]["num_branches"],
            "branches_run": entry["summary"]["covered_branches"],
        }
        for path, entry in report["files"].items()
    }


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from bench import machine

    cpp, python = (json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:3])
    result = machine.describe() | {
        "command": COMMAND,
        "cpp": sums(of_gcovr(cpp)),
        "python": sums(of_coverage(python)),
    }
    pathlib.Path(sys.argv[3]).write_text(json.dumps(result, indent=1) + "\n")
    for name in ("cpp", "python"):
        lines, run = (sum(counts[key] for counts in result[name].values()) for key in ("lines", "lines_run"))
        print(f"{name}: {run} of {lines} lines, {100 * run / max(1, lines):.1f} %")


if __name__ == "__main__":
    main()
