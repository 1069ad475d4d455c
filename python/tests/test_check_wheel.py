"""The judge of wheels, on small files made here."""

import importlib.util
import json
import pathlib
import zipfile

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_wheel.py"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_wheel", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(
    check, folder, tag="cp312-abi3", library="damacy/_native.abi3.so", code=b"elf", without=(), extra=(), versions=()
):
    path = folder / f"damacy-1.0-{tag}-manylinux_2_36_x86_64.whl"
    licences = [f"damacy-1.0.dist-info/licenses/{name}" for name in ("LICENSE", "THIRD_PARTY.md")]
    licences += [f"damacy-1.0.dist-info/third-party-licenses/{name}.txt" for name in check._NOTICES]
    components = "damacy-1.0.dist-info/sboms/damacy.cdx.json"
    listed = {name: "1.2" for name in (*check._NOTICES, "cuda-runtime", "libc++")} | dict(versions)
    sbom = {"components": [{"name": name, "version": version} for name, version in listed.items()]}
    with zipfile.ZipFile(path, "w") as made:
        for name in {*check._WANTED, *licences, components, *extra} - set(without):
            made.writestr(name, json.dumps(sbom) if name == components else "text")
        made.writestr(library, code)
    return path


def test_a_good_wheel_has_no_faults(check, tmp_path):
    assert check.faults(wheel(check, tmp_path)) == []


def test_each_fault_is_named(check, tmp_path):
    def only(**changes):
        (fault,) = check.faults(wheel(check, tmp_path, **changes))
        return fault

    assert "cli.py is missing" in only(without=["damacy/cli.py"])
    assert "a.cpp does not belong" in only(extra=["damacy/a.cpp"])
    assert "no licence nanobind.txt" in only(without=["damacy-1.0.dist-info/third-party-licenses/nanobind.txt"])
    assert "no list of its components" in only(without=["damacy-1.0.dist-info/sboms/damacy.cdx.json"])
    assert "component nanobind has the version ''" in only(versions={"nanobind": ""})
    assert "no licence cuda-runtime.txt" in only(code=b"...nv_fatbin...")
    carried = check.faults(wheel(check, tmp_path, extra=["damacy.libs/libother-865753ee.so.2"]))
    assert carried == ["libother-dev is not listed as a component", "there is no licence libother-dev.txt"]
    assert "no licence libc++.txt" in only(code=b"...NSt3__112basic_string...")
    assert "one native library" in only(tag="cp311-cp311", extra=["damacy/_native.other.so"])
    assert "the library does not" in only(library="damacy/_native.cpython-312.so")


def test_a_wheel_that_is_too_large_is_refused(check, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_MAX_BYTES", 10)
    (fault,) = check.faults(wheel(check, tmp_path))
    assert "more than 10" in fault
