"""`Group` and `Plate`: mappings from names to the nodes below a zarr group, which are opened on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from damacy._core import log
from damacy._core.errors import DamacyError, InvalidArgument, NotFound
from damacy._open.arrays import Array, child_uri
from damacy._open.coordinates import interval
from damacy._open.images import Description, Image, as_image, description_from
from damacy._open.tree import html_of_group, tree_text


class Group(Mapping[str, Any]):
    """A zarr group: a mapping from the names of its arrays, images and groups to them, in natural order.

    ::

        era5 = damacy.open_group("era5.zarr")
        era5["t2m"].read((slice(0, 24), ...))
        start, stop = era5.box("time", "2000-01-01", "2001-01-01")

    * `uri`, `zarr_format`.
    * `attrs`: its attributes, read-only.

    Names come from the group's consolidated metadata if these name any, else from its directories. A node that was
    written after they were is not listed, and can be opened by its name. Where there are neither, as behind HTTP,
    listing raises `StorageError`, reason `listing`, and nodes are opened by their names.
    """

    def __init__(
        self,
        uri: str,
        zarr_format: int,
        attrs: Mapping[str, Any],
        ngff: Mapping[str, Any],
        opener: Callable[[str], Any],
    ) -> None:
        self.uri = uri
        self.zarr_format = zarr_format
        self.attrs = attrs
        self._ngff = ngff
        self._open = opener
        self._names: tuple[str, ...] | None = None

    @property
    def _labels(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self._ngff["labels"]
        return names

    @property
    def _description(self) -> Description:
        return description_from(self._ngff)

    def _members(self) -> tuple[str, ...]:
        from damacy import _native

        if self._names is None:
            with log.drained:
                self._names = tuple(_native.group_members(self.uri))
        return self._names

    def __getitem__(self, name: str) -> Any:
        """The node of that name, or of a path: `group["a/b"]`."""
        if not isinstance(name, str):
            raise TypeError(f"names of nodes are str (got {type(name).__name__})")
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise KeyError(f"{name!r} is not a path below the group")
        try:
            return self._open(child_uri(self.uri, name))
        except NotFound as error:
            try:
                members = self._members()
            except DamacyError as unlisted:
                raise KeyError(f"no node {name!r} in {self.uri}; {unlisted.message}") from None
            if name in members:
                raise KeyError(f"node {name!r} is listed in {self.uri} and cannot be opened: {error.message}") from None
            shown = ", ".join(map(repr, members[:20])) or "none"
            raise KeyError(f"no node {name!r} in {self.uri}; there are {shown}") from None

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            if "/" not in name and name in self._members():
                return True
        except DamacyError:  # they cannot be listed
            pass
        try:
            self[name]
        except (KeyError, DamacyError):
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __bool__(self) -> bool:
        """True, also of an empty group: nothing is listed."""
        return True

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        try:
            members = self._members()
        except DamacyError as error:
            return f"<damacy.{type(self).__name__} {self.uri}: {error.message}>"
        names = ", ".join(members[:8]) + (", …" if len(members) > 8 else "")
        return f"<damacy.{type(self).__name__} {self.uri}: {names or 'empty'}>"

    def tree(self) -> str:
        """The nodes below the group as text: at most 4 levels and 1,000 nodes."""
        return tree_text(self)

    __str__ = tree

    def _repr_html_(self) -> str:
        return html_of_group(self)

    def arrays(self) -> dict[str, Array]:
        """All arrays and images below the group, by path. Nodes that cannot be opened are left out."""
        found: dict[str, Array] = {}
        for name in self:
            try:
                node = self[name]
            except (DamacyError, KeyError):
                continue
            if isinstance(node, Array):
                found[name] = node
            else:
                found |= {f"{name}/{path}": array for path, array in node.arrays().items()}
        return found

    @property
    def variables(self) -> dict[str, Array]:
        """The arrays directly in the group, coordinates among them."""
        found = {}
        for name in self:
            try:
                node = self[name]
            except KeyError:  # consolidated metadata list it, and it is gone
                continue
            if isinstance(node, Array):
                found[name] = node
        return found

    @property
    def coords(self) -> dict[str, Array]:
        """The coordinates, as xarray finds them: arrays named as their only axis, and those that the attribute
        `coordinates` of a variable or of the group lists."""
        variables = self.variables
        listed: set[str] = set()
        for attributes in (self.attrs, *(array.attrs for array in variables.values())):
            if isinstance(names := attributes.get("coordinates"), str):
                listed |= set(names.split())
        return {name: array for name, array in variables.items() if array.dims == (name,) or name in listed}

    def box(self, dim: str, low: Any, high: Any) -> tuple[int, int]:
        """The interval of indices along `dim` whose coordinate lies in `low <= value < high`; None is open.

        The coordinate must be monotone. It may fall, as latitudes often do; `low` is the smaller value all the same.
        Bounds of times are dates: `box("time", "2000", "2016-07")` ends before July 2016. `ValueError` if `low` is
        above `high`. If no coordinate lies between them, start and stop are equal.
        """
        coordinate = self[dim]
        if not isinstance(coordinate, Array):
            raise TypeError(f"{dim!r} is no array")
        return interval(coordinate, low, high)


class Plate(Group):
    """An OME-NGFF plate. `rows`, `columns` and `wells` are names and paths as the metadata list them."""

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(self._ngff["plate"]["rows"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._ngff["plate"]["columns"])

    @property
    def wells(self) -> tuple[str, ...]:
        """Paths of the wells, `"A/1"`."""
        return tuple(self._ngff["plate"]["wells"])

    @property
    def fields(self) -> int | None:
        """The largest number of fields of a well, None if the metadata do not say."""
        count: int | None = self._ngff["plate"]["field_count"]
        return count

    @property
    def acquisitions(self) -> dict[int, str | None]:
        """Names of the acquisitions, by id."""
        return dict(self._ngff["plate"]["acquisitions"])

    @property
    def problems(self) -> tuple[str, ...]:
        """Where the metadata violate the specification, one line each."""
        return self._description.problems

    def images(self) -> Mapping[str, Image]:
        """The images of all wells by path, `"A/1/0"`. Reads the metadata of the wells; images are opened on access.

        Wells that the metadata list and that do not exist are left out.
        """
        paths = []
        for well in self.wells:
            try:
                group = self[well]
            except KeyError:
                continue
            if not isinstance(group, Group):
                raise InvalidArgument("is an array or an image, not a well", what="open", uri=group.uri, reason="group")
            fields = [path for path, _ in getattr(group, "_ngff", {"fields": []})["fields"]]
            paths += [f"{well}/{field}" for field in fields or group]
        return _Images(self, tuple(paths))


class _Images(Mapping[str, Image]):
    def __init__(self, plate: Plate, paths: tuple[str, ...]) -> None:
        self._plate, self._paths = plate, paths

    def __getitem__(self, path: str) -> Image:
        if path not in self._paths:
            raise KeyError(f"no image {path!r} in {self._plate.uri}")
        return as_image(self._plate[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __repr__(self) -> str:
        return f"<{len(self._paths)} images of {self._plate.uri}>"


# Pickles and tracebacks show damacy.Group.
Group.__module__ = "damacy"
Plate.__module__ = "damacy"
