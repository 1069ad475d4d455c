"""Finds nvCOMP in Python packages. Does not import them or open the library; the native library does."""

from __future__ import annotations

import glob
import os

_PACKAGE = "nvidia.libnvcomp"  # of nvidia-libnvcomp-cu12 and -cu13
_NAMES = ("libnvcomp.so.6", "libnvcomp.so.5", "libnvcomp.so.*")
_FOLDERS = ("lib64", "lib", "bin")


def nvcomp_files() -> list[str]:
    """Files that may be nvCOMP, in the order to try them; empty if no package has one."""
    found: dict[str, None] = {}
    for name in _NAMES:
        for package in _package_folders():
            for folder in _FOLDERS:
                pattern = os.path.join(glob.escape(package), folder, name)
                found |= dict.fromkeys(sorted(glob.glob(pattern), reverse=True))
    return list(found)


def _package_folders() -> list[str]:
    import importlib.util  # here, so that importing damacy stays fast

    try:
        spec = importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):  # no nvidia package, or one without a spec
        return []
    return list((spec and spec.submodule_search_locations) or ())
