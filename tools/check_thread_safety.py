#!/usr/bin/env python3
"""Runs clang's thread-safety analysis: members that are marked as guarded (core/mutex.h) may be used only with their
mutex held. Takes flags from the build folder and compiles nothing. Prints clang's messages and exits 1, or prints one
line and exits 0."""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLANG = "clang++-19"
CHECK = [CLANG, "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror"]
KEPT = ("-I", "-D", "-std=", "-m")  # flags of the build's compiler that clang gets too


def flags(command: str) -> list[str]:
    words = shlex.split(command)
    kept = [word for word in words if word.startswith(KEPT)]
    return kept + [part for at, word in enumerate(words) if word == "-isystem" for part in words[at : at + 2]]


def units(build: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """Each source file of the library and the bindings, with its flags."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        where = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        if where.startswith(("src/damacy/", "python/bindings/")) and path.suffix == ".cpp" and "test" not in path.stem:
            found[path] = flags(entry["command"])
    return found


def complaints(path: pathlib.Path, with_flags: list[str], build: pathlib.Path) -> str:
    return subprocess.run([*CHECK, *with_flags, path], cwd=build, capture_output=True, text=True).stderr


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    found = units(build)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = [text for text in pool.map(lambda unit: complaints(*unit, build), found.items()) if text]
    print("".join(said) if said else f"thread safety: {len(found)} files, clean")
    return 1 if said or not found else 0


if __name__ == "__main__":
    sys.exit(main())
