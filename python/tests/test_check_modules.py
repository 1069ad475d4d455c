"""The check of imports between Python modules, on small packages written here, and on the package itself."""

import importlib.util
import pathlib

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_modules.py"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_modules", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def package(folder, **modules):
    """A package `p`; `a_b` stands for the module `p.a.b`, and an empty name for `p` itself."""
    root = folder / "p"
    for name, text in {"": "", **modules}.items():
        path = root.joinpath(*name.split("_")).with_suffix(".py") if name else root / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_tree_is_clean(check, capsys):
    assert check.main([]) == 0
    assert "no ring" in capsys.readouterr().out


@pytest.mark.parametrize(
    "modules",
    [
        {"a": "import p.b", "b": "import p.a"},
        {"a": "from p import b", "b": "from p.a import x"},
        {"a": "def f():\n    from p.b import x", "b": "import p.a"},
        {"a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.b", "b": "import p.a"},
        {"a": "from . import b", "b": "from .a import x"},
        {"a": "import p.b", "b": "import p.inner.c", "inner_c": "from ..a import x"},
    ],
    ids=["import", "from", "in a function", "for types", "relative", "through a folder"],
)
def test_a_ring_is_found(check, tmp_path, capsys, modules):
    assert check.main([str(package(tmp_path, **modules))]) == 1
    said = capsys.readouterr().out
    assert "p.a imports p.b" in said and "imports p.a" in said


def test_imports_in_one_direction_are_no_ring(check, tmp_path):
    modules = {"a": "import p.b, p.c", "b": "import p.c\nfrom p import x, _native", "c": "import os"}
    assert check.offences(package(tmp_path, **modules)) == []


def test_two_rings_are_two_violations(check, tmp_path):
    modules = {"a": "import p.b", "b": "import p.a", "c": "import p.d, p.a", "d": "import p.c"}
    assert len(check.offences(package(tmp_path, **modules))) == 2


def test_a_package_that_its_own_modules_import_names_from_is_in_a_ring(check, tmp_path):
    root = package(tmp_path, a="from p import x")
    assert check.offences(root) == []
    (root / "__init__.py").write_text("from p.a import y")
    (ring,) = check.offences(root)
    assert "p imports p.a" in ring and "p.a imports p" in ring


def test_a_folder_with_too_many_modules_is_a_violation(check, tmp_path):
    modules = {f"m{number}": "" for number in range(check.MOST_MODULES)}
    root = package(tmp_path, **modules)
    (offence,) = check.offences(root)
    assert f"{check.MOST_MODULES + 1} modules, at most {check.MOST_MODULES}" in offence
    (root / "m0.py").unlink()
    assert check.offences(root) == []
