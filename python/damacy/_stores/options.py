"""`StoreOptions`: how a remote store is reached. The native library checks the values and applies them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NoReturn

_SECRETS = ("access_key_id", "secret_access_key", "session_token", "bearer_token")


class Secret:
    """A secret for a field of `StoreOptions`, whose text is masked.

    >>> Secret("abc")
    Secret('***')

    With `picklable=True` options that hold it can be pickled, for example to be sent to worker processes. The pickle
    then holds the secret.
    """

    __module__ = "damacy"

    __slots__ = ("_value", "picklable")

    def __init__(self, value: str, *, picklable: bool = False) -> None:
        if not isinstance(value, str):
            raise TypeError(f"Secret takes a str (got {type(value).__name__})")
        self._value = value
        self.picklable = bool(picklable)

    def reveal(self) -> str:
        """The secret itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> Any:
        if not self.picklable:
            raise TypeError("a Secret is pickled only with picklable=True")
        return _secret, (self._value,)


def _secret(value: str) -> Secret:
    return Secret(value, picklable=True)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class StoreOptions:
    """How objects behind `s3://`, `gs://` and `http(s)://` are reached. Fields that are not set come from the
    environment, then the default. Use them with `damacy.mount(prefix, options)`, or as `store=`. Fields of S3 count for
    `gs://`, too, except `profile` and `request_payer`.

    >>> StoreOptions(endpoint="http://127.0.0.1:9000", access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="abc")
    StoreOptions(endpoint='http://127.0.0.1:9000', access_key_id='***MPLE', secret_access_key='***')
    """

    __module__ = "damacy"

    endpoint: str | None = None
    """S3: `http(s)://HOST[:PORT]` of a compatible service."""
    region: str | None = None
    """S3: where the bucket is. By default the environment, the profile, or what the service says; of `gs://` `auto`."""
    addressing: str = "auto"
    """S3: `path`, `virtual`, or `auto`: path with an endpoint or a dot in the bucket's name."""
    anonymous: bool | None = None
    """S3: True never signs, False requires credentials, None signs if credentials are found."""
    credentials: Callable[[], Any] | str | None = None
    """S3: a callable that returns credentials as the providers of obstore do, or `"botocore"`."""
    profile: str | None = None
    """S3: a profile of the files of AWS."""
    access_key_id: str | Secret | None = None
    secret_access_key: str | Secret | None = None
    session_token: str | Secret | None = None
    bearer_token: str | Secret | None = None
    """Sent as `Authorization: Bearer`."""
    request_payer: bool = False
    """S3: who asks pays."""
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP(S): names and values that each request carries. The values are secrets."""
    absent_status: tuple[int, ...] = (404,)
    """Of 403, 404 and 410: which answers mean that an object is absent. 403 of S3 counts only as `AccessDenied` or
    without a body, and for requests that are signed, or unsigned because of `anonymous`."""
    proxy: str | None = None
    """A proxy's url, or `""` for none. By default `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`."""
    ca_file: str | None = None
    """A file of CA certificates."""
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 20.0
    """From the request to the first byte of the answer."""
    stall_timeout_s: float = 20.0
    """Ends an attempt that receives less than 1 KiB/s for so long."""
    deadline_s: float = 60.0
    """Of a read with all its attempts, and one second more for each MB."""
    attempts: int = 6
    max_requests: int = 256
    """Under way to one origin, from this process, at most: as many are as pay. More wait for their turn."""
    redirects: int = 0
    """HTTP(S): so many redirects are followed, 0 to 5. Headers and tokens go only to the origin that was named."""
    request_bytes: int = 8 << 20
    """Larger reads are divided into equal requests that are under way together; 64 KiB to 64 MiB."""
    gap_bytes: int | None = None
    """Reads of one shard that are as near to each other become one request of up to 1 MiB, at most a quarter of it
    gaps; 0 to 1 MiB. By default gaps of up to 4 KiB are read."""
    hedge: str = "auto"
    """`on` sends a request once more if its first byte is late, by what is usual there; the first answer counts.
    At most one request in fifty. `off`; `auto`: on for S3 and GCS without `endpoint`."""
    revalidate_s: float = 60.0
    """For so long the version of an object is believed to be the current one."""
    immutable: bool = False
    """Objects never change: their version is not looked up again."""
    allow_unversioned: bool = False
    """Accept answers with neither a strong ETag nor Last-Modified. A change of the object is then not noticed."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._checked(field.name, getattr(self, field.name)))
        from damacy import _native

        _native.check_store_options(self._for_native())

    def _checked(self, name: str, value: Any) -> Any:
        def refuse(wanted: str) -> NoReturn:
            raise TypeError(f"StoreOptions.{name}: must be {wanted} (got {type(value).__name__})")

        if name in ("request_payer", "immutable", "allow_unversioned"):
            return value if isinstance(value, bool) else refuse("a bool")
        if name == "anonymous":
            return value if value is None or isinstance(value, bool) else refuse("a bool or None")
        if name in ("attempts", "max_requests", "redirects", "request_bytes"):
            return value if isinstance(value, int) and not isinstance(value, bool) else refuse("an int")
        if name == "gap_bytes":
            is_int = isinstance(value, int) and not isinstance(value, bool)
            return value if value is None or is_int else refuse("an int or None")
        if name.endswith("_s"):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return float(value) if is_number else refuse("a number")
        if name == "absent_status":
            numbers = tuple(value) if isinstance(value, (tuple, list, set, frozenset)) else refuse("a tuple of ints")
            return numbers if all(type(each) is int for each in numbers) else refuse("a tuple of ints")
        if name == "headers":
            pairs = value.items() if isinstance(value, dict) else value
            if not isinstance(value, (dict, tuple, list)) or not all(_is_pair(each) for each in pairs):
                refuse("pairs of str")
            return tuple((key, text) for key, text in pairs)
        if name == "credentials":
            if isinstance(value, str) and value != "botocore":
                raise ValueError('StoreOptions.credentials: must be a callable or "botocore"')
            return value if value is None or isinstance(value, str) or callable(value) else refuse("a callable")
        if name in _SECRETS and isinstance(value, Secret):
            return value
        if name in ("addressing", "hedge"):
            return value if isinstance(value, str) else refuse("a str")
        return value if value is None or isinstance(value, str) else refuse("a str or None")

    def _for_native(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in _SECRETS:
            if isinstance(fields[name], Secret):
                fields[name] = fields[name].reveal()
        if self.credentials is not None:
            from damacy._stores.providers import provider_of

            fields["credentials"] = provider_of(self.credentials, self.profile)
            if self.credentials == "botocore":
                fields["profile"] = None
        return fields

    def __repr__(self) -> str:
        parts = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if field.name == "access_key_id":
                text = value.reveal() if isinstance(value, Secret) else value
                shown = repr("***" + (text[-4:] if len(text) >= 16 else ""))
            elif field.name in _SECRETS:
                shown = "'***'"
            elif field.name == "headers":
                shown = repr(tuple((name, "***") for name, _ in value))
            elif field.name in ("proxy", "endpoint"):
                from damacy._stores.failures import masked

                shown = repr(masked(value))
            elif field.name == "credentials" and callable(value):
                kind = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
                shown = f"<{kind.__module__}.{kind.__qualname__}>"
            else:
                shown = repr(value)
            parts.append(f"{field.name}={shown}")
        return f"StoreOptions({', '.join(parts)})"

    def __copy__(self) -> StoreOptions:
        return self

    def __deepcopy__(self, memo: Any) -> StoreOptions:
        return self

    def __reduce__(self) -> Any:
        for name in _SECRETS[1:]:  # the id of a key is no secret
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Secret) and value.picklable):
                raise TypeError(
                    f"StoreOptions holds {name}: use a profile, the environment, a callable, or "
                    "damacy.Secret(value, picklable=True)"
                )
        if self.headers:
            raise TypeError("StoreOptions holds headers, whose values are secrets: make them in each process")
        if self.proxy is not None and "@" in self.proxy:
            raise TypeError("StoreOptions holds a proxy with user info: use the environment")
        return _made, ({field.name: getattr(self, field.name) for field in dataclasses.fields(self)},)


_NOT_YET = {
    "account": "Azure is reached through a store of obstore: damacy.mount(obstore.store.AzureStore(...))",
    "sas_token": "Azure is reached through a store of obstore: damacy.mount(obstore.store.AzureStore(...))",
}
_init = StoreOptions.__init__


@functools.wraps(_init)
def _checked_init(self: StoreOptions, **fields: Any) -> None:
    for name in fields:
        if name in _NOT_YET:
            raise TypeError(f"StoreOptions.{name} is not supported: {_NOT_YET[name]}")
    _init(self, **fields)


StoreOptions.__init__ = _checked_init  # type: ignore[method-assign]  # a dataclass has no other place


def _made(fields: dict[str, Any]) -> StoreOptions:
    return StoreOptions(**fields)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(each, str) for each in value)
