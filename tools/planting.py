"""Plants a fault into a source file, checks that a test fails, and restores the file. Knows no faults and no tests."""

import dataclasses
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    file: str  # path below the root
    stands: str  # text in the file, at least once
    planted: str  # text that replaces it


def build(folder: str, *targets: str) -> None:
    subprocess.run(["cmake", "--build", folder, "-j2", "--target", *targets], check=True, capture_output=True)


def passes(*command: str) -> bool:
    """Whether a test program passes within five minutes."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}"}
    try:
        return subprocess.run(command, capture_output=True, timeout=300, cwd=ROOT, env=environment).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run(faults: Iterable[Fault], tests_pass: Callable[[str], bool], sound: Iterable[str]) -> int:
    """Prints a line for each fault. Returns 1 if no test detected one, or if tests fail without any fault.

    `tests_pass` builds and runs the tests of a file. `sound`: files whose tests run at the end, without a fault."""
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
