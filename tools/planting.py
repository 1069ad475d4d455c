"""Plants a fault into a source, demands that a test fails, and puts the source back. Knows no faults and no tests."""

import dataclasses
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    file: str  # below the root
    stands: str  # there, at least once
    planted: str  # instead


def build(folder: str, *targets: str) -> None:
    subprocess.run(["cmake", "--build", folder, "-j2", "--target", *targets], check=True, capture_output=True)


def passes(*command: str) -> bool:
    """Whether a program of tests ends well, and within five minutes."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}"}
    try:
        return subprocess.run(command, capture_output=True, timeout=300, cwd=ROOT, env=environment).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run(faults: Iterable[Fault], tests_pass: Callable[[str], bool], sound: Iterable[str]) -> int:
    """Prints a line a fault; 1 if one went unnoticed, or if tests fail without any. `tests_pass` builds and runs the
    tests of a file; `sound`: files by which to ask for all of them at the end."""
    unnoticed = 0
    for fault in faults:
        path = ROOT / fault.file
        source = path.read_text()
        assert fault.stands in source, f"{fault.file} has changed: {fault.stands!r} is gone"
        try:
            path.write_text(source.replace(fault.stands, fault.planted))
            noticed = not tests_pass(fault.file)
        finally:
            path.write_text(source)
        unnoticed += not noticed
        print(f"{'noticed  ' if noticed else 'UNNOTICED'}  {fault.name}", flush=True)
    is_sound = all([tests_pass(file) for file in sound])
    print("sound" if is_sound else "the tests fail without a fault")
    return 1 if unnoticed or not is_sound else 0
