#!/usr/bin/env python3
"""Checks that docs/reference/threads.md lists every thread by its name and no others, that only core/thread.h starts
threads in C++, and that Python names its threads. Prints each violation and exits 1, or prints one line and exits 0."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/reference/threads.md"
STARTER = "src/damacy/core/thread.h"
STARTED = re.compile(r'\bThread\("(damacy-[a-z-]+)"')
STARTED_IN_PYTHON = re.compile(r'\b(?:name|thread_name_prefix)="(damacy-[a-z-]+)"')
OTHERWISE = re.compile(r"std::thread\b(?!::)|std::jthread|pthread_create|std::async\b")
UNNAMED_IN_PYTHON = re.compile(r"\b(?:ThreadPoolExecutor|threading\.Thread|Timer)\((?![^)]*name(?:_prefix)?=)")
ROW = re.compile(r"^\| `(damacy-[a-z-]+)` \|(.*)\|$", re.M)
CELLS = 3


def sources() -> list[pathlib.Path]:
    files = [*(ROOT / "src" / "damacy").rglob("*"), *(ROOT / "python" / "bindings").rglob("*")]
    return sorted(p for p in files if p.suffix in {".h", ".cpp", ".cu", ".cuh"} and "test" not in p.stem)


def started() -> set[str]:
    names = {name for path in sources() for name in STARTED.findall(path.read_text())}
    python = (ROOT / "python" / "damacy").rglob("*.py")
    return names.union(*(STARTED_IN_PYTHON.findall(path.read_text()) for path in python))


def offences(table: str) -> list[str]:
    rows = dict(ROW.findall(table))
    names = started()
    found = [f"{PAGE}: no row for the thread {name}" for name in sorted(names - rows.keys())]
    found += [f"{PAGE}: no thread is called {name}" for name in sorted(rows.keys() - names)]
    for name, rest in rows.items():
        cells = [cell.strip() for cell in rest.split("|")]
        if len(cells) != CELLS or not all(cells):
            found.append(f"{PAGE}: the row of {name} needs {CELLS} cells after the name")
    for path in sources():
        where = path.relative_to(ROOT).as_posix()
        if where != STARTER and OTHERWISE.search(path.read_text()):
            found.append(f"{where}: starts a thread without {STARTER}")
    for path in sorted((ROOT / "python" / "damacy").rglob("*.py")):
        if UNNAMED_IN_PYTHON.search(path.read_text()):
            found.append(f"{path.relative_to(ROOT).as_posix()}: starts a thread without a name")
    return found


def main() -> int:
    bad = offences((ROOT / PAGE).read_text())
    print("\n".join(bad) if bad else f"threads: {len(started())} names, all in {PAGE}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
