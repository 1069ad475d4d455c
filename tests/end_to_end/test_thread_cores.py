"""`Config.thread_cores`: threads of a rank's pipeline keep to its share of the cores, and the program's do not move."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, pathlib, sys, threading
import damacy

def cores(thread):
    status = (pathlib.Path("/proc/self/task") / thread / "status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))

def thread_name(thread):
    return (pathlib.Path("/proc/self/task") / thread / "comm").read_text().strip()

os.sched_setaffinity(0, json.loads(sys.argv[1]))
before = cores(str(os.getpid()))
with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", thread_cores=sys.argv[2])):
    own = set()
    while len(own) < 2:  # a thread names itself
        own = {thread_name(thread) for thread in os.listdir("/proc/self/task")} & {"damacy-read", "damacy-plan"}
    own = {cores(thread) for thread in os.listdir("/proc/self/task") if thread_name(thread) in own}
    later = []
    thread = threading.Thread(target=lambda: later.append(cores(str(threading.get_native_id()))))
    thread.start()
    thread.join()
print(json.dumps([sorted(own), before == cores(str(os.getpid())) == later[0]]))
"""


def cores_of_threads(rank, ranks, cores, thread_cores="rank"):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    environment |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(cores), thread_cores],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    own, others_stay = json.loads(done.stdout)
    assert others_stay
    return own


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be shared")
def test_threads_of_two_ranks_keep_to_a_core_each():
    first, second = sorted(os.sched_getaffinity(0))[:2]
    assert cores_of_threads(0, 2, [first, second]) == [str(first)]
    assert cores_of_threads(1, 2, [first, second]) == [str(second)]
    all_cores = [f"{first}-{second}" if second == first + 1 else f"{first},{second}"]
    assert cores_of_threads(1, 2, [first, second], "all") == all_cores
    assert cores_of_threads(0, 1, [first, second]) == all_cores
    assert cores_of_threads(2, 3, [first, second]) == all_cores  # fewer cores than ranks
