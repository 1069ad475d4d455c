#!/usr/bin/env python3
"""Checks that no include points down src/damacy/LAYERS, that detail/ headers stay in their layer, that CUDA headers
and CUDA names stay in cuda/ folders, that a namespace within `damacy` belongs to one layer, and that units do not
include each other in a circle. A unit is a header with its source file. Prints each violation and exits 1, or prints
one line and exits 0."""

import pathlib
import re
import sys
from collections.abc import Collection, Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "damacy"
INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]', re.M)
NAMESPACE = re.compile(r"^(?:inline )?namespace ((?:\w+::)*\w+) \{", re.M)
SHARED_NAMESPACES = {"damacy", "detail", "testing"}  # `detail` is private to its file's layer
CUDA_HEADER = re.compile(r"^(cuda|cub/|thrust/|nvtx3/|cooperative_groups)")
SOURCES = {".h", ".cpp", ".cu", ".cuh"}


def read_layers() -> dict[str, set[str]]:
    """For each layer all layers that it may include: those in its line, and recursively those that they may include."""
    allowed: dict[str, set[str]] = {}
    for line in (SRC / "LAYERS").read_text().splitlines():
        layer, *below = line.split()
        allowed[layer] = {layer}.union(*(allowed[b] for b in below))
    return allowed


def offences(path: pathlib.Path, allowed: dict[str, set[str]]) -> list[str]:
    layer = path.relative_to(SRC).parts[0]
    found = []
    for target in INCLUDE.findall(path.read_text()):
        if CUDA_HEADER.match(target) and "cuda" not in path.relative_to(SRC).parts[:-1]:
            found.append(f"includes {target} outside a cuda/ folder")
        if not target.startswith("damacy/"):
            continue
        into = target.split("/")[1]
        if into in allowed and layer in allowed and into not in allowed[layer]:
            found.append(f"includes {target}, which layer {layer} may not")
        if "/detail/" in target and into != layer:
            found.append(f"includes {target}, private to layer {into}")
    return found


def shared_namespaces(root: pathlib.Path, files: Iterable[pathlib.Path], layers: Collection[str]) -> list[str]:
    """Namespaces that several layers use, or that have the name of another layer. Headers above layers are of none."""
    users: dict[str, set[str]] = {}
    for path in files:
        layer = path.relative_to(root).parts[0]
        for names in NAMESPACE.findall(path.read_text()):
            for name in set(names.split("::")) - SHARED_NAMESPACES:
                users.setdefault(name, set()).update({layer} & set(layers))
    return [
        f"namespace {name} is used by {', '.join(sorted(of))}: it belongs to one layer"
        for name, of in sorted(users.items())
        if len(of) > 1 or (name in layers and of - {name})
    ]


def units(root: pathlib.Path, files: Iterable[pathlib.Path]) -> dict[str, set[str]]:
    """For each unit (a path without suffix) the units that its files include. A header in detail/ and the source file
    of the same name one folder above are one unit. Ignores tests."""

    def unit(path: str) -> str:
        return path.rpartition(".")[0].replace("/detail/", "/")

    graph: dict[str, set[str]] = {}
    for path in files:
        if path.stem.endswith("_test"):
            continue
        name = unit(f"damacy/{path.relative_to(root)}")
        targets = {unit(t) for t in INCLUDE.findall(path.read_text()) if t.startswith("damacy/")}
        graph.setdefault(name, set()).update(targets - {name})
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The circles of a graph: for each node in a circle a shortest one through it; each circle once."""
    found: dict[frozenset[str], list[str]] = {}
    for start in sorted(graph):
        before: dict[str, str] = {}
        reached = [start]
        for node in reached:  # grows while it is read: breadth first
            for target in sorted(graph.get(node, ())):
                if target not in before:
                    before[target] = node
                    reached.append(target)
        if start not in before:
            continue
        circle = [start]
        while (node := before[circle[-1]]) != start:
            circle.append(node)
        found.setdefault(frozenset(circle), [start, *reversed(circle)])
    return list(found.values())


def main() -> int:
    allowed = read_layers()
    files = sorted(p for p in SRC.rglob("*") if p.suffix in SOURCES)
    bad = [f"{p.relative_to(ROOT)}: {o}" for p in files for o in offences(p, allowed)]
    bad += shared_namespaces(SRC, files, allowed)
    bad += [f"units include each other: {' -> '.join(circle)}" for circle in circles(units(SRC, files))]
    print("\n".join(bad) if bad else f"layers: {len(files)} files, clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
