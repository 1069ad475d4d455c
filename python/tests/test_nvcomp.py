"""Where nvCOMP is searched for, and the message if it is not installed."""

import importlib
import sys

import pytest

import damacy
from damacy._pipeline import nvcomp


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that replaces `nvidia.libnvcomp`."""
    for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    folder = tmp_path / "nvidia" / "libnvcomp" / "lib64"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('the package must not be imported')")
    importlib.invalidate_caches()
    return folder


def test_the_newest_known_library_of_the_package_comes_first(package):
    for name in ("libnvcomp.so.5", "libnvcomp.so.6", "libnvcomp.so.9", "libnvcomp_cpu.so.6"):
        (package / name).touch()
    names = ["libnvcomp.so.6", "libnvcomp.so.5", "libnvcomp.so.9"]
    assert nvcomp.nvcomp_files() == [str(package / name) for name in names]


def test_no_package_is_no_file(package, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    assert nvcomp.nvcomp_files() == []


@pytest.mark.parametrize("files", [[], ["/nowhere/libnvcomp.so.6"], [__file__]], ids=["none", "gone", "no library"])
def test_a_pipeline_without_the_library_says_what_to_install(monkeypatch, files):
    monkeypatch.setattr(nvcomp, "nvcomp_files", lambda: files)
    try:
        damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", gpu_decoder="nvcomp")).close()
    except damacy.InvalidArgument as error:
        assert error.what == "create"
        for part in ("gpu_decoder='nvcomp'", "damacy[nvcomp]", "nvidia-libnvcomp-cu13"):
            assert part in str(error)
    else:
        pytest.skip("this machine's loader finds one")
