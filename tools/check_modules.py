#!/usr/bin/env python3
"""Checks that no Python modules of the package or of the benchmarks import each other in a ring, and that no folder has
too many modules. Prints each violation and exits 1, or prints one line and exits 0.

    python tools/check_modules.py [FOLDER...]      FOLDER: a package's folder; its name is the package's

Counts every import statement: at the top, in functions, and for type checkers. Importing a module does not count as
importing the packages that contain it. Does not see imports by `importlib`."""

from __future__ import annotations

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "python" / "damacy", ROOT / "bench")
MOST_MODULES = 25

Graph = dict[str, set[str]]


def modules_in(package: pathlib.Path) -> dict[str, pathlib.Path]:
    """The modules of a package and of the packages in it, by dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: pathlib.Path, known: dict[str, pathlib.Path]) -> set[str]:
    """The known modules that the module `name` imports anywhere in its text."""
    found = set()
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{home}.{alias.name}"
                # The native extension imports nothing of the package.
                found.add(inner if inner in known or alias.name == "_native" else home)
    return (found & set(known)) - {name}


def rings(graph: Graph) -> list[list[str]]:
    """Groups of modules that all import each other, directly or not (strongly connected components); sorted by name."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(graph: Graph, start: str) -> set[str]:
    """All modules that `start` imports, directly or not; includes `start` if it is in a ring."""
    seen: set[str] = set()
    left = [start]
    while left:
        for name in graph[left.pop()] - seen:
            seen.add(name)
            left.append(name)
    return seen


def offences(package: pathlib.Path) -> list[str]:
    known = modules_in(package)
    graph = {name: imports_of(name, path, known) for name, path in known.items()}
    found = []
    for ring in rings(graph):
        inside = (f"{name} imports {other}" for name in ring for other in sorted(graph[name] & set(ring)))
        found.append(f"ring: {'; '.join(inside)}")
    folders = [path.parent for path in known.values()]
    for folder in sorted(set(folders)):
        if (count := folders.count(folder)) > MOST_MODULES:
            found.append(f"{folder}: {count} modules, at most {MOST_MODULES}")
    return found


def main(arguments: list[str]) -> int:
    packages = [pathlib.Path(argument).resolve() for argument in arguments] or PACKAGES
    found = [offence for package in packages for offence in offences(package)]
    count = sum(len(modules_in(package)) for package in packages)
    print("\n".join(found) if found else f"modules: {count} in {len(packages)} packages, no ring")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
