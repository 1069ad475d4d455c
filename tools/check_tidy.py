#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy on the library and the bindings; any finding is an error. Takes flags
from the build folder and compiles nothing. Prints each finding once and exits 1, or prints one line and exits 0."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from check_thread_safety import ROOT, units

TIDY = "clang-tidy-19"
CHECK = [TIDY, "--quiet", f"--config-file={ROOT / '.clang-tidy'}"]
PLACE = re.compile(r"^/\S+(?=:\d+:\d+: (?:error|note): )", re.M)
FINDING = re.compile(r"^(?=\S+:\d+:\d+: error: )", re.M)


def findings(path: pathlib.Path, flags: list[str], build: pathlib.Path) -> list[str]:
    """With the lines of code that clang-tidy shows. A header's are those of every file that includes it."""
    done = subprocess.run([*CHECK, path, "--", *flags], cwd=build, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    shown = PLACE.sub(lambda place: os.path.relpath(place[0], ROOT), done.stdout)
    return [text for text in FINDING.split(shown) if text] or [f"{path}: {TIDY} failed: {done.stderr}\n"]


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    found = units(build)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        of_files = pool.map(lambda unit: findings(*unit, build), found.items())
        said = dict.fromkeys(text for of_file in of_files for text in of_file)
    print("".join(said) if said else f"clang-tidy: {len(found)} files, clean")
    return 1 if said or not found else 0


if __name__ == "__main__":
    sys.exit(main())
