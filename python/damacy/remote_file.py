"""Files of remote stores: ranges of an object behind http(s) or in S3, read into host and GPU memory.

>>> from damacy.remote_file import RemoteFile
>>> with RemoteFile.open_http("https://data.example.org/volume.bin", nbytes=1 << 30) as f:  # doctest: +SKIP
...     buffer = bytearray(4096)
...     f.read(buffer, file_offset=1 << 20)
4096

The names are those of KvikIO's `kvikio.remote_file`. Nothing is installed except libcurl, which is loaded at the first
file.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from damacy import _native, defaults
from damacy._core.errors import InvalidArgument
from damacy._core.log import drained
from damacy._fileio.future import IOFuture
from damacy._fileio.remote_endpoints import RemoteEndpointType as RemoteEndpointType
from damacy._fileio.remote_endpoints import infer_remote_endpoint_type as infer_remote_endpoint_type
from damacy._fileio.remote_endpoints import s3_object
from damacy._stores.options import StoreOptions

for _public in (RemoteEndpointType, infer_remote_endpoint_type):
    _public.__module__ = __name__

_Type = RemoteEndpointType
_TRIED = (_Type.S3, _Type.S3_PUBLIC, _Type.S3_PRESIGNED_URL, _Type.HTTP)


def is_remote_file_available() -> bool:
    """Whether a libcurl can be loaded. It stays loaded."""
    try:
        _native.libcurl_facts()
    except InvalidArgument:
        return False
    return True


class RemoteFile(_native.RemoteFile):
    """One object behind http(s), in S3 or in a mounted store, opened for reads at positions.

    Made by the `open` functions. With `nbytes`, the size in bytes, opening makes no request; else one of one byte
    finds it. The first answer fixes the version of the object: a later one of another version raises `StorageError`,
    reason `changed`.

    The settings `http_max_attempts`, `http_timeout`, `http_status_codes` of `damacy.defaults` apply, unless there are
    `StoreOptions`, given or mounted for the url.
    """

    def __init__(
        self,
        url: str,
        nbytes: int | None = None,
        options: StoreOptions | None = None,
        *,
        remote_endpoint_type: RemoteEndpointType = _Type.HTTP,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"url: expected a str (got {type(url).__name__})")
        if options is not None and not isinstance(options, StoreOptions):
            raise TypeError(f"options: expected StoreOptions (got {type(options).__name__})")
        size = None if nbytes is None else operator.index(nbytes)
        if size is not None and not 0 <= size < 1 << 63:
            raise ValueError(f"nbytes: expected 0 to 2^63 - 1 (got {size})")
        self._type = _Type(remote_endpoint_type)
        with drained:
            super().__init__(
                url,
                size,
                None if options is None else options._for_native(),
                min(int(defaults.get("http_max_attempts")), 20),
                float(defaults.get("http_timeout")),
                list(defaults.get("http_status_codes")),
            )

    @classmethod
    def open(
        cls,
        url: str,
        remote_endpoint_type: RemoteEndpointType = _Type.AUTO,
        allow_list: Sequence[RemoteEndpointType] | None = None,
        nbytes: int | None = None,
    ) -> RemoteFile:
        """Open a url as `remote_endpoint_type`, or as the kind that `infer_remote_endpoint_type` finds.

        Raises `InvalidArgument` if that is not in `allow_list`.
        """
        kind = _Type(remote_endpoint_type)
        found = infer_remote_endpoint_type(url) if kind == _Type.AUTO else kind
        allowed = _TRIED if allow_list is None else tuple(_Type(each) for each in allow_list)
        if found == _Type.WEBHDFS:
            return cls.open_webhdfs(url, nbytes)
        if found not in allowed and not (found == _Type.S3 and _Type.S3_PUBLIC in allowed):
            names = ", ".join(each.name for each in allowed)
            raise InvalidArgument(f"the url names a remote file of {found.name}, allowed are {names}", reason="uri")
        if found == _Type.S3_PUBLIC or found not in allowed:
            return cls.open_s3_public(url, nbytes)
        if found == _Type.S3:
            return cls.open_s3_url(url, nbytes)
        if found == _Type.S3_PRESIGNED_URL:
            return cls.open_s3_presigned_url(url, nbytes)
        return cls.open_http(url, nbytes)

    @classmethod
    def open_url(cls, url: str, options: StoreOptions | None = None, nbytes: int | None = None) -> RemoteFile:
        """Open any uri that damacy reads: `http(s)://`, `s3://` and `gs://BUCKET/KEY`, or one of a mounted store."""
        is_web = isinstance(url, str) and url.lower().startswith(("http://", "https://", "s3://"))
        kind = infer_remote_endpoint_type(url) if is_web else _Type.HTTP
        return cls(url, nbytes, options, remote_endpoint_type=kind)

    @classmethod
    def open_http(cls, url: str, nbytes: int | None = None) -> RemoteFile:
        """Open an `http(s)://` url, which may have a query."""
        return cls(url, nbytes)

    @classmethod
    def open_s3(
        cls,
        bucket_name: str,
        object_name: str,
        nbytes: int | None = None,
        aws_region_name: str | None = None,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_endpoint_url: str | None = None,
        aws_session_token: str | None = None,
    ) -> RemoteFile:
        """Open an object of S3. What is not given comes from the environment, profiles etc., as for `s3://` uris."""
        return cls.open_s3_url(
            f"s3://{bucket_name}/{object_name}",
            nbytes,
            aws_region_name,
            aws_access_key_id,
            aws_secret_access_key,
            aws_endpoint_url,
            aws_session_token,
        )

    @classmethod
    def open_s3_url(
        cls,
        url: str,
        nbytes: int | None = None,
        aws_region_name: str | None = None,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_endpoint_url: str | None = None,
        aws_session_token: str | None = None,
    ) -> RemoteFile:
        """Open an object of S3 by `s3://BUCKET/KEY`, or by an http(s) url of S3 or of a compatible service."""
        uri, implied = s3_object(url)
        given = {
            "region": aws_region_name,
            "access_key_id": aws_access_key_id,
            "secret_access_key": aws_secret_access_key,
            "endpoint": aws_endpoint_url,
            "session_token": aws_session_token,
        }
        fields: dict[str, Any] = implied | {name: value for name, value in given.items() if value is not None}
        return cls(uri, nbytes, StoreOptions(**fields) if fields else None, remote_endpoint_type=_Type.S3)

    @classmethod
    def open_s3_public(cls, url: str, nbytes: int | None = None) -> RemoteFile:
        """Open an object of a public bucket: requests are not signed."""
        uri, implied = s3_object(url)
        return cls(uri, nbytes, StoreOptions(anonymous=True, **implied), remote_endpoint_type=_Type.S3_PUBLIC)

    @classmethod
    def open_s3_presigned_url(cls, presigned_url: str, nbytes: int | None = None) -> RemoteFile:
        """Open a presigned url. Its query is a secret: no text shows it."""
        return cls(presigned_url, nbytes, remote_endpoint_type=_Type.S3_PRESIGNED_URL)

    @classmethod
    def open_webhdfs(cls, url: str, nbytes: int | None = None) -> RemoteFile:
        """Not supported."""
        raise RuntimeError("WebHDFS is not supported: use http(s):// or s3://")

    def remote_endpoint_type(self) -> RemoteEndpointType:
        return self._type

    def read(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
        exact: bool = False,
    ) -> int:
        """Read `size` bytes (default: the buffer's size) at `file_offset`; returns how many there were.

        The read stops at the end of the file; with `exact`, it then raises `ShortReadError`. `buf` is host or GPU
        memory, or a list of buffers to fill in order. `task_size` is the size of a request, 4 MiB by default.
        """
        with drained:
            return self.read_parsed(buf, size, file_offset, task_size, stream, bool(exact))

    def pread(
        self,
        buf: Any,
        size: int | None = None,
        file_offset: int = 0,
        task_size: int | None = None,
        *,
        stream: Any = None,
        exact: bool = False,
    ) -> IOFuture:
        """As `read`, but returns a future at once."""
        return self.begin_read(buf, size, file_offset, task_size, stream, bool(exact))

    def preadv_packed(
        self,
        buf: Any,
        sizes: Any,
        file_offsets: Any,
        buf_offsets: Any = None,
        *,
        exact: bool = False,
        stream: Any = None,
    ) -> IOFuture:
        """Starts to read many ranges into one buffer; arguments as for `CuFile.preadv_packed`."""
        return self.begin_packed(buf, sizes, file_offsets, buf_offsets, bool(exact), stream)

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<damacy.RemoteFile {self.name!r}, {self.nbytes()} bytes{', closed' if self.closed else ''}>"
