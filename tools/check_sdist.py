"""Checks that a source package contains every tracked file and no others. Reads the archive without unpacking it.

usage: check_sdist.py SDIST [CHECKOUT]      the status is 1 if a file is missing, extra or different
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def tracked(checkout: pathlib.Path) -> set[str]:
    """The files that git tracks in `checkout`; raises CalledProcessError outside a repository."""
    listed = subprocess.run(["git", "-C", str(checkout), "ls-files", "-z"], check=True, capture_output=True, timeout=60)
    return set(listed.stdout.decode().split("\0")) - {""}


def faults(sdist: pathlib.Path, checkout: pathlib.Path, files: set[str]) -> list[str]:
    """One line for each difference between `sdist` and `files` of `checkout`. `PKG-INFO` is generated."""
    found = []
    top = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {}
        for member in archive:
            folder, _, name = member.name.partition("/")
            if folder != top:
                found.append(f"{member.name} is outside {top}/")
            elif not member.isdir():
                packed[name] = member
        if packed.pop("PKG-INFO", None) is None:
            found.append("PKG-INFO is missing")
        found += [f"{name} is tracked, and missing in the package" for name in sorted(files - packed.keys())]
        found += [f"{name} is in the package, and not tracked" for name in sorted(packed.keys() - files)]
        for name in sorted(files & packed.keys()):
            content = archive.extractfile(packed[name])
            if content is None or content.read() != (checkout / name).read_bytes():
                found.append(f"{name} differs from the checkout")
            elif bool(packed[name].mode & 0o100) != bool((checkout / name).stat().st_mode & 0o100):
                found.append(f"{name} is executable in only one of the package and the checkout")
    return found


def main() -> None:
    sdist = pathlib.Path(sys.argv[1])
    checkout = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT
    files = tracked(checkout)
    found = faults(sdist, checkout, files)
    if found:
        sys.exit(f"{sdist.name}: " + "\n".join(found))
    print(f"{sdist.name}: {sdist.stat().st_size / 2**20:.1f} MiB, all {len(files)} tracked files and nothing else")


if __name__ == "__main__":
    main()
