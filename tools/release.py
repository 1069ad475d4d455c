"""The parts of a release that are no build: may this commit be published, and what else belongs to its files.

usage: release.py check             the tag, the versions and the checkout fit; the status is 1 if something is wrong
       release.py collect DIST DOCS adds the documentation, lists of components and checksums to the packages in DIST
"""

from __future__ import annotations

import gzip
import hashlib
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
_COMPONENTS = re.compile(r"[^/]+\.dist-info/sboms/damacy\.cdx\.json")
_VERSIONS = {  # of the files that name it besides CMakeLists.txt
    "CITATION.cff": r"^version: (.+)$",
    "packaging/conda/recipe.yaml": r'^  version: "(.+)"$',
}


def _git(checkout: pathlib.Path, *words: str) -> str:
    # A checkout in a container may belong to another user.
    command = ["git", "-c", "safe.directory=*", "-C", str(checkout), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def version_of(checkout: pathlib.Path) -> str:
    """The version of CMakeLists.txt."""
    found = re.search(r"^project\(damacy VERSION ([\d.]+)", (checkout / "CMakeLists.txt").read_text(), re.M)
    if not found:
        raise ValueError("CMakeLists.txt names no version")
    return found[1]


def faults(checkout: pathlib.Path) -> list[str]:
    """One line for each reason not to publish what is checked out."""
    version = version_of(checkout)
    tags = _git(checkout, "tag", "--points-at", "HEAD").split()
    found = []
    if f"v{version}" not in tags:
        found.append(f"the version is {version}, so the commit needs the tag v{version} (it has: {', '.join(tags)})")
    if changed := _git(checkout, "status", "--porcelain"):
        found.append(f"files differ from the commit: {' '.join(changed.split())}")
    for name, pattern in _VERSIONS.items():
        named = re.search(pattern, (checkout / name).read_text(encoding="utf-8"), re.M)
        if named is None or named[1] != version:
            found.append(f"{name} has the version {named[1] if named else '(none)'}, not {version}")
    changes = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.M):
        found.append(f"CHANGELOG.md has no title `## {version} (YYYY-MM-DD)`")
    return found


def collect(dist: pathlib.Path, docs: pathlib.Path, version: str, seconds: int) -> list[str]:
    """Writes the documentation as an archive with the time `seconds`, the list of components of each wheel, and
    SHA256SUMS of all files. Returns their names. Files of other versions are an error."""
    packages = sorted(path for path in dist.iterdir() if path.suffix == ".whl" or path.name.endswith(".tar.gz"))
    ours = (f"damacy-{version}-", f"damacy-{version}.tar.gz")
    others = [path.name for path in packages if not path.name.startswith(ours)]
    if others or not packages:
        raise ValueError(f"{dist} has {others or 'no packages'}, expected packages of damacy {version}")
    _archive(docs, dist / f"damacy-{version}-docs.tar.gz", f"damacy-{version}-docs", seconds)
    for wheel in (path for path in packages if path.suffix == ".whl"):
        with zipfile.ZipFile(wheel) as archive:
            (listed,) = [name for name in archive.namelist() if _COMPONENTS.fullmatch(name)]
            (dist / f"{wheel.name.removesuffix('.whl')}.cdx.json").write_bytes(archive.read(listed))
    names = sorted(path.name for path in dist.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (dist / "SHA256SUMS").write_text("".join(lines))
    return [*names, "SHA256SUMS"]


def _archive(folder: pathlib.Path, path: pathlib.Path, top: str, seconds: int) -> None:
    """The same files and time give the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = seconds
        return member

    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=seconds) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for file in sorted(file for file in folder.rglob("*") if file.is_file()):
                archive.add(file, f"{top}/{file.relative_to(folder)}", filter=plain)


def main() -> None:
    match sys.argv[1:]:
        case ["check"]:
            if found := faults(ROOT):
                sys.exit("\n".join(found))
            print(f"this commit may be published as {version_of(ROOT)}")
        case ["collect", dist, docs]:
            seconds = int(_git(ROOT, "log", "-1", "--format=%ct"))
            print("\n".join(collect(pathlib.Path(dist), pathlib.Path(docs), version_of(ROOT), seconds)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
