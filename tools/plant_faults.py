#!/usr/bin/env python3
"""Leaves out one wait of the stream engine at a time and demands that a test on the lazy host device fails.

    tools/plant_faults.py BUILD      a configured build folder of this checkout; its sources are put back afterwards

Prints a line a fault, and exits 1 if one went unnoticed. Knows which lines order the work of a wave; does not know why.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNNER = ROOT / "src/damacy/pipeline/wave_runner.cpp"
FAULTS = {
    "decoding does not wait for the copy": "  main_->wait(wave.up);\n",
    "a wave retires before it is done": "      (*wave)->done.wait();\n",
    "a repair is not waited for": "    repair_->record().wait();\n",
    "a wave goes before its reads ended": "    (*wave)->wait_reads({});\n",
    "placing does not wait for the slot's consumers": "main_->wait(last_use);\n",
}


def tests_pass(build: str) -> bool:
    subprocess.run(["cmake", "--build", build, "--target", "pipeline_tests"], check=True, capture_output=True)
    command = [f"{build}/pipeline_tests", "--gtest_filter=*OnDevice*/lazy:*OnDevice*/random*", "--gtest_repeat=3"]
    try:
        return subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main(build: str) -> int:
    source = RUNNER.read_text()
    unnoticed = 0
    try:
        for name, line in FAULTS.items():
            assert line in source, f"{RUNNER.name} has changed: {line!r} is gone"
            RUNNER.write_text(source.replace(line, ";\n" if line.startswith("main_") else "\n"))
            noticed = not tests_pass(build)
            unnoticed += not noticed
            print(f"{'noticed  ' if noticed else 'UNNOTICED'}  {name}", flush=True)
    finally:
        RUNNER.write_text(source)
    print("sound" if tests_pass(build) else "the tests fail without a fault")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
