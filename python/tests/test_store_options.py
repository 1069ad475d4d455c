"""`StoreOptions` as a value: checks, texts without secrets, pickles."""

import copy
import pickle

import pytest

import damacy
from damacy import Secret, StoreOptions

KEY = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "hunter2"}


def test_texts_hold_no_secret():
    options = StoreOptions(
        **KEY, session_token="hunter2", headers={"X-Key": "hunter2"}, proxy="http://me:hunter2@proxy:1"
    )
    for text in (repr(options), str(options), f"{options}", repr(Secret("hunter2"))):
        assert "hunter2" not in text and "AKIAIOSFODNN7" not in text
    assert "access_key_id='***MPLE'" in repr(options)


def test_equal_values_are_equal_and_hash_alike():
    assert StoreOptions(**KEY) == StoreOptions(**KEY) != StoreOptions()
    assert len({StoreOptions(**KEY), StoreOptions(**KEY)}) == 1
    options = StoreOptions(**KEY)
    assert copy.copy(options) is options and copy.deepcopy(options) is options


def test_only_secrets_that_may_be_pickled_are():
    with pytest.raises(TypeError, match="StoreOptions holds secret_access_key: use a profile, the environment"):
        pickle.dumps(StoreOptions(**KEY))
    with pytest.raises(TypeError, match="holds headers"):
        pickle.dumps(StoreOptions(headers={"X-Key": "hunter2"}))
    with pytest.raises(TypeError, match="picklable=True"):
        pickle.dumps(Secret("hunter2"))
    options = StoreOptions(**{**KEY, "secret_access_key": Secret("hunter2", picklable=True)})
    assert pickle.loads(pickle.dumps(options)) == options
    assert pickle.loads(pickle.dumps(StoreOptions(profile="work"))).profile == "work"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"access_key_id": "a"}, "access_key_id: access_key_id and secret_access_key must be given together"),
        ({"endpoint": "127.0.0.1:9000"}, "endpoint: must be http"),
        ({"endpoint": "http://me:hunter2@host"}, "endpoint: must not hold user info"),
        ({"addressing": "host"}, "addressing: must be path, virtual or auto .got host."),
        ({**KEY, "anonymous": True}, "anonymous: must not be True with credentials"),
        ({**KEY, "profile": "a"}, "give one of access_key_id, credentials, profile and bearer_token"),
        ({"headers": {"Range": "bytes=0-1"}}, "headers: Range is set by damacy"),
        ({"headers": {"X": "hunter2\r\nY: 1"}}, "headers: the value of X holds a control character"),
        ({"absent_status": (500,)}, "absent_status: must hold 403, 404 or 410 .got 500."),
        ({"attempts": 21}, r"attempts: must be in \[1, 20\] .got 21."),
        ({"max_requests": 0}, r"max_requests: must be in \[1, 4096\] .got 0."),
        ({"first_byte_timeout_s": 0}, "first_byte_timeout_s: must be in"),
        ({"deadline_s": float("nan")}, "deadline_s: must be in"),
    ],
)
def test_wrong_values_are_refused(fields, text):
    with pytest.raises(damacy.InvalidArgument, match=text) as caught:
        StoreOptions(**fields)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["account", "sas_token"])
def test_fields_that_have_no_effect_are_refused_by_name(name):
    with pytest.raises(TypeError, match=rf"StoreOptions.{name} is not supported: "):
        StoreOptions(**{name: 1})


@pytest.mark.parametrize("fields", [{"region": 5}, {"attempts": "6"}, {"headers": "X"}, {"unknown": 1}])
def test_wrong_types_are_refused(fields):
    with pytest.raises(TypeError):
        StoreOptions(**fields)
