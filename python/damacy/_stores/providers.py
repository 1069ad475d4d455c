"""Calls what gives credentials: callables, providers of obstore, and botocore."""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Callable
from typing import Any

_WAIT_S = 60.0  # for a coroutine that gives credentials

Given = tuple[str, str, str, str, int]  # key id, secret, session token, bearer token, expiry (0: never)


def provider_of(credentials: Callable[[], Any] | str, profile: str | None) -> Callable[[], Given | str]:
    """What the native library calls. It returns why it failed as a text without secrets: an exception's traceback might
    hold some."""
    ask = _botocore(profile) if credentials == "botocore" else credentials
    assert callable(ask)

    def call() -> Given | str:
        try:
            found = ask()
            if inspect.isawaitable(found):
                found = _awaited(found)
            return _given(found)
        except Exception as error:
            from damacy._stores.failures import text_of

            return f"the credentials callable failed: {text_of(error)}"

    return call


def _awaited(found: Any) -> Any:
    from damacy._stores.loops import run_on_ours

    result: list[Any] = []

    async def wait() -> None:
        result.append(await found)

    run_on_ours(wait()).result(_WAIT_S)
    return result[0]


def _given(found: Any) -> Given | str:
    if not isinstance(found, dict):
        return f"the credentials callable must return a dict (got {type(found).__name__})"
    key, secret, token = (found.get(name) for name in ("access_key_id", "secret_access_key", "token"))
    parts = (key or "", secret or "", (token or "") if key else "", "" if key else (token or ""))
    if not all(isinstance(part, str) and part.isprintable() for part in parts):
        return "the credentials callable must return printable str values"
    expires = found.get("expires_at")
    if isinstance(expires, datetime.datetime):
        if expires.tzinfo is None:
            expires = expires.replace(tzinfo=datetime.UTC)
        expires = expires.timestamp()
    if expires is not None and not isinstance(expires, (int, float)):
        return f"expires_at must be a datetime (got {type(expires).__name__})"
    return (*parts, int(expires or 0))


def _botocore(profile: str | None) -> Callable[[], Any]:
    """botocore's own chain, with SSO, `credential_process` and `source_profile`. It refreshes by itself, so what it
    gives is asked for again after 15 minutes."""
    sessions: dict[int, Any] = {}  # by process: a forked child must not use its parent's connections

    def ask() -> Any:
        process = os.getpid()
        if process not in sessions:
            import botocore.session  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

            sessions[process] = botocore.session.Session(profile=profile)
        found = sessions[process].get_credentials()
        if found is None:
            raise LookupError("botocore found no credentials")
        frozen = found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=15),
        }

    return ask
