"""Exceptions of signal handlers, at any moment, lose no batch."""

import pytest
from support import child

import damacy
from damacy._core import errors

pytestmark = pytest.mark.untraced  # a handler that raises inside coverage.py leaves its lock held: the program hangs

START = """
import itertools, random, signal, sys, threading, time
import damacy
from support.line import Line, LENGTH, numbers, popped
from support.streaming import pipeline
path, seed = sys.argv[1], int(sys.argv[2])
def sample(k):
    return damacy.Sample(uri=path, aabb=[(k % 4000, k % 4000 + 1)])
class Interrupt(BaseException):
    pass
inside = False
raised = 0
def handler(number, frame):
    global raised
    if inside:
        raised += 1
        raise Interrupt
signal.signal(signal.SIGALRM, handler)
rng = random.Random(seed)
def arm():
    signal.setitimer(signal.ITIMER_REAL, rng.random() * 2e-4 + 1e-6)
"""

COUNT = 500

POPS = {
    "pop": """
def next_batch():
    global inside
    inside = True
    batch = p.pop()
    inside = False
    return batch
""",
    "batches": f"""
iterator = p.batches({COUNT})
def next_batch():
    global inside
    inside = True
    for batch in iterator:
        inside = False
        return batch
""",
}


@pytest.mark.parametrize("member", POPS)
def test_handlers_that_raise_in_pop_lose_no_batch_and_double_none(line, member):
    program = f"""
p = pipeline(batch_size=1, n_batches=2, pop_timeout_s=None)
p.push([sample(k) for k in range({COUNT})])
{POPS[member]}
got, kept = [], []
while len(got) < {COUNT}:
    arm()
    try:
        batch = next_batch()
    except Interrupt as error:
        inside = False
        kept[:] = [error]  # its traceback keeps the objects of pop's frames
        continue
    assert batch.sample_indices == (len(got),), (batch.sample_indices, len(got))
    got += numbers(batch)
    batch.release()
signal.setitimer(signal.ITIMER_REAL, 0)
assert got == list(range({COUNT}))
assert p.stats().batches_emitted == {COUNT}
print(raised)
"""
    raised = int(child.run_well(START + program, line.path, 1).stdout)
    assert raised > 5, "too few of the signals met a pop"


def test_handlers_that_raise_in_pop_lose_no_error_of_a_batch(tmp_path):
    """Every third batch fails; each failure is raised once."""
    import os

    from support.streaming import store

    rows = store(tmp_path / "rows", (300, 4), (1, 4))
    for k in range(0, 300, 3):
        os.truncate(rows.object(k, 0), 3)
    program = """
p = pipeline(batch_size=1, pop_timeout_s=None)
p.push([damacy.Sample(uri=path, aabb=[(k, k + 1), (0, 4)]) for k in range(300)])
seen = []
while len(seen) < 300:
    arm()
    try:
        inside = True
        batch = p.pop()
        inside = False
        seen.append(batch.sample_indices)
        batch.release()
    except damacy.StorageError as error:
        inside = False
        seen.append(error.lost)
    except Interrupt:
        inside = False
signal.setitimer(signal.ITIMER_REAL, 0)
assert seen == [(k,) for k in range(300)], seen
print(raised)
"""
    child.run_well(START + program, rows.path, 1)


def test_handlers_that_raise_in_push_and_flush_lose_no_sample(line):
    program = """
p = pipeline(batch_size=2, pop_timeout_s=None)
pushed = 0
got = []
for round in range(150):
    arm()
    try:
        inside = True
        p.push([sample(2 * round), sample(2 * round + 1)])
        inside = False
    except Interrupt:
        inside = False
    arm()
    try:
        inside = True
        p.flush()
        inside = False
    except Interrupt:
        inside = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        try:
            got += popped(p)
        except damacy.TryAgain:
            break
# A push that was interrupted before it began queued nothing; every other queued both samples, once.
assert got == sorted(set(got)), "out of order, or twice"
assert all((k ^ 1) in got for k in got) and len(got) >= 20, len(got)
print(raised)
"""
    child.run_well(START + program, line.path, 3)


def test_many_signals_do_not_stop_pop(line):
    program = """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
with pipeline(pop_timeout_s=None) as p:
    p.push(sample(k) for k in range(600))
    got = []
    for batch in p.batches(300):
        got += numbers(batch)
        batch.release()
assert got == list(range(600))
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    child.run_well(START + program, line.path, 0)


def test_a_handler_that_raises_while_an_error_is_made_is_not_lost(monkeypatch):
    class Interrupts:
        def get(self, *_):
            raise KeyboardInterrupt

    monkeypatch.setattr(errors, "CLASS_BY_REASON", Interrupts())
    with pytest.raises(KeyboardInterrupt):
        damacy.open_array("/no/such/array")
