"""Converts what stores raise to answers: absence, a changed object, or a storage error without secrets."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from damacy._native import StoreAnswer

_MOST_TEXT = 400
_MOST_CAUSES = 8
_URL = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#"'<>@]*@)?([^\s?#"'<>]*)([?#][^\s"'<>]*)?""")
_ELEMENT = re.compile(
    r"<(\w*(?:Token|StringToSign\w*|CanonicalRequest\w*|Signature\w*|AccessKeyId))>.*?</\1>", re.DOTALL | re.IGNORECASE
)
_PAIR = re.compile(
    r"""(?i)((?:\b|_)(?:[\w-]*(?:signature|secret|password|token|credential|api[_-]?key|access[_-]?key)[\w-]*|sig|authorization))"""
    r"""(["']?\s*[=:]\s*)((?:bearer\s+|basic\s+)?["']?[^\s"'&,;})\]]+)"""
)


class Changed(Exception):
    """The object is no longer the version that was opened."""


def masked(text: str) -> str:
    """`text` without user info and queries of urls, and without values that are named like secrets.

    >>> masked("GET https://me:pw@host/a?sig=abc failed")
    'GET https://***@host/a?*** failed'
    >>> masked("denied: AWS_SECRET_ACCESS_KEY=abc; password: 'x'")
    "denied: AWS_SECRET_ACCESS_KEY=***; password: ***'"
    """
    text = _ELEMENT.sub(r"<\1>***</\1>", text)
    text = _URL.sub(lambda m: m[1] + ("***@" if m[2] else "") + m[3] + ("?***" if m[4] else ""), text)
    return _PAIR.sub(r"\1\2***", text)


def _mask_in_place(error: BaseException) -> None:
    """Masks the texts of an exception and of its causes, which users see in the traceback."""
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if seen is None:
            return
        try:
            seen.args = tuple(masked(each) if isinstance(each, str) else each for each in seen.args)
            if isinstance(seen, OSError) and isinstance(seen.strerror, str):
                seen.strerror = masked(seen.strerror)
        except Exception:  # a class that does not let its args be set
            pass
        seen = seen.__cause__ or seen.__context__


def text_of(error: BaseException) -> str:
    """One line for the message of an error: the class and the masked text, without obstore's debug output."""
    try:
        text = str(error)
    except Exception:
        text = ""
    text = " ".join(masked(text.partition("\n\nDebug source:")[0]).split())
    if len(text) > _MOST_TEXT:
        text = text[:_MOST_TEXT] + "..."
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def answer_failure(answer: StoreAnswer, what: str, error: BaseException) -> None:
    """Answers a request that raised `error`. An object that is not there is absent, except one that is being read."""
    if isinstance(error, FileNotFoundError):
        if what != "read":
            answer.absent()
            return
        error = Changed("the object was removed while it was read")
    if isinstance(error, Changed):
        answer.fail(str(error), "changed", None, None)
        return
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, PermissionError) and number is None:
        number = errno.EACCES
    message = f"the store failed to {_VERBS[what]}: {text_of(error)}"
    _mask_in_place(error)
    answer.fail(message, "io", number, error)


_VERBS = {"open": "open the object", "stamp": "look up the object", "read": "read the object", "list": "list"}
