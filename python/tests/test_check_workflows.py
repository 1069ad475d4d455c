"""The check of hosted CI's files: the files of this repository pass, and each kind of mistake is named."""

import copy
import importlib.util
import pathlib

import pytest

yaml = pytest.importorskip("yaml")

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = {
    "on": {"schedule": [{"cron": "17 2 * * *"}]},
    "permissions": {"contents": "read"},
    "jobs": {
        "test": {
            "runs-on": "ubuntu-24.04",
            "timeout-minutes": 5,
            "strategy": {"matrix": {"python": ["3.12"]}},
            "steps": [
                {"uses": "actions/checkout@v4"},
                {"run": "sudo make apt"},
                {"run": "make test PYTHON=python${{ matrix.python }}"},
            ],
        }
    },
}


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_workflows", ROOT / "tools" / "check_workflows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def faults(check, change=lambda workflow: None):
    workflow = copy.deepcopy(GOOD)
    change(workflow)
    return check.faults(workflow, {"apt", "test"}, {"PYTHON"})


def test_the_workflows_at_hand_name_targets_and_variables_of_the_makefile(check):
    targets, variables = check.made((ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {"test", "wheels", "sdist", "release"} <= targets
    paths = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(paths) >= 3
    for path in paths:
        assert check.faults(yaml.safe_load(path.read_text(encoding="utf-8")), targets, variables) == [], path.name


def test_a_good_workflow_has_no_faults(check):
    assert faults(check) == []


@pytest.mark.parametrize(
    "step, fault",
    [
        ({"run": "make tests"}, "the Makefile has no target tests"),
        ({"run": "make test PYHTON=python"}, "the Makefile reads no variable PYHTON"),
        ({"run": "make PYTHON=python"}, "names no target"),
        ({"run": "pytest -q"}, "is not a make target"),
        ({"uses": "actions/checkout"}, "names no version"),
        ({"name": "nothing"}, "must have one of `uses` and `run`"),
        ({"run": "make test PYTHON=${{ matrix.pythn }}"}, "unknown expression matrix.pythn"),
    ],
)
def test_each_mistake_in_a_step_is_named(check, step, fault):
    (found,) = faults(check, lambda workflow: workflow["jobs"]["test"]["steps"].append(step))
    assert found.startswith("job test: ") and fault in found


@pytest.mark.parametrize(
    "change, fault",
    [
        (lambda workflow: workflow.pop("permissions"), "no permissions"),
        (lambda workflow: workflow["on"].update(schedule=[{"cron": "17 2 * *"}]), "five fields"),
        (lambda workflow: workflow["on"].update(pushed={}), "unknown event pushed"),
        (lambda workflow: workflow["jobs"]["test"].pop("timeout-minutes"), "timeout-minutes is missing"),
        (lambda workflow: workflow["jobs"]["test"].update(needs="lint"), "needs lint"),
        (lambda workflow: workflow["jobs"]["test"]["strategy"]["matrix"]["python"].append(3.1), "not quoted"),
    ],
)
def test_each_mistake_in_a_workflow_is_named(check, change, fault):
    (found,) = faults(check, change)
    assert fault in found


def test_yaml_that_reads_on_as_true_is_understood(check):
    assert faults(check, lambda workflow: workflow.update({True: workflow.pop("on")})) == []
