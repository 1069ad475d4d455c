"""What every adapter of a store answers, as tests/conformance/store_suite.h asks it of stores in C++."""

import asyncio

import pytest
import zarr
from support.odd_stores import OddStore, SizedStore
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore, ZipStore

from damacy._stores import mounts
from damacy._stores.failures import masked


class Answer:
    """Takes what the native library would take."""

    def __init__(self):
        self.given = None

    def absent(self):
        self.given = ("absent",)

    def found(self, size, tag, modified_ns, head=None):
        self.given = ("found", size, tag, None if head is None else bytes(head))

    def bytes(self, buffer):
        self.given = ("bytes", bytes(memoryview(buffer)))

    def entries(self, found):
        self.given = ("entries", found)

    def fail(self, message, reason, errno, cause):
        self.given = ("fail", message, reason, errno, cause)


class Suite:
    """A store, what puts objects into it, and its adapter."""

    def __init__(self, store, put, remove=None):
        self.put, self.remove = put, remove
        self.adapter = mounts._adapter_of(store)

    def ask(self, what, key, start=0, stop=0, tag="", size=0):
        answer = Answer()
        request = self.adapter.begin(answer, what, key, start, stop, tag, size)
        if request is not None:
            request.result(20)
        return answer.given

    def opened(self, key):
        kind, size, tag, head = self.ask("open", key)
        assert kind == "found"
        return size, tag, head

    def read(self, key, start, stop):
        size, tag, _ = self.opened(key)
        return self.ask("read", key, start, stop, tag, size)


def of_zarr(store):
    def put(key, content):
        asyncio.run(store._store.set(key, cpu.Buffer.from_bytes(content)))

    return Suite(store, put, lambda key: store._store._store_dict.pop(key))


def memory(folder):
    store = MemoryStore()
    return Suite(
        store,
        lambda key, content: store._store_dict.__setitem__(key, cpu.Buffer.from_bytes(content)),
        store._store_dict.pop,
    )


def zipped(folder):
    store = ZipStore(folder / "a.zip", mode="w")
    return Suite(store, lambda key, content: zarr.core.sync.sync(store.set(key, cpu.Buffer.from_bytes(content))))


def obstores(folder):
    obstore = pytest.importorskip("obstore", reason="obstore is not installed: its adapter is not tested")
    store = obstore.store.MemoryStore()
    return Suite(store, lambda key, content: store.put(key, content), store.delete)


def obstores_files(folder):
    obstore = pytest.importorskip("obstore", reason="obstore is not installed: its adapter is not tested")
    store = obstore.store.LocalStore(folder)
    return Suite(store, lambda key, content: store.put(key, content), store.delete)


def fsspecs(folder):
    pytest.importorskip("fsspec", reason="fsspec is not installed: its adapter is not tested")
    store = zarr.storage.FsspecStore.from_url(f"memory://{folder.name}")
    return Suite(store, lambda key, content: zarr.core.sync.sync(store.set(key, cpu.Buffer.from_bytes(content))))


SUITES = {
    "MemoryStore": memory,
    "ZipStore": zipped,
    "a store with getsize": lambda folder: of_zarr(SizedStore()),
    "a store without getsize": lambda folder: of_zarr(OddStore()),
    "obstore's MemoryStore": obstores,
    "obstore's LocalStore": obstores_files,
    "FsspecStore": fsspecs,
}


@pytest.fixture(params=SUITES)
def suite(request, tmp_path):
    return SUITES[request.param](tmp_path)


@pytest.fixture(params=["MemoryStore", "obstore's MemoryStore"])
def versioned(request, tmp_path):
    return SUITES[request.param](tmp_path)


def test_reads_any_range_of_an_object(suite):
    suite.put("c/0/1", b"hello, world")
    assert suite.opened("c/0/1")[0] == 12
    assert suite.ask("stamp", "c/0/1")[:2] == ("found", 12)
    for start, stop in ((0, 12), (7, 12), (0, 1), (11, 12)):
        assert suite.read("c/0/1", start, stop) == ("bytes", b"hello, world"[start:stop])


def test_the_first_bytes_come_with_the_size_or_not_at_all(suite):
    content = bytes(range(256)) * 512  # more than come with the size
    suite.put("big", content)
    size, _, head = suite.opened("big")
    assert size == len(content)
    assert head is None or (len(head) > 0 and content.startswith(head))
    assert suite.read("big", 70_000, 131_000) == ("bytes", content[70_000:131_000])


def test_an_empty_object_is_an_object(suite):
    suite.put("empty", b"")
    assert suite.opened("empty")[0] == 0


def test_what_is_absent_is_no_error(suite):
    suite.put("a/file", b"x")
    for key in ("nothing", "no/such/place", "zarr.json", "a/zarr.json"):
        assert suite.ask("open", key) == ("absent",)
        assert suite.ask("stamp", key) == ("absent",)
    assert suite.ask("list", "nothing") in (("entries", []), ("absent",))


def test_documents_come_in_one_request(suite):
    suite.put("a/zarr.json", b"{}")
    assert suite.opened("a/zarr.json")[0] == 2
    if suite.adapter.name != "zarr.storage.MemoryStore":  # whose requests cost nothing
        assert suite.opened("a/zarr.json")[2] == b"{}"


def test_lists_what_is_directly_below(suite):
    for key in ("b/x/deep", "b/w", "a", "c!"):
        suite.put(key, b"1")
    assert suite.ask("list", "") == ("entries", [("a", False), ("b", True), ("c!", False)])
    assert suite.ask("list", "b") == ("entries", [("w", False), ("x", True)])


def test_keys_are_taken_literally(suite):
    for key in ("a b/c", "ü/ñ", "100%/x", "a+b=c(1)"):
        suite.put(key, key.encode())
        assert suite.read(key, 0, len(key.encode())) == ("bytes", key.encode())


def test_an_object_that_was_replaced_has_changed(versioned):
    versioned.put("key", b"as long")
    size, tag, _ = versioned.opened("key")
    versioned.put("key", b"LONG AS")
    assert versioned.opened("key")[1] != tag
    assert versioned.ask("stamp", "key")[2] != tag
    kind, message, reason, *_ = versioned.ask("read", "key", 0, 7, tag, size)
    assert (kind, reason) == ("fail", "changed") and "replaced" in message


def test_an_object_that_was_removed_has_changed(suite):
    if suite.remove is None:
        pytest.skip("the store does not remove objects")
    suite.put("key", b"0123")
    size, tag, _ = suite.opened("key")
    suite.remove("key")
    kind, _, reason, *_ = suite.ask("read", "key", 0, 4, tag, size)
    assert (kind, reason) == ("fail", "changed")
    assert suite.ask("stamp", "key") == ("absent",)


def test_what_a_store_raises_is_an_answer():
    store = SizedStore()

    async def denied(key, found):
        raise PermissionError("GET https://me:hidden@host/k?sig=hidden")

    store.fault = denied
    kind, message, reason, number, cause = of_zarr(store).ask("open", "zarr.json")
    assert (kind, reason, number) == ("fail", "io", 13)
    assert message.startswith("the store failed to open the object: PermissionError: GET https://***@host/k?***")
    assert isinstance(cause, PermissionError) and "hidden" not in str(cause)


def test_a_store_without_version_2_may_raise_key_errors_for_its_documents():
    store = SizedStore()

    async def unknown(key, found):
        raise KeyError(f"v2 key not found at `{key}`")

    store.fault = unknown
    for what in ("open", "stamp"):
        assert of_zarr(store).ask(what, "a/.zgroup") == ("absent",)
    kind, _, reason, *_ = of_zarr(store).ask("open", "a/zarr.json")
    assert (kind, reason) == ("fail", "io")


def test_a_store_that_cannot_list_says_so():
    class Unlisted(SizedStore):
        supports_listing = False

    kind, message, *_ = of_zarr(Unlisted()).ask("list", "")
    assert kind == "fail" and "cannot list" in message


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hidden@host/a",
        "GET s3://b/k?X-Amz-Signature=hidden&X-Amz-Credential=hidden",
        "<Error><Code>x</Code><StringToSign>hidden\nhidden</StringToSign></Error>",
        "aws_secret_access_key='hidden', x=1",
        '{"session_token": "hidden"}',
        "Authorization: Bearer hidden",
        "sig=hidden",
    ],
)
def test_texts_are_masked(text):
    assert "hidden" not in masked(text), masked(text)


def test_the_name_of_a_store_is_its_class():
    class Secret(SizedStore):
        def __str__(self):
            return "hidden"

        __repr__ = __str__

    assert mounts._adapter_of(Secret()).name.endswith("Secret")
