"""Checks that a wheel can be published: size, contents, licences, tags. Reads the file; installs nothing."""

from __future__ import annotations

import json
import pathlib
import re
import sys
import zipfile

_MAX_BYTES = 40 << 20
_NOTICES = (
    "libbz2-dev",
    "libfmt-dev",
    "libisal-dev",
    "liblz4-dev",
    "liblzma-dev",
    "libspdlog-dev",
    "libzstd-dev",
    "nanobind",
    "rapidjson-dev",
    "robin-map",
)
_SOMETIMES = {"cuda-runtime": b"nv_fatbin", "libc++": b"St3__1"}  # optional components, by bytes that show them
_WANTED = ("damacy/__init__.py", "damacy/py.typed", "damacy/_native.pyi", "damacy/cli.py")
_STRAY = (".cpp", ".h", ".cu", ".a", ".pyc")


def faults(path: pathlib.Path) -> list[str]:
    """A line for each fault; empty for a good wheel."""
    with zipfile.ZipFile(path) as wheel:
        sizes = {item.filename: item.file_size for item in wheel.infolist()}
        native = [name for name in sizes if name.startswith("damacy/_native.") and name.endswith(".so")]
        code = wheel.read(native[0]) if native else b""
        inside = [name for name, sign in _SOMETIMES.items() if sign in code]
        listed = next((name for name in sizes if name.endswith(".dist-info/sboms/damacy.cdx.json")), None)
        components = json.loads(wheel.read(listed))["components"] if listed else []
    found = [f"{name} is missing" for name in _WANTED if name not in sizes]
    found += [f"{name} does not belong here" for name in sizes if name.endswith(_STRAY)]
    if path.stat().st_size > _MAX_BYTES:
        found.append(f"{path.stat().st_size} bytes are more than {_MAX_BYTES}")
    if len(native) != 1:
        found.append(f"one native library is expected, there are {native}")
    if "abi3" in path.name.split("-")[-2] and not any(name.endswith(".abi3.so") for name in native):
        found.append("the name says abi3, the library does not")
    licences = {pathlib.PurePath(name).name: size for name, size in sizes.items() if ".dist-info/" in name}
    parts = {*_NOTICES, *inside, *(f"{name}-dev" for name in map(_library, sizes) if name)}
    if listed is None:
        found.append("there is no list of its components")
    else:
        named = {component["name"] for component in components}
        found += [f"{name} is not listed as a component" for name in sorted(parts - named)]
        found += [
            f"the component {component['name']} has the version {component['version']!r}"
            for component in components
            if not re.search(r"[0-9]", component["version"])
        ]
    wanted = ("LICENSE", "THIRD_PARTY.md", *(f"{name}.txt" for name in sorted(parts)))
    found += [f"there is no licence {name}" for name in wanted if not licences.get(name)]
    return found


def _library(path: str) -> str | None:
    """`libisal` for `damacy.libs/libisal-865753ee.so.2`, which auditwheel added; None for other files."""
    carried = re.fullmatch(r"damacy\.libs/(lib[a-z0-9_]+).*\.so.*", path)
    return carried[1] if carried else None


def main() -> None:
    for path in map(pathlib.Path, sys.argv[1:]):
        found = faults(path)
        if found:
            sys.exit(f"{path.name}: " + "; ".join(found))
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, ready to publish")


if __name__ == "__main__":
    main()
