"""Exceptions of signal handlers and of samplers, at any moment of a loop over a loader: the next loop continues after
the last batch that the loop got."""

import sys

import numpy as np
import pytest
from support import child, line

import damacy
from damacy import training
from damacy.samplers import Indexed
from damacy.training import Loader

pytestmark = [
    pytest.mark.untraced,  # a handler that raises inside coverage.py leaves its lock held: the program hangs
    pytest.mark.timeout(600),
]

PROGRAM = """
import random, signal, sys
import damacy
from damacy import training
from damacy.training import Loader
from support.line import numbers
path, chosen, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
class Sampler:
    seed = 0
    def __len__(self):
        return 400
    def sample(self, epoch, index):
        sum(range(300))  # most signals meet the sampler
        return damacy.Sample(path, [(index, index + 1)])
config = damacy.Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 22, device_buffer_bytes=1 << 22)
loader = Loader(Sampler(), config)
assert [k for batch in loader for k in numbers(batch)] == list(range(400))  # and all modules are imported
loader.set_epoch(0)
inside, raised = False, 0
def within_a_step(frame):  # an exception raised in the loop itself ends the loop, as `break` does
    while frame is not None and frame.f_code.co_filename != training.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_lineno != training._Pass.__next__.__code__.co_firstlineno  # just entered
def handler(number, frame):
    global raised
    if inside and within_a_step(frame):
        raised += 1
        raise KeyboardInterrupt if chosen == "ctrl-c" else OSError("of a handler")
signal.signal(signal.SIGALRM, handler)
rng = random.Random(7)
got, epochs = [], 0
while raised < wanted:
    assert epochs < 400, "the signals hardly meet the loop"
    signal.setitimer(signal.ITIMER_REAL, 10 ** rng.uniform(-5, -2.3))
    try:
        inside = True
        for batch in loader:
            inside = False
            got += numbers(batch)
            batch.release()
            inside = True
        inside = False
        epochs += 1
        assert got == list(range(400)), got
        got.clear()
    except (KeyboardInterrupt, OSError) as error:
        inside = False
        assert not isinstance(error, damacy.DamacyError), error
        state = loader.state_dict()
        assert (state["epoch"], state["samples"]) in ((epochs, len(got)), (epochs + 1, 0)), (state, epochs, len(got))
        if state["samples"] == 0 and got:
            assert got == list(range(400)), got
            epochs += 1
            got.clear()
signal.setitimer(signal.ITIMER_REAL, 0)
print(raised)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return line.make_line(tmp_path_factory.mktemp("line") / "line.zarr").path


@pytest.mark.parametrize("kind", ["ctrl-c", "another exception"])
def test_two_hundred_signals_lose_and_repeat_no_batch(path, kind):
    assert int(child.run_well(PROGRAM, path, kind, 200, limit_s=500).stdout) == 200


@pytest.mark.parametrize("begins", [True, False])
def test_an_exception_in_any_call_of_a_step_loses_and_repeats_no_batch(path, begins):
    """As a signal handler would raise it: at the entry of a Python call and at the end of a native one, each in
    turn. Of the first step of a loop, and of
    a later one. `__next__` itself is entered in the loop's body, where an exception ends the loop as `break` does."""
    config = damacy.Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 22, device_buffer_bytes=1 << 22)
    samples = [damacy.Sample(path, [(k, k + 1)]) for k in range(12)]
    state_before_the_last_loop = {"epoch": 0, "samples": 4, "seed": 0, "length": 12}
    raised = 0
    while True:
        with Loader(Indexed(samples, range(12)), config) as loader:
            loader.load_state_dict(state_before_the_last_loop)
            batches, got = iter(loader), [0, 1, 2, 3]
            if not begins:
                got += line.numbers(next(batches))
            calls = 0

            def profile(frame, event, _, at=raised):
                nonlocal calls
                if event not in ("call", "c_return") or frame.f_code is test_code:
                    return
                if event == "call" and frame.f_code is training._Pass.__next__.__code__:
                    return
                calls += 1
                if calls > at:
                    raise KeyboardInterrupt

            test_code = sys._getframe().f_code
            sys.setprofile(profile)
            try:
                batch = next(batches)
            except KeyboardInterrupt:
                batch = None
            finally:
                sys.setprofile(None)
            if batch is not None:
                break
            raised += 1
            assert loader.state_dict()["samples"] == len(got), raised
            for batch in loader:
                got += line.numbers(batch)
            assert got == list(range(12)), raised
    assert raised > 10


def test_no_call_stands_between_taking_a_batch_and_giving_it(path):
    """A signal handler that raises in one would lose the batch."""
    taking, giving = Loader._next.__code__, training._Pass.__next__.__code__
    calls, is_taken = [], False

    def profile(frame, event, _):
        nonlocal is_taken
        if event == "return" and frame.f_code in (taking, giving):
            is_taken = frame.f_code is taking
        elif is_taken:
            calls.append((event, frame.f_code.co_name))

    config = damacy.Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 22, device_buffer_bytes=1 << 22)
    samples = [damacy.Sample(path, [(k, k + 1)]) for k in range(6)]
    with Loader(Indexed(samples, range(6)), config) as loader:
        batches = iter(loader)
        sys.setprofile(profile)
        try:
            taken = [line.numbers(next(batches)) for _ in range(3)]
        finally:
            sys.setprofile(None)
    assert taken == [[0, 1], [2, 3], [4, 5]]
    assert calls == []


class Failing:
    """A sampler that raises once, at one index."""

    seed = 0

    def __init__(self, samples, at):
        self.samples, self.at = samples, at

    def __len__(self):
        return len(self.samples)

    def sample(self, epoch, index):
        if index == self.at:
            self.at = None
            raise OSError("the sampler's own file")
        return self.samples[index]


@pytest.mark.parametrize("at", [0, 5, 11])
def test_after_an_error_of_the_sampler_the_next_loop_continues(path, at):
    config = damacy.Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 22, device_buffer_bytes=1 << 22)
    samples = [damacy.Sample(path, [(k, k + 1)]) for k in range(12)]
    got = []

    def step(loader):
        for batch in loader:
            got.extend(line.numbers(batch))
            batch.release()

    with Loader(Failing(samples, at), config) as loader:
        with pytest.raises(OSError, match="the sampler's own file"):
            step(loader)
        assert loader.state_dict()["samples"] == len(got)
        step(loader)
    assert got == list(range(12))


def test_a_transform_may_ask_for_the_position(path):
    config = damacy.Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 22, device_buffer_bytes=1 << 22)
    samples = [damacy.Sample(path, [(k, k + 1)]) for k in range(6)]
    seen = []

    def transform(batch):
        seen.append((loader.epoch, loader.state_dict()["samples"]))
        return np.array(line.numbers(batch))

    loader = Loader(Indexed(samples, range(6)), config, transform=transform)
    assert np.concatenate(list(loader)).tolist() == list(range(6))
    assert seen == [(0, 2), (0, 4), (1, 0)]
