"""Names and signatures that KvikIO documents are here too: programs for it run after changing the import."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import damacy
from damacy import cufile, cufile_driver, mmap
from damacy._fileio import page_cache

# By KvikIO's documentation of its API, without types: `/` ends arguments that are positional only.
DOCUMENTED = """
cufile.CuFile(file, flags='r')
cufile.CuFile.close()
cufile.CuFile.fileno()
cufile.CuFile.open_flags()
cufile.CuFile.is_direct_io_supported()
cufile.CuFile.pread(buf, size=None, file_offset=0, task_size=None)
cufile.CuFile.pwrite(buf, size=None, file_offset=0, task_size=None)
cufile.CuFile.read(buf, size=None, file_offset=0, task_size=None)
cufile.CuFile.write(buf, size=None, file_offset=0, task_size=None)
cufile.CuFile.raw_read(buf, size=None, file_offset=0, dev_offset=0)
cufile.CuFile.raw_write(buf, size=None, file_offset=0, dev_offset=0)
cufile.CuFile.raw_read_async(buf, stream, size=None, file_offset=0, dev_offset=0)
cufile.CuFile.raw_write_async(buf, stream, size=None, file_offset=0, dev_offset=0)
cufile.IOFuture(handle)
cufile.IOFuture.get()
cufile.IOFuture.done()
cufile.IOFutureStream(handle)
cufile.IOFutureStream.check_bytes_done()
cufile.get_page_cache_info(file, offset=0, length=0)
cufile.drop_file_page_cache(file, offset=0, length=0, sync_first=True)
cufile.drop_system_page_cache(reclaim_dentries_and_inodes=True, sync_first=True)
cufile.clear_page_cache(reclaim_dentries_and_inodes=True, clear_dirty_pages=True)
cufile.memory_register(buf)
cufile.memory_deregister(buf)
cufile.bounce_buffer_free()
cufile_driver.get(config_name)
cufile_driver.set(*config)
cufile_driver.libcufile_version()
cufile_driver.driver_open()
cufile_driver.driver_close()
cufile_driver.initialize()
mmap.Mmap(file_path, flags='r', initial_map_size=None, initial_map_offset=0, mode=420, map_flags=None)
mmap.Mmap.initial_map_size()
mmap.Mmap.initial_map_offset()
mmap.Mmap.file_size()
mmap.Mmap.close()
mmap.Mmap.closed()
mmap.Mmap.read(buf, size=None, offset=0)
mmap.Mmap.pread(buf, size=None, offset=0, task_size=None)
remote_file.is_remote_file_available()
remote_file.infer_remote_endpoint_type(url)
remote_file.RemoteFile.open(url, remote_endpoint_type=0, allow_list=None, nbytes=None)
remote_file.RemoteFile.open_http(url, nbytes=None)
remote_file.RemoteFile.open_s3(bucket_name, object_name, nbytes=None, aws_region_name=None, aws_access_key_id=None, \
aws_secret_access_key=None, aws_endpoint_url=None, aws_session_token=None)
remote_file.RemoteFile.open_s3_url(url, nbytes=None, aws_region_name=None, aws_access_key_id=None, \
aws_secret_access_key=None, aws_endpoint_url=None, aws_session_token=None)
remote_file.RemoteFile.open_s3_public(url, nbytes=None)
remote_file.RemoteFile.open_s3_presigned_url(presigned_url, nbytes=None)
remote_file.RemoteFile.open_webhdfs(url, nbytes=None)
remote_file.RemoteFile.close()
remote_file.RemoteFile.nbytes()
remote_file.RemoteFile.remote_endpoint_type()
remote_file.RemoteFile.read(buf, size=None, file_offset=0)
remote_file.RemoteFile.pread(buf, size=None, file_offset=0)
defaults.get(config_name)
defaults.set(*config)
defaults.compat_mode()
defaults.is_compat_mode_preferred()
defaults.compat_mode_reset(compatmode)
defaults.set_compat_mode(compatmode)
defaults.get_num_threads()
defaults.num_threads()
defaults.num_threads_reset(nthreads)
defaults.set_num_threads(nthreads)
defaults.task_size()
defaults.task_size_reset(nbytes)
defaults.set_task_size(nbytes)
defaults.gds_threshold()
defaults.gds_threshold_reset(nbytes)
defaults.set_gds_threshold(nbytes)
defaults.bounce_buffer_size()
defaults.bounce_buffer_size_reset(nbytes)
defaults.set_bounce_buffer_size(nbytes)
defaults.http_max_attempts()
defaults.http_max_attempts_reset(attempts)
defaults.set_http_max_attempts(attempts)
defaults.http_timeout()
defaults.http_timeout_reset(timeout)
defaults.set_http_timeout(timeout)
defaults.http_status_codes()
defaults.http_status_codes_reset(status_codes)
defaults.set_http_status_codes(status_codes)
""".split("\n")[1:-1]
TOP_LEVEL = """CompatMode CuFile Mmap RemoteEndpointType RemoteFile bounce_buffer_free clear_page_cache
drop_file_page_cache drop_system_page_cache get_page_cache_info infer_remote_endpoint_type is_remote_file_available
memory_deregister memory_register cufile cufile_driver defaults mmap remote_file""".split()


def signature_of_text(text, given=()):
    """The signature that a line `name(arguments)` describes; `\\N` stands for the Nth of the defaults."""
    source = re.sub(r"\\(\d+)", r"_defaults[\1]", text)
    names = {"_defaults": given}
    exec(f"from __future__ import annotations\ndef f({source}: ...", names)
    return inspect.signature(names["f"])


def signature_of(function):
    """Of a Python function, or of one that nanobind bound."""
    bound = getattr(function, "__nb_signature__", None)
    if bound is None:
        return inspect.signature(function)
    (text, _, given), *others = bound
    assert not others
    return signature_of_text(text.partition("(")[2], given)


@pytest.mark.parametrize("line", DOCUMENTED)
def test_a_documented_call_is_possible_here(line):
    name, _, arguments = line.partition("(")
    module, *path = name.split(".")
    found = importlib.import_module(f"damacy.{module}")
    for part in path:
        owner, found = found, getattr(found, part)
    ours = list(signature_of(found).parameters.values())
    if inspect.isclass(owner) and not inspect.ismethod(found):
        assert ours.pop(0).name == "self"
    theirs = list(signature_of_text(arguments).parameters.values())
    assert [(it.name, it.kind, it.default) for it in ours[: len(theirs)]] == [
        (it.name, it.kind, it.default) for it in theirs
    ]
    more = ours[len(theirs) :]
    assert all(it.default is not it.empty for it in more), "a further argument that KvikIO's callers do not give"


def test_properties_of_kvikio_are_properties():
    assert isinstance(cufile.CuFile.closed, property) and not isinstance(mmap.Mmap.closed, property)


def test_the_package_has_the_names_of_kvikio_s_package():
    for name in TOP_LEVEL:
        program = f"import damacy; assert {name!r} in dir(damacy); damacy.{name}"
        assert getattr(damacy, name) is not None
        if name in sys.modules["damacy"]._LAZY_MODULES:
            subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert damacy.is_remote_file_available() in (True, False)


@pytest.mark.parametrize("call", [cufile.drop_system_page_cache, cufile.clear_page_cache])
def test_the_page_cache_of_the_machine_is_dropped_by_the_kernel_s_file(tmp_path, monkeypatch, call):
    done = []
    monkeypatch.setattr(page_cache.os, "sync", lambda: done.append("sync"))
    switch = tmp_path / "drop_caches"
    monkeypatch.setattr(page_cache, "_DROP_CACHES", str(switch))
    assert call() is True and (switch.read_text(), done) == ("3", ["sync"])
    assert call(False, False) is True and (switch.read_text(), done) == ("1", ["sync"])
    monkeypatch.setattr(page_cache, "_DROP_CACHES", str(tmp_path / "no folder" / "drop_caches"))
    assert call() is False


# -- cufile_driver -----------------------------------------------------------------------------------------------------


def test_properties_of_the_driver_are_kept_and_restored():
    before = cufile_driver.get("poll_thresh_size")
    with cufile_driver.set("poll_thresh_size", 1024):
        assert cufile_driver.get("poll_thresh_size") == 1024
        with cufile_driver.set({"poll_thresh_size": 2048, "poll_mode": True}):
            assert (cufile_driver.get("poll_thresh_size"), cufile_driver.get("poll_mode")) == (2048, True)
        assert (cufile_driver.get("poll_thresh_size"), cufile_driver.get("poll_mode")) == (1024, False)
    assert cufile_driver.get("poll_thresh_size") == before
    cufile_driver.set("max_pinned_memory_size", 1)
    assert cufile_driver.get("max_pinned_memory_size") == 1
    cufile_driver.set("max_pinned_memory_size", 32 << 20)


def test_what_cannot_be_set_changes_nothing():
    kept = dict(cufile_driver._kept)
    for name in ("is_gds_available", "major_version", "minor_version", "allow_compat_mode", "per_buffer_cache_size"):
        assert cufile_driver.get(name) is not None
        with pytest.raises(KeyError, match="read-only"):
            cufile_driver.set({"poll_thresh_size": 7, name: 1})
    for wrong, error in [
        (("of another library", 1), KeyError),
        (({"poll_mode": True, "of another library": 1},), KeyError),
        (("max_device_cache_size", -1), OverflowError),
        (("max_device_cache_size", "1"), TypeError),
        ((), ValueError),
        (("poll_mode",), ValueError),
        ((1, 2), ValueError),
    ]:
        with pytest.raises(error):
            cufile_driver.set(*wrong)
    with pytest.raises(KeyError):
        cufile_driver.get("of another library")
    assert cufile_driver._kept == kept


def test_the_kernel_module_says_whether_there_is_gpudirect_storage(tmp_path, monkeypatch):
    monkeypatch.setattr(cufile_driver._native, "cufile_probe", lambda: {"usable": True, "version": 1150})
    monkeypatch.setattr(cufile_driver, "_MODULE_VERSION", tmp_path / "version")
    assert [cufile_driver.get(name) for name in ("is_gds_available", "major_version", "minor_version")] == [False, 0, 0]
    (tmp_path / "version").write_text("2.24.2\n")
    assert [cufile_driver.get(name) for name in ("is_gds_available", "major_version", "minor_version")] == [True, 2, 24]
    assert cufile_driver.libcufile_version() == (1, 15)
    for call in (cufile_driver.driver_open, cufile_driver.driver_close, cufile_driver.initialize):
        assert call() is None


def test_without_libcufile_opening_the_driver_says_why(monkeypatch):
    absent = {"usable": False, "version": 0, "reason": "libcufile.so.0: not found"}
    monkeypatch.setattr(cufile_driver._native, "cufile_probe", lambda: absent)
    assert cufile_driver.libcufile_version() == (0, 0) and cufile_driver.get("is_gds_available") is False
    for call in (cufile_driver.driver_open, cufile_driver.driver_close, cufile_driver.initialize):
        with pytest.raises(cufile.CuFileLibraryError, match="not found") as caught:
            call()
        assert isinstance(caught.value, RuntimeError)
