"""damacy.defaults: keys, values, precedence, and KvikIO's functions."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import damacy
from damacy import defaults
from damacy.cufile import CuFile
from damacy.defaults import CompatMode

BUILT_IN = {
    "compat_mode": CompatMode.AUTO,
    "num_threads": 1,
    "task_size": 4 << 20,
    "gds_threshold": 16 << 10,
    "bounce_buffer_size": 16 << 20,
    "auto_direct_io_read": "auto",
    "auto_direct_io_write": "auto",
    "http_max_attempts": 3,
    "http_timeout": 60,
    "http_status_codes": [429, 500, 502, 503, 504],
    "engine": "auto",
    "auto_threads": min(8, len(os.sched_getaffinity(0))),
    "queue_depth": 128,
    "pinned_limit": 256 << 20,
    "coalesce_gap": 4096,
}


@pytest.fixture(autouse=True)
def same_settings():
    before = {key: defaults.get(key) for key in BUILT_IN}
    set_before = damacy._native.io_settings()["num_threads_set"]
    yield
    defaults.set(before)
    damacy._native.io_change_settings({"num_threads_set": set_before})


def fresh(expression, **environment):
    """The value of an expression in a new process; or its exception's name and text."""
    program = f"""
import damacy.defaults as defaults
try:
    print(repr({expression}))
except Exception as error:
    print(type(error).__mro__, error)
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DAMACY_", "KVIKIO_"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean | environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_built_in_values():
    keys = list(BUILT_IN)
    assert eval(fresh(f"[defaults.get(k) if k != 'compat_mode' else int(defaults.get(k)) for k in {keys}]")) == [
        int(v) if isinstance(v, CompatMode) else v for v in BUILT_IN.values()
    ]


def test_the_documents_name_every_setting():
    page = (pathlib.Path(__file__).parents[2] / "docs/reference/files.md").read_text(encoding="utf-8")
    table = page.partition("| setting |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(BUILT_IN)


@pytest.mark.parametrize(
    ("environment", "expression", "expected"),
    [
        ({"KVIKIO_TASK_SIZE": "1234"}, "defaults.task_size()", "1234"),
        ({"KVIKIO_TASK_SIZE": "1234", "DAMACY_TASK_SIZE": "99"}, "defaults.task_size()", "99"),
        ({"KVIKIO_NTHREADS": "5"}, "defaults.get_num_threads()", "5"),
        ({"KVIKIO_NUM_THREADS": "6"}, "defaults.num_threads()", "6"),
        ({"KVIKIO_NUM_THREADS": "6", "KVIKIO_NTHREADS": "6"}, "defaults.num_threads()", "6"),
        ({"DAMACY_COMPAT_MODE": "Yes"}, "defaults.compat_mode()", "True"),
        ({"KVIKIO_COMPAT_MODE": "off"}, "defaults.compat_mode()", "False"),
        ({"KVIKIO_COMPAT_MODE": "7"}, "int(defaults.get('compat_mode'))", "1"),
        ({"KVIKIO_HTTP_STATUS_CODES": "1, 2,3"}, "defaults.http_status_codes()", "[1, 2, 3]"),
        ({"DAMACY_IO_ENGINE": "pread", "KVIKIO_QUEUE_DEPTH": "3"}, "defaults.get('engine')", "'pread'"),
        ({"KVIKIO_QUEUE_DEPTH": "3"}, "defaults.get('queue_depth')", "128"),
        ({"DAMACY_AUTO_DIRECT_IO_READ": "on"}, "defaults.get('auto_direct_io_read')", "True"),
        ({"DAMACY_GDS_THRESHOLD": "0"}, "defaults.gds_threshold()", "0"),
    ],
)
def test_the_environment_is_read(environment, expression, expected):
    assert fresh(expression, **environment) == expected


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"KVIKIO_TASK_SIZE": "0"}, "KVIKIO_TASK_SIZE"),
        ({"DAMACY_TASK_SIZE": "many"}, "DAMACY_TASK_SIZE"),
        ({"KVIKIO_NTHREADS": "1", "KVIKIO_NUM_THREADS": "2"}, "KVIKIO_NUM_THREADS"),
        ({"DAMACY_COMPAT_MODE": "maybe"}, "DAMACY_COMPAT_MODE"),
        ({"DAMACY_HTTP_STATUS_CODES": "1,,2"}, "DAMACY_HTTP_STATUS_CODES"),
        ({"DAMACY_IO_ENGINE": "magic"}, "DAMACY_IO_ENGINE"),
        ({"DAMACY_COALESCE_GAP": "-1"}, "DAMACY_COALESCE_GAP"),
    ],
)
def test_a_malformed_variable_is_named(environment, named):
    said = fresh("defaults.task_size()", **environment)
    assert "ValueError" in said and named in said


@pytest.mark.parametrize(
    ("key", "value", "error", "match"),
    [
        ("task_size", 0, ValueError, "positive integer"),
        ("task_size", -1, OverflowError, "negative value"),
        ("num_threads", 0, ValueError, "positive integer"),
        ("gds_threshold", -5, OverflowError, "negative value"),
        ("task_size", 1.5, TypeError, "integer"),
        ("http_status_codes", (1, 2), TypeError, "list of int"),
        ("http_status_codes", ["1"], TypeError, "list of int"),
        ("compat_mode", "perhaps", ValueError, "on, off, auto"),
        ("engine", "magic", ValueError, "io_uring"),
        ("auto_direct_io_read", "sometimes", ValueError, "auto"),
        ("no_such_key", 1, KeyError, "no_such_key"),
    ],
)
def test_bad_values_change_nothing(key, value, error, match):
    before = defaults.task_size()
    with pytest.raises(error, match=match):
        defaults.set({"task_size": 777, key: value})
    assert defaults.task_size() == before


def test_set_applies_at_the_call_and_restores_at_exit():
    manager = defaults.set({"task_size": 11, "gds_threshold": 0})
    assert (defaults.task_size(), defaults.gds_threshold()) == (11, 0)
    with manager:
        defaults.set("task_size", 22)
    assert (defaults.task_size(), defaults.gds_threshold()) == (4 << 20, 16 << 10)
    for wrong in ((), (1,), ("task_size",), ("task_size", 1, 2), (1, 2)):
        with pytest.raises(ValueError):
            defaults.set(*wrong)
    with pytest.raises(KeyError):
        defaults.get("no_such_key")


def test_functions_of_kvikio_read_and_set_the_settings():
    defaults.compat_mode_reset(True)
    assert defaults.compat_mode() is True and defaults.get("compat_mode") is CompatMode.ON
    defaults.compat_mode_reset(CompatMode.OFF)
    assert defaults.compat_mode() is False
    with defaults.set_compat_mode("auto"):
        assert defaults.compat_mode() is defaults.is_compat_mode_preferred()
    assert defaults.get("compat_mode") is CompatMode.OFF
    defaults.reset_task_size(4097)
    defaults.task_size_reset(4098)
    assert defaults.task_size() == 4098
    context = defaults.set_task_size(5)
    assert defaults.task_size() == 4098
    with context:
        assert defaults.task_size() == 5
    assert defaults.task_size() == 4098
    defaults.reset_num_threads(3)
    defaults.num_threads_reset(2)
    with defaults.set_num_threads(4):
        assert defaults.get_num_threads() == 4
    assert defaults.num_threads() == 2
    for key in list(BUILT_IN)[:10]:
        assert callable(getattr(defaults, f"{key}_reset")) and callable(getattr(defaults, f"set_{key}"))


@pytest.mark.parametrize(
    ("key", "argument"),
    [
        ("task_size", "nbytes"),
        ("gds_threshold", "nbytes"),
        ("bounce_buffer_size", "nbytes"),
        ("num_threads", "nthreads"),
        ("http_max_attempts", "attempts"),
        ("http_timeout", "timeout"),
    ],
)
def test_settings_take_the_keywords_of_kvikio(key, argument):
    before = defaults.get(key)
    with getattr(defaults, f"set_{key}")(**{argument: 7}):
        assert defaults.get(key) == 7
        getattr(defaults, f"{key}_reset")(**{argument: 8})
        assert defaults.get(key) == 8
    assert defaults.get(key) == before
    assert list(inspect.signature(getattr(defaults, f"set_{key}")).parameters) == [argument]
    with pytest.raises(TypeError, match=f"missing a required argument: '{argument}'"):
        getattr(defaults, f"set_{key}")()


def test_requests_on_a_stream_take_the_keywords_of_kvikio():
    for function in (CuFile.raw_read_async, CuFile.raw_write_async):
        assert list(inspect.signature(function).parameters)[1:3] == ["buf", "stream"]


def test_modes_are_written_in_many_ways():
    for value, mode in {
        "ON": 1,
        "true": 1,
        "Yes": 1,
        "off": 0,
        "FALSE": 0,
        "no": 0,
        "auto": 2,
        "0": 0,
        "12": 1,
    }.items():
        assert CompatMode.coerce(value) == mode
    assert (CompatMode.coerce(True), CompatMode.coerce(False)) == (CompatMode.ON, CompatMode.OFF)
    assert damacy.CompatMode is CompatMode
