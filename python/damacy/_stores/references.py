"""`ReferenceStore`: a document of references (kerchunk) as a store. The native library reads it."""

from __future__ import annotations

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class ReferenceStore:
    """A document of kerchunk (JSON of version 1) as a store: archived HDF5, NetCDF, GRIB or TIFF files are read where
    they are, as zarr arrays. Use it with `damacy.mount(prefix, store)`, or as `store=`.

    Args:
        uri: of the document: a path, or any uri that damacy reads. At most 64 MiB and 4,194,304 references.
        allow: prefixes of uris. The document may name objects of its own origin and bucket, and those below these
            prefixes. A local document may also name files; another one never may.

    The document is read when it is mounted, and kept. Objects are reached by the options that are mounted for their
    uris; mount options with `immutable=True` before the references. Mounting raises `NotFound` if there is no document,
    `InvalidArgument` (`uri`) if it names other objects, `DecodeError` if it is damaged, and `UnsupportedFormat`
    (`references`) for `templates`, `gen` and Parquet.

    >>> ReferenceStore("s3://bucket/era5.json", allow=["s3://archive/"])
    ReferenceStore(uri='s3://bucket/era5.json', allow=('s3://archive/',))
    """

    __module__ = "damacy"

    uri: str
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.uri, (str, os.PathLike)):
            raise TypeError(f"ReferenceStore: uri must be a str or a path (got {type(self.uri).__name__})")
        object.__setattr__(self, "uri", os.fspath(self.uri))
        if isinstance(self.allow, str) or not all(isinstance(each, str) for each in self.allow):
            raise TypeError('ReferenceStore: allow must be prefixes, each a str: allow=["s3://bucket/"]')
        object.__setattr__(self, "allow", tuple(self.allow))
