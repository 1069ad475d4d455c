"""Whether a wheel is fit to be given away: size, contents, licences, tags. Looks into the file; installs nothing."""

from __future__ import annotations

import pathlib
import sys
import zipfile

_MAX_BYTES = 40 << 20
_NOTICES = (
    "libfmt-dev",
    "libisal-dev",
    "liblz4-dev",
    "libspdlog-dev",
    "libzstd-dev",
    "nanobind",
    "rapidjson-dev",
    "robin-map",
)
_WANTED = ("damacy/__init__.py", "damacy/py.typed", "damacy/_native.pyi", "damacy/cli.py")
_STRAY = (".cpp", ".h", ".cu", ".a", ".pyc")


def faults(path: pathlib.Path) -> list[str]:
    """What is wrong with it, in words; empty for a good one."""
    with zipfile.ZipFile(path) as wheel:
        sizes = {item.filename: item.file_size for item in wheel.infolist()}
        native = [name for name in sizes if name.startswith("damacy/_native.") and name.endswith(".so")]
        with_cuda = bool(native) and b"nv_fatbin" in wheel.read(native[0])
    found = [f"{name} is missing" for name in _WANTED if name not in sizes]
    found += [f"{name} does not belong here" for name in sizes if name.endswith(_STRAY)]
    if path.stat().st_size > _MAX_BYTES:
        found.append(f"{path.stat().st_size} bytes are more than {_MAX_BYTES}")
    if len(native) != 1:
        found.append(f"one native library is expected, there are {native}")
    if "abi3" in path.name.split("-")[-2] and not any(name.endswith(".abi3.so") for name in native):
        found.append("the name says abi3, the library does not")
    licences = {pathlib.PurePath(name).name: size for name, size in sizes.items() if ".dist-info/" in name}
    notices = [f"{name}.txt" for name in (*_NOTICES, *(("cuda-runtime",) if with_cuda else ()))]
    if not any(name.endswith(".dist-info/sboms/damacy.cdx.json") for name in sizes):
        found.append("there is no list of its components")
    found += [
        f"there is no licence {name}" for name in ("LICENSE", "THIRD_PARTY.md", *notices) if not licences.get(name)
    ]
    return found


def main() -> None:
    for path in map(pathlib.Path, sys.argv[1:]):
        found = faults(path)
        if found:
            sys.exit(f"{path.name}: " + "; ".join(found))
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, fit to be given away")


if __name__ == "__main__":
    main()
