"""Tracebacks, help and pickles show public names with the modules from which users import them, not with the private
modules that define them."""

import importlib
import pickle
import pickletools

import pytest

import damacy
import damacy.cufile
import damacy.samplers

OF_DAMACY = """Array Image Group Plate open_array open_image open_group set_read_cache
Pipeline Config ArraySpec Sample Batch BatchArray NamedBatch BatchInfo BatchRows Metric Stats
Dtype Status ArrayInfo Cf Explanation StageLoad MemoryPart MemoryPlan DamacyError TryAgain PopTimeout
InvalidArgument NotFound DtypeMismatch RankMismatch StorageError DecodeError UnsupportedFormat NativeCudaError
OutOfMemory ShutdownError set_log_level set_log_quiet open DeviceArray asarray empty"""
OF_CUFILE = """CompatMode CuFile IOFuture IOFutureStream as_completed wait preadv_many counters explain memory_register
memory_deregister bounce_buffer_free get_page_cache_info drop_file_page_cache drop_system_page_cache
clear_page_cache ClosedFileError CudaError FileIOError
CuFileLibraryError FileOpenError OpenModeError ShortReadError"""
OF_TRAINING = "Loader"
OF_STITCH = "Writer"
OF_SAMPLERS = """ForegroundCrops ForegroundIndex Indexed RandomCrops Sampler SlidingGrid Weighted Windows Within
split"""
HOMES = [
    (home, name)
    for home, names in {
        "damacy": OF_DAMACY,
        "damacy.cufile": OF_CUFILE,
        "damacy.training": OF_TRAINING,
        "damacy.samplers": OF_SAMPLERS,
        "damacy.stitch": OF_STITCH,
        "damacy.mmap": "Mmap",
        "damacy.remote_file": "is_remote_file_available infer_remote_endpoint_type",
    }.items()
    for name in names.split()
]


@pytest.mark.parametrize("home, name", HOMES)
def test_the_module_of_a_public_name_is_the_one_to_import_from(home, name):
    value = getattr(importlib.import_module(home), name)
    assert (value.__module__, value.__qualname__) == (home, name)
    assert pickle.loads(pickle.dumps(value)) is value


def values():
    config = damacy.Config(batch_size=2, host_buffer_bytes=1 << 30, device_buffer_bytes=1 << 30, dtype="u16")
    return [
        config,
        damacy.Sample("a.zarr", [(0, 1)]),
        damacy.Dtype.BF16,
        damacy.Status.IO,
        damacy.DecodeError("checksum", uri="a.zarr"),
        damacy.CompatMode.AUTO,
        damacy.samplers.RandomCrops({"a.zarr": (4, 4)}, (2, 2), length=3),
    ]


@pytest.mark.parametrize("value", values(), ids=lambda value: type(value).__name__)
def test_a_pickle_names_public_modules_only(value):
    """So pickles stay readable when private modules move."""
    written = pickle.dumps(value)
    assert repr(pickle.loads(written)) == repr(value)
    named = {argument for _, argument, _ in pickletools.genops(written) if isinstance(argument, str)}
    modules = {text for text in named if text.split(".")[0] == "damacy"}
    assert modules and not [text for text in modules if "._" in text]
