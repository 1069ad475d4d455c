"""How long a new process needs: to import damacy, and from its start to the first batch of a small sample.

Knows how to start a Python process and read one line from it. Does not measure throughput.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from bench import workload, writer

_IMPORT = """
import time; a = time.perf_counter(); c = time.process_time()
import damacy
print(time.perf_counter() - a, time.process_time() - c)
"""

_FIRST_BATCH = """
import json, sys, time
uri, box, device = json.loads(sys.argv[1])
import damacy
config = damacy.Config(batch_size=1, host_buffer_bytes=1 << 28, device_buffer_bytes=1 << 28, device=device)
with damacy.Pipeline(config) as pipeline:
    pipeline.push([damacy.Sample(uri, [tuple(axis) for axis in box])])
    with pipeline.pop() as batch:
        print(time.monotonic(), time.process_time())
"""


def measure(device: str = "cpu", rounds: int = 7) -> dict:
    """Medians and minima over several processes, in seconds. The first process only fills the page cache."""
    scenario = workload.scenario("smoke", "small")
    writer.prepare(scenario.arrays)
    array, box = next(scenario.crops())
    sample = json.dumps([str(scenario.arrays[array].path), box, device])
    imports = [_run(_IMPORT) for _ in range(rounds + 1)][1:]
    batches = []
    for _ in range(rounds + 1):
        start = time.monotonic()
        end, cpu = _run(_FIRST_BATCH, sample)
        batches.append((end - start, cpu))
    return {"import_damacy": _summary(imports), "cold_first_batch": _summary(batches[1:])}


def _run(program: str, *arguments: str) -> tuple[float, float]:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "a cold process failed")
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def _summary(pairs: list[tuple[float, float]]) -> dict:
    wall, cpu = zip(*pairs)
    return {"median_s": statistics.median(wall), "best_s": min(wall), "median_cpu_s": statistics.median(cpu)}
