"""Programs that end while operations of `damacy.cufile` run, or while their callbacks wait to be called."""

import pytest
from support import child

START = """
import atexit, sys, threading
go_on = threading.Event()

def late():  # after damacy's own handler, which is registered later
    go_on.set()
    threading.Event().wait(0.1)  # the callback thread continues meanwhile

atexit.register(late)
import damacy.cufile
from damacy import _native

class Traced(bytearray):
    def __del__(self):
        print("freed", file=sys.stderr)
"""

# The callback thread stays in the first callback until Python has begun to end; the other callbacks wait.
BEHIND = """
file = damacy.cufile.CuFile(sys.argv[1], "w")
entered = threading.Event()
_native.io_pause(True)
def hold(_):
    entered.set()
    go_on.wait(30)
file.pwrite(bytearray(4096)).add_done_callback(hold)
for k in range(20):
    future = file.pwrite(Traced(4096), file_offset=4096 * k)
    if CALLBACK:
        future.add_done_callback(lambda _, kept=Traced(1): None)
del future
_native.io_pause(False)
assert entered.wait(30)
"""

RUNNING = """
file = damacy.cufile.CuFile(sys.argv[1], "w+")
class Quiet(bytearray):
    def __del__(self):
        sum(self[:10])
for k in range(300):
    file.pwrite(Quiet(200_000), file_offset=200_000 * (k % 7), task_size=50_000).add_done_callback(lambda _: None)
    file.pread(Quiet(1000), file_offset=k, exact=False)
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("callback", [False, True])
def test_a_callback_that_ends_during_finalization_frees_no_python_object(tmp_path, callback):
    child.run_well(START + BEHIND.replace("CALLBACK", str(callback)), tmp_path / "file")


@pytest.mark.timeout(120)
def test_a_program_ends_normally_while_operations_run(tmp_path):
    for _ in range(10):
        child.run_well(START + RUNNING, tmp_path / "file")
