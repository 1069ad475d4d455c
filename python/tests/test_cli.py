"""The command line, run as users run it."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
zarr = pytest.importorskip("zarr")

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def damacy(*arguments, **environment):
    path = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "damacy", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "120", "NO_COLOR": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=110,
    )


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "a.zarr"
    zarr.create_array(path, shape=(8, 20), chunks=(2, 5), shards=(4, 10), dtype="int16")[:] = 1
    return path


def test_without_arguments_it_lists_its_commands():
    shown = damacy()
    assert all(command in shown.stdout + shown.stderr for command in ("info", "doctor", "demo"))


def test_it_prints_its_version():
    shown = damacy("--version")
    assert shown.returncode == 0
    assert shown.stdout.split() == ["damacy", importlib.import_module("damacy").__version__]


def test_info_describes_an_array(array):
    shown = damacy("info", array)
    assert shown.returncode == 0
    for text in (str(array), "8 × 20", "int16", "2 × 5", "4 × 10", "zstd", "yes"):
        assert text in shown.stdout


def test_info_as_json_is_one_document(array):
    found = json.loads(damacy("info", array, "--json").stdout)
    assert found["uri"] == str(array)
    assert (found["shape"], found["chunks"], found["shards"]) == ([8, 20], [2, 5], [4, 10])
    assert (found["dtype"], found["zarr_format"], found["supported"], found["why_not"]) == ("int16", 3, True, None)


def test_info_of_nothing_fails_in_one_line(tmp_path):
    shown = damacy("info", tmp_path / "none[b].zarr")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.startswith("NotFound: ")
    assert "none[b].zarr" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_info_of_nothing_as_json_is_a_document_too(tmp_path):
    shown = damacy("info", tmp_path / "none.zarr", "--json")
    assert shown.returncode == 1
    assert json.loads(shown.stdout)["error"] == "NotFound"


def test_doctor_reports_the_machine():
    shown = damacy("doctor")
    assert shown.returncode == 0, shown.stderr
    for text in ("python", "damacy", "built with", "backend", "cores", "memory", "open files", "numpy", "torch"):
        assert text in shown.stdout


def test_doctor_as_json_has_the_same_facts():
    found = json.loads(damacy("doctor", "--json").stdout)
    assert found["usable"] is True
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["numpy"] == np.__version__
    assert found["open files"]["soft"] > 0
    built = found["built with"]
    assert built == found["backend"]["cuda_build"]
    assert built == "" if found["backend"]["cuda_reason"] == "built without CUDA" else "kernels for" in built


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_package_is_named(tmp_path, missing):
    (tmp_path / missing).mkdir()
    (tmp_path / missing / "__init__.py").write_text(f"raise ModuleNotFoundError(name={missing!r})")
    shown = damacy("doctor", PYTHONPATH=f"{tmp_path}{os.pathsep}{PACKAGE}")
    assert shown.returncode == 1
    assert f"needs the package {missing}" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)  # half a minute of both cores, when they are free
def test_the_demo_does_its_job(tmp_path):
    pytest.importorskip("tensorstore")
    pytest.importorskip("nibabel")
    shown = damacy("demo", "--folder", tmp_path / "data", "--picture", tmp_path / "demo.png", "--json")
    assert shown.returncode == 0, shown.stderr
    outcome = json.loads(shown.stdout)
    assert outcome["mismatches"] == 0
    assert [a["checked"] >= 16 for a in outcome["arrays"]] == [True, True]
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("shell", "mark"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete ")])
def test_completion_prints_a_script_for_a_shell(shell, mark):
    shown = damacy("completion", shell)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert mark in shown.stdout
    assert "_DAMACY_COMPLETE" in shown.stdout


def test_a_shell_gets_completions_of_commands_and_options():
    def completions(words):
        asked = {"_DAMACY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        return damacy(**asked).stdout.split()

    assert completions("damacy ver") == ["verify"]
    assert {"--json", "--help"} <= set(completions("damacy doctor --"))


def test_completion_for_an_unknown_shell_is_refused():
    assert damacy("completion", "dos").returncode == 2


def test_bench_writes_its_result_as_a_page(array, tmp_path):
    page = tmp_path / "<bench>.html"
    shown = damacy("bench", array, "--seconds", "0.01", "--no-peers", "--threads", "1", "--html", page)
    assert shown.returncode == 0, shown.stderr
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "ceiling: read" in text
    assert all(mark not in text for mark in ("<script", "<link", "src=", "http"))
    there = damacy("bench", array, "--seconds", "0.01", "--no-peers", "--html", tmp_path / "none" / "p.html")
    assert there.returncode == 1
    assert "Traceback" not in there.stderr
