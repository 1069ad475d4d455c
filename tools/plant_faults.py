#!/usr/bin/env python3
"""Leaves out one wait of the stream engine, of single reads or of file I/O at a time; a test on the lazy host device
must fail.

    tools/plant_faults.py BUILD [NAME …]     a configured build folder; sources are put back afterwards

Prints a line a fault, and exits 1 if one went unnoticed. Knows which lines order the work of a wave and of
a staging block; does not know why.
"""

import pathlib
import sys
from collections.abc import Iterator

from planting import Fault, build, passes, run

FAULTS = [  # what is left out, where in the pipeline layer, its text, what stands there instead
    ("decoding does not wait for the copies", "wave_runner.cpp", "  stream.wait(up);\n", ""),
    ("placing does not wait for decoding", "wave_runner.cpp", "  main_->wait(wave.decoded);\n", ""),
    ("placing a few at a time does not wait for decoding", "wave_runner.cpp", "  repair_->wait(wave.decoded);\n", ""),
    ("placing does not wait for the slot's consumers", "wave_runner.cpp", "main_->wait(last_use);\n", ";\n"),
    ("a share retires before it is placed", "wave_runner.cpp", "      share.done.wait();\n", ""),
    ("a repair is not waited for", "wave_runner.cpp", "    repair_->record().wait();\n", ""),
    ("a piece goes up before it is read", "wave.cpp", "piece.open > 0 || ", ""),
    ("a piece goes up while it is filled", "wave.cpp", "!piece.full || ", ""),
    ("staging memory is used again before it is up", "wave_runner.cpp", "      piece.ended.wait();\n", ""),
    ("memory that a hung read keeps is waited for", "slab_read.h", "    staged_.strand(why);\n", ""),
    (
        "frames of a wave are not counted",
        "stream_engine.cpp",
        "    frames.image_bytes = frame_images - std::min(frame_images, kImagePadding);\n",
        "",
    ),
    ("a wave is not made smaller for its frames", "wave_former.cpp", " <= frame_room_.bytes();", " <= kUnlimited;"),
    (
        "portions of placements are not waited for",
        "wave_runner.cpp",
        "    repair_->record().wait();\n  });\n",
        "  });\n",
    ),
    ("a wave goes before its reads ended", "wave.cpp", "  if (sealed_ && open_ranges_ == 0)", "  if (sealed_)"),
    ("a slot is lent without its consumers' work", "slots.cpp", "    loan->ready_ = std::move(use.last.fences);\n", ""),
    ("a failed batch drops what its slot waits for", "slots.cpp", "last.fences = std::move(loan.ready_);\n", ";\n"),
    (
        "memory of an added slot goes before its last use",
        "slots_growth.cpp",
        "    memory.ordered.free_after(std::move(use.last.fences));\n",
        "",
    ),
]
DEVICE_READ_FAULTS = [  # single reads of zarr-python's, and device arrays
    ("a read ends before its wave", "device_reads.cpp", "  done.wait();\n", ""),
    ("placing does not wait for work at the destination", "device_reads.cpp", "stream.wait(before);\n", ";\n"),
    ("a copy up or down returns before it is made", "device_queue.cpp", "  stream_->record().wait();\n", ""),
    ("a copy is described anew before it was made", "device_queue.cpp", "  image_used_.wait();\n", ""),
    ("a queue does not wait for others' work", "device_queue.cpp", "  stream_->wait(event);\n", ""),
]
SLOT_WAIT = "    if (slot_->reusable.ready()) return;\n    slot_->reusable.wait();\n"
IO_FAULTS = [  # the same of the io layer
    ("a slot is filled before it was copied", "staging.cpp", SLOT_WAIT, "    return;\n"),
    ("copies do not wait for the producer", "staging.cpp", "    block_->stream().wait(device.before);\n", ""),
    ("a slot is written before it was filled", "staging.cpp", "      now.slot->reusable.wait();\n", ""),
    ("copies are not told of", "staging.cpp", "    if (has_copied_) operation_.copies_until(last_);\n", ""),
    ("a request ends before its copies", "operation.cpp", "        event.wait();\n", ""),
    (
        "a timed wait ends before the copies",
        "operation.cpp",
        "      while (!event.ready()) {\n",
        "      while (false) {\n",
    ),
    ("done() does not ask for the copies", "operation.cpp", "      if (!event.ready()) return false;\n", ";\n"),
    ("callbacks come before the copies", "operation.cpp", "  await_copies(std::nullopt, {});\n", ""),
    ("a stream request does not wait", "stream_requests.cpp", "    block->stream().wait(on.before);\n", ""),
    ("a stream request ends at once", "stream_requests.cpp", "      operation.copies_until(slot.reusable);\n", ""),
    ("cuFile does not wait for the producer", "cufile_engine.cpp", "  slice.device->before.wait();", "  "),
    ("cuFile's call is not waited for", "cufile_engine.cpp", "  stream->record().wait();\n", ""),
]
LATE = "*OnDevice*/lazy:*OnDevice*/random*:CuFileEngineTest*"  # suites on devices that work late


def faults() -> Iterator[Fault]:
    for layer, of_layer in (("pipeline", FAULTS + DEVICE_READ_FAULTS), ("io", IO_FAULTS)):
        for name, file, stands, planted in of_layer:
            yield Fault(name, f"src/damacy/{layer}/{file}", stands, planted)


def main(folder: str, names: list[str]) -> int:
    def tests_pass(file: str) -> bool:
        tests = file.split("/")[2] + "_tests"
        build(folder, tests)
        return passes(f"{folder}/{tests}", f"--gtest_filter={LATE}", "--gtest_repeat=3")

    chosen = [fault for fault in faults() if not names or fault.name in names]
    return run(chosen, tests_pass, sound=["src/damacy/pipeline/", "src/damacy/io/"])


if __name__ == "__main__":
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]))
