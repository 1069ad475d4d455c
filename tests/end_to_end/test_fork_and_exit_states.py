"""Fork and exit in every state of a program, each in a process of its own."""

import pytest
from support import child
from support.child import EXIT_LIMIT_S, START

# States of a program when it forks or ends. `p` is a pipeline that can continue, except in `closed`.
STATES = {
    "a new pipeline": "p = pipeline()",
    "samples queued": "p = pipeline(); p.push(samples())",
    "a run that is not flushed": "p = pipeline(); p.push([sample(0)])",
    "every slot held": "p = pipeline(n_batches=2); p.push(samples()); held = [p.pop(), p.pop()]",
    "a batch held by its view": "p = pipeline(); p.push(samples()); view = p.pop().numpy()",
    "a capsule": "p = pipeline(); p.push(samples()); capsule = p.pop().__dlpack__()",
    "a versioned capsule": "p = pipeline(); p.push(samples()); capsule = p.pop().__dlpack__(max_version=(1, 0))",
    "an iterator in the middle": "p = pipeline(); p.push(samples()); it = p.batches(9); next(it)",
    "inside with": "p = pipeline(); p.__enter__(); p.push(samples()); batch = p.pop(); batch.__enter__()",
    "after an error of a source": """
p = pipeline()
def failing():
    yield sample(0)
    raise LookupError("mine")
try: p.push(failing())
except LookupError as error: kept = error
""",
    "after a refused sample": """
p = pipeline()
try: p.push([damacy.Sample(uri=path + "-none", aabb=[(0, 1)])])
except damacy.NotFound as error: kept = error
p.push(samples())
""",
    "a deferred error": """
p = pipeline(batch_size=1)
def late():
    yield from (sample(k) for k in range(40))
    raise LookupError("later")
p.push(late())
""",
    "skip": "p = pipeline(on_error='skip'); p.push(samples()); p.pop().release()",
    "fill": "p = pipeline(on_error='fill'); p.push(samples()); p.pop().release()",
    "a log listener": """
import logging
logging.basicConfig(level=1, stream=open(os.devnull, "w")); p = pipeline(); p.push(samples()); p.pop().release()
""",
    "closed, and a batch held": "p = pipeline(); p.push(samples()); batch = p.pop(); p.close(); closed = True",
    "a cycle with its source": """
class Source:
    def __iter__(self): return self
    def __next__(self): return sample(1)
p = pipeline(); source = Source(); source.pipeline = p; p.push(source)
""",
}
# Activities of other threads at that moment.
THREADS = {
    "daemon in pop": "call = lambda: p.pop()",
    "daemon in flush": "call = lambda: p.flush()",
    "daemon in a source": """
def running():
    while True:
        yield sample(1)
        time.sleep(0.001)
call = lambda: p.push(running())
""",
    "daemon in a source that blocks": """
def blocking():
    yield sample(1)
    time.sleep(1000)
call = lambda: p.push(blocking())
""",
    "daemon that holds batches": """
def call():
    p.push(samples())
    held = p.pop()
    with held:
        time.sleep(1000)
""",
    "daemon in stats": "call = lambda: p.stats()",
    "daemon that opens and closes": "call = lambda: pipeline().close()",
}
THREAD = """
p = pipeline(pop_timeout_s=None)
{what}
def body():
    while True:
        try: call()
        except damacy.DamacyError: pass
threading.Thread(target=body, daemon=True).start()
time.sleep(0.1)
"""
MOMENTS = STATES | {name: THREAD.format(what=what) for name, what in THREADS.items()}

ENDS = {
    "sys.exit": "sys.exit(3)",
    "the end of the program": "",
    "an exception": "raise LookupError('mine')",
    "os._exit": "os._exit(3)",
}


# Every state with the usual end of programs, and the other ends with the states that are hardest for them.
WAYS = [(moment, "sys.exit") for moment in MOMENTS]
WAYS += [(moment, end) for moment in ("every slot held", "daemon in pop") for end in ENDS if end != "sys.exit"]


@pytest.mark.parametrize(("moment", "end"), WAYS)
def test_exit(line, moment, end):
    finished = child.run(START + MOMENTS[moment] + "\n" + ENDS[end], line.path)
    assert finished.returncode == {"the end of the program": 0, "an exception": 1}.get(end, 3), finished.stderr
    assert finished.stdout == ""
    assert finished.stderr.rstrip().endswith("LookupError: mine") if end == "an exception" else finished.stderr == ""
    assert finished.seconds < EXIT_LIMIT_S + 5


def test_daemon_threads_may_push_and_pop_while_the_interpreter_ends(line):
    program = """
def work(p):
    for batch in p.batches(10**9):
        batch.release()
for _ in range(6):
    p = pipeline(n_io_threads=1)
    p.push(samples())
    threading.Thread(target=work, args=(p,), daemon=True).start()
time.sleep(0.05)
"""
    for _ in range(4):  # even one thread ended the process with abort in most runs
        assert child.run_well(START + program, line.path).seconds < EXIT_LIMIT_S + 5


def test_samples_are_pulled_and_errors_raised_when_imports_are_impossible(line):
    program = """
p = pipeline(n_batches=2)
p.push(samples())
for name in [name for name in sys.modules if name.startswith("damacy.")]:
    del sys.modules[name]
sys.meta_path = None
p.pop().release(); p.pop().release(); p.pop().release()
p.close()
try: p.pop()
except damacy.DamacyError as error: print(type(error).__name__)
"""
    assert child.run_well(START + program, line.path).stdout == "ShutdownError\n"


@pytest.mark.parametrize("last", ["p.close()", "p.stats(), p.pending, repr(p)", "p.flush()", "batch.release()"])
def test_a_finalizer_that_runs_while_the_interpreter_ends(line, last):
    program = f"""
class Owner:
    def __init__(self):
        self.p = pipeline()
        self.p.push(samples())
        self.batch = self.p.pop()
        self.cycle = self  # so that it is collected after modules are cleared
    def __del__(self, write=os.write):
        p, batch = self.p, self.batch
        {last}
        write(1, b"finalized")
owner = Owner()
"""
    finished = child.run_well(START + program, line.path)
    assert finished.stdout == "finalized"
    assert finished.seconds < EXIT_LIMIT_S + 5


FORK = """
import warnings
warnings.simplefilter("ignore")
def in_child():
    for call in (lambda: p.push([]), p.pop, p.flush, p.stats, p.stats_reset, lambda: p.device, lambda: p.pending):
        try:
            call()
        except damacy.ShutdownError as error:
            assert error.what == "forked", error
        else:
            raise AssertionError("a member answered in the child")
    with pipeline() as mine:
        mine.push([sample(5), sample(6)])
        assert popped(mine) == [5, 6]
    p.close()
def waited(pid):
    end = time.monotonic() + 20
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            raise SystemExit("the child hangs")
        time.sleep(0.005)
    assert done[1] == 0, done
"""
IN_PARENT = """
waited(pid)
if "closed" not in globals():
    p.stats()
p.close()
"""


@pytest.mark.untraced
@pytest.mark.parametrize("moment", MOMENTS)
def test_fork(line, moment):
    program = START + MOMENTS[moment] + FORK + "pid = os.fork()\nif pid == 0:\n    in_child()\n    sys.exit(0)\n"
    child.run_well(program + IN_PARENT, line.path)


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)"])
def test_fork_inside_a_source(line, leave):
    program = f"""
p = pipeline()
pids = []
def forking():
    yield sample(0)
    yield sample(1)
    pids.append(os.fork())
    if pids[-1] == 0:
        in_child()
        {leave}
p.push(forking())
waited(pids[0])
assert popped(p) == [0, 1]
"""
    child.run_well(START + FORK + program, line.path)


def test_fork_inside_a_handler_of_a_wait(line):
    program = """
p = pipeline(batch_size=2, pop_timeout_s=3)
p.push([sample(0)])
def body():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGUSR1)
pids = []
signal.signal(signal.SIGUSR1, lambda *_: pids.append(os.fork()))
threading.Thread(target=body).start()
def blocking():
    while not pids:
        yield sample(1)
try:
    p.push(blocking())
    while not pids:
        p.pop().release()
except damacy.ShutdownError as error:
    assert pids == [0] and error.what == "forked", error
    in_child()
    sys.exit(0)
if pids == [0]:
    in_child()
    sys.exit(0)
waited(pids[0])
p.close()
"""
    child.run_well(START + FORK + program, line.path)


@pytest.mark.untraced
def test_a_file_that_may_not_grow_is_an_error_of_the_write_and_the_process_continues(tmp_path):
    program = """
import resource, signal, sys
import numpy as np
import damacy.cufile as cufile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
data = np.arange(65536, dtype=np.uint8)
with cufile.CuFile(sys.argv[1], "w") as file:
    try:
        file.write(data)
    except OSError as error:
        print(error.errno)
    else:
        raise AssertionError("no error")
with cufile.CuFile(sys.argv[1], "r") as file:
    got = np.zeros(100, np.uint8)
    assert file.read(got) == 100 and (got == data[:100]).all()
"""
    import errno

    assert child.run_well(program, tmp_path / "file").stdout.strip() == str(errno.EFBIG)
