"""Turns the lines that on_gpu.sh printed into one result file, with commit, machine and command.

usage: keep_results.py CODEC_JSONL COMMIT OUTPUT [COMMAND]
"""

import json
import sys
from pathlib import Path

COMMAND = "bench/codec/on_gpu.sh build/bench/codec_bench libnvcomp.so.5"


def main(lines: str, commit: str, output: str, command: str = COMMAND) -> None:
    """Writes `output`. Lines that are not JSON come from the sanitizers and are kept as text."""
    machine, rows, checks, notes = {}, [], [], []
    for line in Path(lines).read_text().splitlines():
        if not line.startswith("{"):
            notes.append(line)
            continue
        item = json.loads(line)
        if "device" in item and "multiprocessors" in item:
            machine = machine or {key: item[key] for key in ("device", "multiprocessors", "threads", "nvcomp")}
        elif "row" in item:
            rows.append(item)
        else:
            checks.append(item)
    result = {"commit": commit, "machine": machine, "command": command, "rows": rows, "checks": checks, "notes": notes}
    parts = [f"{json.dumps(key)}: {dump(value)}" for key, value in result.items()]
    Path(output).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def dump(value: object) -> str:
    """One item a line, so that two results can be compared by eye."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n]"


if __name__ == "__main__":
    main(*sys.argv[1:])
