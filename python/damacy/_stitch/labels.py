"""Lists a label in the group `labels` of its OME-Zarr image, of NGFF 0.5 or 0.4. Knows their documents; not arrays."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

# What the document of a label says of its image, in addition to `multiscales`.
IMAGE_LABEL = {"version": "0.5", "source": {"image": "../../"}}


def is_label(path: pathlib.Path) -> bool:
    """Whether a path is in the folder `labels` of an OME-Zarr image."""
    return path.parent.name == "labels" and _version_of(path.parent.parent) is not None


def add_label(path: pathlib.Path) -> None:
    """Add a label to the list of its image, and make the group `labels` if there is none. `ValueError` if the document
    of the list is damaged."""
    labels = path.parent
    if _version_of(labels.parent) == "0.5":
        file = labels / "zarr.json"
        document = _read(file) or {"zarr_format": 3, "node_type": "group"}
        holder = document.setdefault("attributes", {}).setdefault("ome", {"version": "0.5"})
    else:
        if not (labels / ".zgroup").exists():
            _write(labels / ".zgroup", {"zarr_format": 2})
        file = labels / ".zattrs"
        document = holder = _read(file) or {}
    names = holder.setdefault("labels", [])
    if not isinstance(names, list):
        raise ValueError(f"{file}: labels is no list: the label is written, and not listed")
    if path.name not in names:
        names.append(path.name)
        _write(file, document)


def _version_of(image: pathlib.Path) -> str | None:
    """0.5 or 0.4; None if there is no OME-Zarr image."""
    try:
        if "multiscales" in ((_read(image / "zarr.json") or {}).get("attributes") or {}).get("ome", {}):
            return "0.5"
        return "0.4" if "multiscales" in (_read(image / ".zattrs") or {}) else None
    except (ValueError, AttributeError, TypeError):
        return None


def _read(file: pathlib.Path) -> dict[str, Any] | None:
    """None if there is no such file."""
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{file} is no JSON: the label is written, and not listed: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} is no JSON object: the label is written, and not listed")
    return found


def _write(file: pathlib.Path, document: dict[str, Any]) -> None:
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.partial")
    unfinished.write_text(json.dumps(document, indent=2))
    unfinished.replace(file)
