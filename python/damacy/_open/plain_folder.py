"""A folder or prefix that is no group, with the arrays and groups in it: what `ls` and `info` show of it."""

from __future__ import annotations

from damacy._core.errors import DamacyError, NotFound
from damacy._open.arrays import Array
from damacy._open.groups import Group
from damacy._open.opening import open as open_node


class Folder(Group):
    """A mapping from the names of the arrays and groups directly inside to them."""


def open_node_or_folder(uri: str) -> Array | Group:
    """As `damacy.open`; also a folder without a document, if it has arrays or groups directly inside."""
    try:
        return open_node(uri)
    except NotFound:
        folder = Folder(uri.rstrip("/") or uri, 0, {}, {}, open_node)
        try:
            has_members = len(folder) > 0
        except DamacyError:
            has_members = False
        if not has_members:
            raise
        return folder
