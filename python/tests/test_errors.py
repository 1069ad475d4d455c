"""The exceptions: bases, attributes, pickling, and their text."""

import copy
import pickle
import subprocess
import sys
import traceback
import types

import pytest

import damacy
from damacy import Status
from damacy._core.errors import ATTRIBUTES, CLASS_BY_STATUS, make_error

CLASSES = {
    damacy.TryAgain: (Status.AGAIN, BlockingIOError),
    damacy.PopTimeout: (Status.AGAIN, TimeoutError),
    damacy.InvalidArgument: (Status.INVAL, ValueError),
    damacy.NotFound: (Status.NOTFOUND, FileNotFoundError),
    damacy.DtypeMismatch: (Status.DTYPE, TypeError),
    damacy.RankMismatch: (Status.RANK, ValueError),
    damacy.StorageError: (Status.IO, OSError),
    damacy.DecodeError: (Status.DECODE, RuntimeError),
    damacy.UnsupportedFormat: (Status.DECODE, damacy.DecodeError),
    damacy.NativeCudaError: (Status.CUDA, RuntimeError),
    damacy.OutOfMemory: (Status.OOM, MemoryError),
    damacy.ShutdownError: (Status.SHUTDOWN, RuntimeError),
}
WHERE = {
    "what": "pop",
    "array": "label",
    "uri": "/data/a.zarr",
    "store": "/data/a.zarr",
    "key": "c/0/1",
    "pointer": None,
    "chunk": (0, 5),
    "byte_range": (40, 80),
    "reason": "short-read",
    "sample_index": 3,
    "stream_index": 99,
    "batch_id": 12,
    "lost": (99, 100),
    "http_status": 503,
    "request_id": "4442587FB7D0A2F9",
    "attempts": 6,
}


@pytest.mark.parametrize("cls", CLASSES)
def test_each_class_has_its_status_and_its_bases(cls):
    status, base = CLASSES[cls]
    error = cls("message")
    assert error.status is status
    assert isinstance(error, base)
    assert isinstance(error, damacy.DamacyError)
    assert cls.__mro__[1] is damacy.DamacyError or issubclass(cls.__mro__[1], damacy.DamacyError)
    assert cls.__module__ == "damacy"


@pytest.mark.parametrize("cls", [damacy.DamacyError, *CLASSES])
def test_attributes_are_keyword_arguments_and_unknown_without(cls):
    bare = cls("message")
    assert [getattr(bare, name) for name in ATTRIBUTES] == [None] * 12 + [()] + [None] * 3
    full = cls("message", **WHERE)
    assert {name: getattr(full, name) for name in ATTRIBUTES} == WHERE
    with pytest.raises(TypeError):
        cls("message", "pop")
    with pytest.raises(TypeError, match="colour"):
        cls("message", colour="red")


def copies(error):
    return [pickle.loads(pickle.dumps(error, p)) for p in range(2, 6)] + [copy.copy(error), copy.deepcopy(error)]


@pytest.mark.parametrize("cls", [damacy.DamacyError, *CLASSES])
def test_errors_pickle_and_copy_with_all_attributes(cls):
    error = cls("message", **WHERE)
    error.add_note("seen twice")
    for twin in copies(error):
        assert type(twin) is cls
        assert twin.args == ("message",)
        assert {name: getattr(twin, name) for name in ATTRIBUTES} == WHERE
        assert twin.status is error.status
        assert twin.__notes__ == ["seen twice"]


@pytest.mark.parametrize("cls", [damacy.TryAgain, damacy.PopTimeout, damacy.NotFound, damacy.StorageError])
def test_an_errno_is_kept_in_pickles_and_copies(cls):
    assert cls("message").errno is None
    for twin in copies(cls("message", errno=5)):
        assert twin.errno == 5


def test_a_cuda_error_says_whether_it_sticks():
    assert damacy.NativeCudaError("message").sticky is False
    for twin in copies(damacy.NativeCudaError("message", sticky=True)):
        assert twin.sticky is True


def test_sequences_are_stored_as_tuples():
    error = damacy.DecodeError("message", chunk=[1, 2], byte_range=[3, 4], lost=iter([5]))
    assert (error.chunk, error.byte_range, error.lost) == ((1, 2), (3, 4), (5,))


@pytest.mark.parametrize("cls", [damacy.DamacyError, *CLASSES])
def test_the_line_shows_every_attribute_that_is_set(cls):
    line = str(cls("short read: 12 of 40 bytes", **WHERE))
    start = (
        "pop: batch 12: sample 99: label: /data/a.zarr: shard c/0/1: chunk (0, 5): bytes 40-80: "
        "short read: 12 of 40 bytes"
    )
    assert line.startswith(start)
    assert "short-read" in line
    assert "sample 3 of its source" in line
    assert "(99, 100)" in line
    assert "\n" not in line


def test_the_documented_error_has_the_documented_text():
    error = damacy.StorageError(
        "short read: 12 of 40 bytes",
        what="pop", batch_id=12, stream_index=99, uri="/data/a.zarr", key="c/0/1", chunk=(0, 5), byte_range=(40, 80),
    )  # fmt: skip
    assert str(error) == (
        "pop: batch 12: sample 99: /data/a.zarr: shard c/0/1: chunk (0, 5): bytes 40-80: "
        "short read: 12 of 40 bytes (io error)"
    )


def test_hostile_names_stay_on_one_line():
    line = str(damacy.NotFound("no metadata", uri="a\nb\x1b[31m\udcff.zarr"))
    assert line.isprintable()
    assert "a\\x0ab\\x1b[31m\\xff.zarr" in line


@pytest.mark.parametrize("separator", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x9b"], ids=ascii)
def test_what_ends_a_line_for_python_is_escaped(separator):
    line = str(damacy.DecodeError(f"a{separator}b", key=f"c{separator}0"))
    assert line.splitlines() == [line]
    assert separator not in line


def test_attributes_and_messages_of_other_types_are_shown_too(tmp_path):
    assert str(damacy.NotFound(tmp_path, uri=tmp_path, reason=3)) == f"{tmp_path}: {tmp_path} (not found, 3)"
    assert str(damacy.NotFound("\ud800\udcff", uri="\ud800")) == "\\ud800: \\ud800\\udcff (not found)"


@pytest.mark.parametrize("status", CLASS_BY_STATUS)
def test_native_errors_become_the_class_of_their_status(status):
    error = make_error(int(status), "plain", "message", {"uri": "a", "errno": 5, "lost": (1,)})
    assert type(error) is CLASS_BY_STATUS[status]
    assert (error.status, error.uri, error.lost) == (status, "a", (1,))


def test_two_kinds_have_a_subclass():
    assert type(make_error(7, "unsupported_format", "message", {})) is damacy.UnsupportedFormat
    assert type(make_error(1, "pop_timeout", "message", {})) is damacy.PopTimeout


def test_every_status_but_ok_has_a_class():
    assert set(CLASS_BY_STATUS) == set(Status) - {Status.OK}


FROM_A_WORKER = """
import sys, torch, damacy

class Failing(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        where = {"uri": "a.zarr", "key": "c/0", "chunk": (0, 1), "byte_range": (3, 9)}
        raise damacy.StorageError("short read: 3 of 9 bytes", reason="short", errno=5, **where)

if __name__ == "__main__":
    try:
        next(iter(torch.utils.data.DataLoader(Failing(), num_workers=1, multiprocessing_context="fork")))
    except damacy.StorageError as error:
        print([error.uri, error.key, error.chunk, error.byte_range, error.reason, error.errno, error.batch_id])
        text = str(error)
        assert "\\\\x0a" not in text and len(text.splitlines()) > 3, text
        assert "a.zarr: shard c/0: chunk (0, 1): bytes 3-9: short read: 3 of 9 bytes (io error, short)" in text, text
        assert not hasattr(error, "__notes__")
"""


def test_an_error_of_a_data_loaders_worker_keeps_its_attributes_and_its_lines(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(FROM_A_WORKER)
    ran = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "['a.zarr', 'c/0', (0, 1), (3, 9), 'short', 5, None]\n"


def as_torch_tells(error):
    """What a DataLoader raises for an error of a worker: of its class, from its text."""
    text = "".join(traceback.format_exception(error))
    return type(error)(message=f"Caught {type(error).__name__} in DataLoader worker process 0.\nOriginal {text}")


@pytest.mark.parametrize("cls", CLASSES)
def test_each_class_takes_back_what_a_worker_tells(monkeypatch, cls):
    data = types.SimpleNamespace(get_worker_info=lambda: object())
    monkeypatch.setitem(sys.modules, "torch.utils.data", data)
    with pytest.raises(cls) as raised:
        raise cls("message", **WHERE)
    error = raised.value
    data.get_worker_info = lambda: None
    told = as_torch_tells(error)
    assert {name: getattr(told, name) for name in ATTRIBUTES} == {name: getattr(error, name) for name in ATTRIBUTES}
    assert told.status is error.status and str(told) == told.message
    again = pickle.loads(pickle.dumps(told))
    assert vars(again) == vars(told) and str(again) == str(told)


def test_other_messages_are_one_line():
    for message in ("Caught\nattributes: {}", "a\nOriginal Traceback"):
        assert "\n" not in str(damacy.StorageError(message, uri="a"))
    broken = damacy.StorageError("Caught StorageError\nOriginal Traceback\nattributes: {1")
    assert broken.uri is None and str(broken).count("\n") == 2
