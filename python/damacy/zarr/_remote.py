"""Native stores in place of zarr-python's `ObjectStore`, where its url and options can be read. Knows the options of
obstore that damacy has, too; asks no server."""

from __future__ import annotations

import os
import weakref
from typing import Any

from damacy._core.errors import InvalidArgument
from damacy._stores.options import StoreOptions

# Names of obstore's configuration, without a leading "aws_", and fields of `StoreOptions`.
_S3_FIELDS = {
    "region": "region",
    "endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "token": "session_token",
}
_NO_MATTER = {"allow_http", "timeout", "connect_timeout", "user_agent", "pool_idle_timeout"}  # of client options

_made: dict[tuple[int, int], tuple[weakref.ref[Any], Any]] = {}  # by process and id of the store


def native_store(store: Any) -> Any:
    """A native store of the same objects; None if the store is another one, or has options that damacy lacks.

    One for each `ObjectStore` and process, so that what it knows of objects is kept."""
    import zarr

    if zarr.config.get("damacy.remote", None) != "native" or type(store).__name__ != "ObjectStore":
        return None
    name = os.getpid(), id(store)
    known = _made.get(name)
    if known is None or known[0]() is not store:
        known = _made[name] = weakref.ref(store, lambda _: _made.pop(name, None)), _make(store.store)
    return known[1]


def _make(target: Any) -> Any:
    from damacy import _native

    found = location_of(target)
    if found is None:
        return None
    uri, options = found
    return _native.remote_store(uri, options._for_native())


def location_of(target: Any) -> tuple[str, StoreOptions] | None:
    """The uri of the root of an obstore store, and the options that reach it. None: they cannot be read."""
    kind = type(target)
    if kind.__module__.partition(".")[0] != "obstore" or kind.__name__ not in ("HTTPStore", "S3Store"):
        return None
    if set(target.client_options or ()) - _NO_MATTER:
        return None
    if kind.__name__ == "HTTPStore":
        url = str(target.url)
        return (url, StoreOptions()) if "?" not in url and "@" not in url else None
    return _location_in_s3(target)


def _location_in_s3(target: Any) -> tuple[str, StoreOptions] | None:
    config = {name.lower().removeprefix("aws_"): value for name, value in target.config.items()}
    bucket = config.pop("bucket", None) or config.pop("bucket_name", None)
    fields: dict[str, Any] = {}
    if config.pop("skip_signature", "false") in ("true", True):
        fields["anonymous"] = True
    if (virtual := config.pop("virtual_hosted_style_request", None)) is not None:
        fields["addressing"] = "virtual" if virtual in ("true", True) else "path"
    elif "endpoint" not in config and "endpoint_url" not in config:
        fields["addressing"] = "path"
    if target.credential_provider is not None:
        fields["credentials"] = target.credential_provider
    if not bucket or set(config) - set(_S3_FIELDS):
        return None
    fields |= {_S3_FIELDS[name]: str(value) for name, value in config.items()}
    prefix = str(target.prefix or "").strip("/")
    try:
        return f"s3://{bucket}/{prefix}".rstrip("/"), StoreOptions(**fields)
    except InvalidArgument:
        return None
