"""What kind of remote file a url names, and which object of S3 an http(s) url of S3 is. Opens nothing."""

from __future__ import annotations

import enum
import re
import urllib.parse
from typing import Any

from damacy._core.errors import InvalidArgument

_AWS_HOST = re.compile(r"(?:(?P<bucket>.+)\.)?s3(?:[.-](?P<region>[a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?", re.ASCII)


class RemoteEndpointType(enum.IntEnum):
    """How a remote file is reached. `WEBHDFS` is not supported."""

    AUTO = 0
    S3 = 1
    S3_PUBLIC = 2
    S3_PRESIGNED_URL = 3
    WEBHDFS = 4
    HTTP = 5


def infer_remote_endpoint_type(url: str) -> RemoteEndpointType:
    """The kind of remote file that a url names, by its text alone.

    >>> infer_remote_endpoint_type("s3://bucket/key").name
    'S3'
    >>> infer_remote_endpoint_type("https://bucket.s3.us-east-1.amazonaws.com/key?X-Amz-Signature=1").name
    'S3_PRESIGNED_URL'

    Raises `InvalidArgument` for a url of another scheme.
    """
    if not isinstance(url, str):
        raise TypeError(f"url: expected a str (got {type(url).__name__})")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme.lower() == "s3":
        return RemoteEndpointType.S3
    if parts.scheme.lower() not in ("http", "https"):
        raise InvalidArgument(
            f"a remote file has a url of s3, http or https (got the scheme {parts.scheme!r})", reason="uri"
        )
    names = {name.lower() for name in urllib.parse.parse_qs(parts.query, keep_blank_values=True)}
    if "x-amz-signature" in names:
        return RemoteEndpointType.S3_PRESIGNED_URL
    if _AWS_HOST.fullmatch((parts.hostname or "").lower()):
        return RemoteEndpointType.S3
    if parts.path.startswith("/webhdfs/v1/"):
        return RemoteEndpointType.WEBHDFS
    return RemoteEndpointType.HTTP


def s3_object(url: str) -> tuple[str, dict[str, Any]]:
    """The `s3://` uri of an object, and the fields of `StoreOptions` that its http(s) url implies.

    >>> s3_object("https://bucket.s3.eu-west-1.amazonaws.com/a%20b")
    ('s3://bucket/a b', {'region': 'eu-west-1'})
    >>> s3_object("http://127.0.0.1:9000/bucket/key")
    ('s3://bucket/key', {'endpoint': 'http://127.0.0.1:9000'})
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme.lower() == "s3":
        return url, {}
    if parts.scheme.lower() not in ("http", "https"):
        raise InvalidArgument("an object of S3 has a url of s3, http or https", reason="uri")
    path = urllib.parse.unquote(parts.path.lstrip("/"))
    found = _AWS_HOST.fullmatch((parts.hostname or "").lower())
    if found is None:
        if "/" not in path:
            raise InvalidArgument("the url names no object: http(s)://HOST/BUCKET/KEY", reason="uri")
        return f"s3://{path}", {"endpoint": f"{parts.scheme}://{parts.netloc}"}
    fields = {"region": found["region"]} if found["region"] else {}
    return f"s3://{found['bucket']}/{path}" if found["bucket"] else f"s3://{path}", fields
