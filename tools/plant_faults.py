#!/usr/bin/env python3
"""Leaves out one wait of the stream engine at a time and demands that a test on the lazy host device fails.

    tools/plant_faults.py BUILD      a configured build folder of this checkout; its sources are put back afterwards

Prints a line a fault, and exits 1 if one went unnoticed. Knows which lines order the work of a wave; does not know why.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIPELINE = ROOT / "src/damacy/pipeline"
FAULTS = [  # what is left out, where, its text, what stands there instead
    ("decoding does not wait for the copies", "wave_runner.cpp", "  stream.wait(wave.up);\n", ""),
    ("placing does not wait for decoding", "wave_runner.cpp", "  main_->wait(wave.decoded);\n", ""),
    ("placing does not wait for the slot's consumers", "wave_runner.cpp", "main_->wait(last_use);\n", ";\n"),
    ("a share retires before it is placed", "wave_runner.cpp", "      share.done.wait();\n", ""),
    ("a repair is not waited for", "wave_runner.cpp", "    repair_->record().wait();\n", ""),
    ("a piece goes up before it is read", "wave.cpp", "pieces_[piece].open > 0 || ", ""),
    ("a wave goes before its reads ended", "wave.cpp", "  if (sealed_ && open_ranges_ == 0)", "  if (sealed_)"),
]


def tests_pass(build: str) -> bool:
    subprocess.run(["cmake", "--build", build, "--target", "pipeline_tests"], check=True, capture_output=True)
    command = [f"{build}/pipeline_tests", "--gtest_filter=*OnDevice*/lazy:*OnDevice*/random*", "--gtest_repeat=3"]
    try:
        return subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def noticed(build: str, path: pathlib.Path, text: str, instead: str) -> bool:
    source = path.read_text()
    assert text in source, f"{path.name} has changed: {text!r} is gone"
    try:
        path.write_text(source.replace(text, instead))
        return not tests_pass(build)
    finally:
        path.write_text(source)


def main(build: str) -> int:
    unnoticed = 0
    for name, file, text, instead in FAULTS:
        found = noticed(build, PIPELINE / file, text, instead)
        unnoticed += not found
        print(f"{'noticed  ' if found else 'UNNOTICED'}  {name}", flush=True)
    print("sound" if tests_pass(build) else "the tests fail without a fault")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
