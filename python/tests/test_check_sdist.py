"""The check of source packages, on small archives made here."""

import importlib.util
import io
import pathlib
import tarfile

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_sdist.py"
FILES = {"README.md": b"text", "tests/docs/test_docs.py": b"def test(): pass\n"}


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_sdist", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    return tmp_path


def sdist(folder, files, mode=0o644):
    path = folder / "damacy-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return path


def packed(changed=(), without=()):
    files = {f"damacy-1.0/{name}": content for name, content in (FILES | {"PKG-INFO": b"Name: damacy"}).items()}
    return {name: content for name, content in (files | dict(changed)).items() if name not in without}


def test_a_package_of_all_tracked_files_has_no_faults(check, checkout):
    assert check.faults(sdist(checkout, packed()), checkout, set(FILES)) == []


@pytest.mark.parametrize(
    "files, fault",
    [
        (packed(without=["damacy-1.0/tests/docs/test_docs.py"]), "tests/docs/test_docs.py is tracked, and missing"),
        (packed({"damacy-1.0/tests/__pycache__/a.pyc": b""}), "tests/__pycache__/a.pyc is in the package, and not"),
        (packed({"damacy-1.0/README.md": b"old"}), "README.md differs"),
        (packed({"other/README.md": b"text"}), "other/README.md is outside damacy-1.0/"),
        (packed(without=["damacy-1.0/PKG-INFO"]), "PKG-INFO is missing"),
    ],
)
def test_each_difference_is_one_line(check, checkout, files, fault):
    (found,) = check.faults(sdist(checkout, files), checkout, set(FILES))
    assert fault in found


def test_a_script_that_lost_its_mode_is_named(check, checkout):
    (checkout / "README.md").chmod(0o755)
    (found,) = check.faults(sdist(checkout, packed()), checkout, set(FILES))
    assert found == "README.md is executable in only one of the package and the checkout"
