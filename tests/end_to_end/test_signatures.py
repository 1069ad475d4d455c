"""Signed requests against botocore, which signs what it finds in each of them. `--cases 10000` for so many requests."""

import random
import urllib.parse

import pytest

import damacy

auth = pytest.importorskip(
    "botocore.auth", reason="SIGNATURES ARE NOT COMPARED WITH BOTOCORE: pip install botocore", exc_type=ImportError
)

from botocore.awsrequest import AWSRequest  # noqa: E402
from botocore.credentials import Credentials  # noqa: E402
from botocore.utils import percent_encode  # noqa: E402
from support.fault_server import Answer, FaultServer  # noqa: E402

REGIONS = ("us-east-1", "eu-central-2", "ap-southeast-3", "us-gov-west-1")
LETTERS = "abcXYZ0189-_.~ !*'()+=&@:,;$?#%[]{}|^`\"<>\\éß日本😀\u0301"
SECRETS = "abcdefABCDEF0123456789+/="
AT_ONCE = 100


class EmptyBuckets(FaultServer):
    def _usual(self, request):
        body = b"<Error><Code>NoSuchKey</Code></Error>"
        if "list-type=2" in request.target:
            body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            return Answer("200 OK", {"Content-Length": str(len(body))}, body)
        return Answer("404 Not Found", {"Content-Length": str(len(body))}, body)


def text_of(rng, letters, least, most):
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def key_of(rng):
    """Up to 1,000 bytes, without segments that are empty or dots."""
    segments = [text_of(rng, LETTERS, 1, rng.choice([3, 20, 200])) for _ in range(rng.randint(1, 5))]
    key = "/".join(f"x{segment}x" for segment in segments)
    while len(key.encode()) > 1000:
        key = key[: len(key) // 2].rstrip("/")
    return key


def signature_of(request, keys, region):
    """By botocore, of the headers that the request says are signed."""
    given = request.headers["authorization"]
    signed = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    url = f"http://{request.headers['host']}{request.target}"
    theirs = AWSRequest(method=request.method, url=url, headers={name: request.headers[name] for name in signed})
    theirs.context["timestamp"] = request.headers["x-amz-date"]
    signer = auth.S3SigV4Auth(keys, "s3", region)
    string = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    scope = signer.scope(theirs)
    signature = signer.signature(string, theirs)
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={';'.join(signed)}, Signature={signature}"


@pytest.mark.timeout(600)
def test_botocore_signs_the_same(tmp_path, request):
    rng = random.Random(request.config.getoption("--case-seed") or 0)
    wanted = request.config.getoption("--cases") or 1000
    compared, encoded = 0, 0
    with EmptyBuckets(tmp_path) as server:
        while compared < wanted:
            bucket = f"signed-{rng.randrange(10**9)}"
            region, secret = rng.choice(REGIONS), text_of(rng, SECRETS, 20, 60)
            token = text_of(rng, SECRETS, 10, 800) if rng.random() < 0.5 else None
            keys = {"access_key_id": f"AKID{rng.randrange(10**9)}", "secret_access_key": secret}
            more = {"session_token": token} if token else {}
            payer = rng.random() < 0.3
            options = damacy.StoreOptions(endpoint=server.url, region=region, request_payer=payer, **keys, **more)
            damacy.mount(f"s3://{bucket}/", options)
            names = [key_of(rng) for _ in range(min(AT_ONCE, wanted))]
            server.reset()
            for error in damacy.open_many([f"s3://{bucket}/{name}" for name in names]):
                assert isinstance(error, damacy.NotFound), error
            damacy.unmount(f"s3://{bucket}/")
            theirs = Credentials(keys["access_key_id"], secret, token)
            known = {f"/{bucket}/{percent_encode(name, safe='/~')}/zarr.json" for name in names}
            for sent in server.requests:
                assert sent.headers["authorization"] == signature_of(sent, theirs, region), sent
                assert sent.headers.get("x-amz-security-token") == token
                assert ("x-amz-request-payer" in sent.headers) == payer
                path = urllib.parse.urlsplit(sent.target).path
                encoded += path in known
            compared += len(server.requests)
    assert encoded >= wanted // 10
    print(f"{compared} requests have the signatures of botocore")
