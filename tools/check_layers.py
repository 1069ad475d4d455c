#!/usr/bin/env python3
"""Checks that no include points down src/damacy/LAYERS, that detail/ headers stay in their layer, and that CUDA headers
and words stay in cuda/ folders. Prints each offence and exits 1, or prints one line and exits 0."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "damacy"
INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]', re.M)
CUDA_HEADER = re.compile(r"^(cuda|cub/|thrust/|nvtx3/|cooperative_groups)")


def read_layers() -> dict[str, set[str]]:
    """Each layer with everything it may include: what its line names, and whatever those may include."""
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


def main() -> int:
    allowed = read_layers()
    files = sorted(p for p in SRC.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"})
    bad = [f"{p.relative_to(ROOT)}: {o}" for p in files for o in offences(p, allowed)]
    print("\n".join(bad) if bad else f"layers: {len(files)} files, clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
