"""A server of a folder that speaks S3 and checks signatures by itself, with Python's hmac.

    with S3Server(folder, keys={"AKIDEXAMPLE": "secret"}) as server:
        options = damacy.StoreOptions(endpoint=server.url, access_key_id="AKIDEXAMPLE", secret_access_key="secret")

Folders of `folder` are buckets. Path style, and virtual style below `localhost`. Faults as in `fault_server`.
"""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import hmac
import itertools
import pathlib
import re
import time
import urllib.parse
from xml.sax.saxutils import escape

from support.fault_server import Answer, FaultServer, Request

_names = itertools.count(1)
EMPTY = hashlib.sha256(b"").hexdigest()


def another_name(folder: pathlib.Path, bucket: str = "bucket") -> str:
    """Another name of the bucket, for one test: what a process has opened keeps the store of the test before."""
    name = f"{bucket}-{next(_names)}"
    (folder / name).symlink_to(bucket)
    return name


def signature(request: Request, secret: str, signed: list[str], scope: list[str]) -> str:
    """What the request's signature must be."""
    path, _, query = request.target.partition("?")
    headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in signed)
    parts = sorted(query.split("&")) if query else []
    canonical = [request.method, path, "&".join(parts), headers, ";".join(signed)]
    canonical.append(request.headers.get("x-amz-content-sha256", ""))
    hashed = hashlib.sha256("\n".join(canonical).encode("latin-1")).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{request.headers.get('x-amz-date', '')}\n{'/'.join(scope)}\n{hashed}"
    key = b"AWS4" + secret.encode()
    for part in (*scope, to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class S3Server(FaultServer):
    def __init__(self, folder: pathlib.Path, keys: dict[str, str] | None = None, region: str = "us-east-1") -> None:
        self.keys = keys or {}
        self.region = region
        self.token: str | None = None  # sessions must have it
        self.public: set[str] = set()  # buckets that all may read
        self.clock_offset = 0.0
        self.page = 1000  # names of a listing
        self.may_list = True  # if not, absent keys are denied, too
        self.has_listings = True
        self.says_region = True  # in the answer to HEAD of a bucket
        super().__init__(folder)

    def _usual(self, request: Request) -> Answer:
        path, _, query = request.target.partition("?")
        bucket, _, key = urllib.parse.unquote(path.lstrip("/")).partition("/")
        host = request.headers.get("host", "")
        if host.partition(":")[0].endswith(".localhost"):
            bucket, key = host.partition(".")[0], urllib.parse.unquote(path[1:])
        if request.method == "HEAD":
            region = {"x-amz-bucket-region": self.region} if self.says_region else {}
            return Answer("403 Forbidden", {"Content-Length": "0", **region}, b"")
        refusal = self._refusal(request, bucket)
        if refusal:
            return refusal
        if not (self.folder / bucket).is_dir():
            return self.error(404, "NoSuchBucket", request)
        if "list-type=2" in query:
            return self._listing(request, bucket, dict(urllib.parse.parse_qsl(query)))
        if not (self.folder / bucket / key).is_file():
            if self.may_list:
                return self.error(404, "NoSuchKey", request)
            return self.error(403, "AccessDenied", request)
        return super()._usual(Request(request.number, f"{bucket}/{key}", request.headers))

    def error(self, status: int, code: str, request: Request, more: str = "") -> Answer:
        secrets = f"<StringToSign>{escape(str(request.headers))}</StringToSign>"  # as S3 does
        inner = f"<Code>{code}</Code><Message>about {code}</Message>{more}{secrets}"
        body = f'<?xml version="1.0"?>\n<Error>{inner}</Error>'
        headers = {"Content-Length": str(len(body)), "x-amz-request-id": f"REQ{request.number}", "Date": self._date()}
        return Answer(f"{status} Refused", headers, body.encode())

    def _now(self) -> float:
        return time.time() + self.clock_offset

    def _date(self) -> str:
        return email.utils.formatdate(self._now(), usegmt=True)

    def _refusal(self, request: Request, bucket: str) -> Answer | None:
        given = request.headers.get("authorization")
        if given is None:
            return None if bucket in self.public else self.error(403, "AccessDenied", request)
        pattern = r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
        found = re.fullmatch(pattern, given)
        if not found:
            return self.error(400, "AuthorizationHeaderMalformed", request)
        scope, signed = found[2].split("/"), found[3].split(";")
        date = request.headers.get("x-amz-date", "")
        assert len(scope) == 4 and scope[0] == date[:8] and scope[2:] == ["s3", "aws4_request"]
        assert {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed) and signed == sorted(signed)
        assert all(name in signed for name in request.headers if name.startswith("x-amz-"))
        assert request.headers["x-amz-content-sha256"] == EMPTY
        when = datetime.datetime.strptime(date, "%Y%m%dT%H%M%S%z").timestamp()
        if found[1] not in self.keys:
            return self.error(403, "InvalidAccessKeyId", request)
        if scope[1] != self.region:
            more = f"<Region>{self.region}</Region>"
            return self.error(400, "AuthorizationHeaderMalformed", request, more)
        if abs(when - self._now()) > 900:
            return self.error(403, "RequestTimeTooSkewed", request)
        if found[4] != signature(request, self.keys[found[1]], signed, scope):
            return self.error(403, "SignatureDoesNotMatch", request)
        if request.headers.get("x-amz-security-token") != self.token:
            return self.error(400, "ExpiredToken", request)
        return None

    def _listing(self, request: Request, bucket: str, query: dict[str, str]) -> Answer:
        if not self.may_list or not self.has_listings:
            return self.error(403, "AccessDenied", request)
        prefix, delimiter = query.get("prefix", ""), query["delimiter"]
        root = self.folder / bucket
        names = {}
        for file in root.rglob("*"):
            key = file.relative_to(root).as_posix()
            if file.is_file() and key.startswith(prefix):
                name, more, _ = key[len(prefix) :].partition(delimiter)
                names[prefix + name + more] = bool(more)
        start = query.get("continuation-token", "")
        left = sorted(name for name in names if name > start)
        shown, rest = left[: self.page], left[self.page :]
        parts = [
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            if names[name]
            else f"<Contents><Key>{escape(name)}</Key><Size>1</Size></Contents>"
            for name in shown
        ]
        parts.append(f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>")
        if rest:
            parts.append(f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>")
        body = f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{"".join(parts)}</ListBucketResult>'
        return Answer("200 OK", {"Content-Length": str(len(body.encode()))}, body.encode())
