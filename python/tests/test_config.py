"""`Config`: fields, defaults, checks in their order, and their exact texts."""

import copy
import dataclasses
import inspect
import math
import pickle

import numpy as np
import pytest

from damacy import ArraySpec, Config, Dtype, SharedCache

DEFAULTS = {
    "batch_size": inspect.Parameter.empty,
    "host_buffer_bytes": 1 << 30,
    "device_buffer_bytes": 4 << 30,
    "dtype": Dtype.F32,
    "lookahead_batches": None,
    "n_io_threads": 4,
    "n_compute_threads": 0,
    "n_zarrs_meta_cache": 64,
    "n_shards_meta_cache": 256,
    "max_chunk_uncompressed_bytes": 0,
    "max_gpu_memory_bytes": 0,
    "max_bytes_per_element": 0,
    "device": None,
    "n_batches": 2,
    "on_error": "raise",
    "pop_timeout_s": None,
    "cache_bytes": 0,
    "host_cache_bytes": 0,
    "host_cache": None,
    "device_cache_bytes": 0,
    "disk_cache": None,
    "disk_cache_bytes": 0,
    "disk_cache_shared": False,
    "verify": "needed",
    "thread_cores": "rank",
    "keep_bytes": None,
    "arrays": None,
}
LEAST = {
    "batch_size": 1,
    "lookahead_batches": 2,
    "n_io_threads": 1,
    "n_compute_threads": 0,
    "n_zarrs_meta_cache": 1,
    "n_shards_meta_cache": 1,
    "max_chunk_uncompressed_bytes": 0,
    "max_gpu_memory_bytes": 0,
    "max_bytes_per_element": 0,
    "n_batches": 1,
    "cache_bytes": 0,
    "host_cache_bytes": 0,
    "device_cache_bytes": 0,
}
INTEGERS = (*LEAST, "host_buffer_bytes", "device_buffer_bytes")


def config(**fields):
    return Config(**{"batch_size": 2} | fields)


def refusal(**fields):
    """The text of a refusal that is exactly a ValueError."""
    with pytest.raises(ValueError) as caught:
        config(**fields)
    assert type(caught.value) is ValueError
    return str(caught.value)


def test_the_signature_is_keyword_only_with_these_defaults():
    parameters = inspect.signature(Config).parameters
    assert {name: p.default for name, p in parameters.items()} == DEFAULTS
    assert list(parameters) == list(DEFAULTS)
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_it_is_immutable_and_compared_by_value():
    one, other = config(dtype="bf16", pop_timeout_s=1), config(dtype=Dtype.BF16, pop_timeout_s=1.0)
    assert one == other
    assert hash(one) == hash(other)
    assert one != dataclasses.replace(one, n_batches=3)
    assert not hasattr(one, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.batch_size = 3
    for twin in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert twin == one
        assert twin.dtype is Dtype.BF16


@pytest.mark.parametrize("name", LEAST)
def test_an_integer_has_a_least_value(name):
    least = LEAST[name]
    assert getattr(config(**{name: least}), name) == least
    assert refusal(**{name: least - 1}) == f"{name} must be >= {least} (got {least - 1})"


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_fits_63_bits(name):
    assert getattr(config(**{name: 2**63 - 1}), name) == 2**63 - 1
    assert refusal(**{name: 2**63}) == f"{name} must be < 2**63 (got {2**63})"


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [1.0, "3", None, True, np.float64(2), [1]], ids=repr)
def test_a_value_that_is_not_an_integer_is_a_type_error_with_its_field(name, value):
    if name.endswith("cache_bytes") and isinstance(value, str):
        pytest.skip("a size may be text")
    if name == "lookahead_batches" and value is None:
        pytest.skip("the library chooses")
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        config(**{name: value})


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_likes_are_stored_as_int(name):
    assert type(getattr(config(**{name: np.int32(7)}), name)) is int


def test_a_number_of_any_length_can_be_refused():
    assert "batch_size must be < 2**63" in refusal(batch_size=10**6000)
    assert "batch_size must be >= 1" in refusal(batch_size=-(10**6000))


@pytest.mark.parametrize(("host", "device"), [(0, 1), (1, 0), (-5, -6)])
def test_the_buffers_are_checked_together(host, device):
    text = f"host_buffer_bytes and device_buffer_bytes must be > 0 (got {host} and {device})"
    assert refusal(host_buffer_bytes=host, device_buffer_bytes=device) == text


def test_the_first_failure_in_the_order_of_checks_is_reported():
    """Everything is wrong; put right one field after the other, in the documented order."""
    wrong = {
        "batch_size": 0,
        "lookahead_batches": 1,
        "n_io_threads": 0,
        "n_compute_threads": -1,
        "host_buffer_bytes": 0,
        "max_chunk_uncompressed_bytes": -1,
        "dtype": "f4",
        "n_zarrs_meta_cache": 0,
        "n_shards_meta_cache": 0,
        "max_gpu_memory_bytes": -1,
        "max_bytes_per_element": -1,
        "device": -1,
        "n_batches": 0,
        "on_error": "panic",
        "pop_timeout_s": -1,
        "cache_bytes": -1,
        "host_cache_bytes": -1,
        "device_cache_bytes": -1,
        "verify": "all",
        "thread_cores": "some",
        "keep_bytes": "forty",
    }
    for name in list(wrong):
        assert name in refusal(**wrong)
        del wrong[name]
    config(**wrong)


@pytest.mark.parametrize(
    ("given", "stored"),
    [(None, None), (0, 0), (np.int64(3), 3), ("cpu", "cpu"), ("CPU", "cpu"), ("Cuda", "cuda"), ("CUDA:12", 12)],
)
def test_a_device_has_one_stored_form(given, stored):
    assert config(device=given).device == stored
    assert type(config(device=given).device) is type(stored)


@pytest.mark.parametrize(
    "device", [-1, "", "gpu", "cuda:", "cuda:-1", "cuda:1 ", "cuda: 1", "cpu:0", "cuda:²"], ids=repr
)
def test_another_device_is_refused(device):
    assert refusal(device=device) == f"device must be None, an int >= 0, 'cpu', 'cuda' or 'cuda:N' (got {device!r})"


@pytest.mark.parametrize("device", [1.5, True, b"cpu", (0,)], ids=repr)
def test_a_device_of_another_type_is_a_type_error(device):
    with pytest.raises(TypeError, match="device"):
        config(device=device)


@pytest.mark.parametrize("value", ["Raise", "", "panic", None, 3], ids=repr)
def test_on_error_is_one_of_three_words(value):
    assert [config(on_error=word).on_error for word in ("raise", "skip", "fill")] == ["raise", "skip", "fill"]
    assert refusal(on_error=value) == f"on_error must be 'raise', 'skip' or 'fill' (got {value!r})"


def test_thread_cores_is_one_of_two_words():
    assert [config(thread_cores=word).thread_cores for word in ("rank", "all")] == ["rank", "all"]
    assert refusal(thread_cores="near") == "thread_cores must be 'rank' or 'all' (got 'near')"


def test_verify_is_one_of_two_words():
    assert [config(verify=word).verify for word in ("needed", "whole")] == ["needed", "whole"]
    assert refusal(verify="all") == "verify must be 'needed' or 'whole' (got 'all')"


@pytest.mark.parametrize("value", [None, 0, 0.25, 3, np.float32(0.5)])
def test_a_timeout_is_none_or_a_finite_number(value):
    assert config(pop_timeout_s=value).pop_timeout_s == value


@pytest.mark.parametrize("value", [-1, -0.5, math.inf, math.nan, "1", True, 10**400])
def test_another_timeout_is_refused_as_it_was_given(value):
    assert refusal(pop_timeout_s=value) == f"pop_timeout_s must be None or a finite number >= 0 (got {value!r})"


def test_a_timeout_of_any_length_can_be_refused():
    assert "pop_timeout_s must be None or a finite number" in refusal(pop_timeout_s=10**6000)


def test_dtype_is_coerced_with_its_own_text():
    assert config(dtype="BFloat16").dtype is Dtype.BF16
    assert refusal(dtype="f4") == "unknown dtype: 'f4'"


def test_lookahead_batches_is_a_number_or_none():
    assert config().lookahead_batches is None
    assert config(lookahead_batches=3) == config(lookahead_batches=np.int64(3)) != config()


def test_keep_bytes_is_a_size_or_none():
    assert config().keep_bytes is None
    assert config(keep_bytes="1.5 KiB").keep_bytes == config(keep_bytes=1536).keep_bytes == 1536
    assert config(keep_bytes="1KiB") == config(keep_bytes=1024)
    assert refusal(keep_bytes=-1) == "keep_bytes must be >= 0 (got -1)"
    assert "keep_bytes must be an int of bytes, or text such as '2GiB'" in refusal(keep_bytes="forty")


def test_a_shared_cache_has_a_name_and_at_least_1_mib():
    shared = SharedCache("a-B.9_", "1.5 GiB")
    assert (shared.name, shared.bytes) == ("a-B.9_", 3 << 29)
    made = config(host_cache=shared)
    assert made.host_cache == SharedCache("a-B.9_", 3 << 29) and pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(config(host_cache=shared))
    for name in ("", "..", "a/b", "a b", "ä", "x" * 65, "a\0"):
        with pytest.raises(ValueError, match="the name of a SharedCache has 1 to 64 letters"):
            SharedCache(name, "1GiB")
    with pytest.raises(TypeError, match=r"the name of a SharedCache must be a str \(got int\)"):
        SharedCache(3, "1GiB")
    with pytest.raises(ValueError, match=r"bytes of a SharedCache must be >= 1048576 \(got 1048575\)"):
        SharedCache("a", (1 << 20) - 1)
    with pytest.raises(ValueError, match="bytes must be an int of bytes, or text such as '2GiB'"):
        SharedCache("a", "forty")
    with pytest.raises(TypeError, match=r"host_cache must be a SharedCache or None \(got str\)"):
        config(host_cache="a")
    assert "host_cache and host_cache_bytes exclude each other" in refusal(host_cache=shared, host_cache_bytes=1)


def test_a_disk_cache_has_a_directory_and_at_least_256_mib(tmp_path):
    made = config(disk_cache=tmp_path, disk_cache_bytes="1 GiB")
    assert (made.disk_cache, made.disk_cache_bytes) == (str(tmp_path), 1 << 30)
    assert refusal(disk_cache=tmp_path) == "disk_cache_bytes must be >= 268435456 with disk_cache (got 0)"
    assert "must be >= 268435456" in refusal(disk_cache=tmp_path, disk_cache_bytes=(256 << 20) - 1)
    assert refusal(disk_cache_bytes="1GiB") == "disk_cache_bytes needs a directory in disk_cache (got 1073741824)"
    assert refusal(disk_cache="", disk_cache_bytes="1GiB") == "disk_cache must be the path of a directory (got '')"
    for wrong in (b"x", 3):
        with pytest.raises(TypeError, match="disk_cache|expected str"):
            config(disk_cache=wrong, disk_cache_bytes="1GiB")
    with pytest.raises(TypeError, match=r"disk_cache_shared must be a bool \(got int\)"):
        config(disk_cache_shared=1)


@pytest.mark.parametrize("settings", [Config, ArraySpec])
def test_fields_tell_the_defaults_of_the_parameters(settings):
    parameters = inspect.signature(settings).parameters
    fields = {field.name: field for field in dataclasses.fields(settings)}
    assert fields.keys() == parameters.keys()
    for name, parameter in parameters.items():
        is_required = parameter.default is inspect.Parameter.empty
        assert fields[name].default == (dataclasses.MISSING if is_required else parameter.default)
        assert is_required or type(fields[name].default) is type(parameter.default)
