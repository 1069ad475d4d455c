"""Exchanges within a process whose ranks use streams of their own: every order of work that streams and events allow
gives the same halos. Streams are simulated, and run late, in an order that the test chooses."""

import collections
import contextlib
import itertools
import sys
import types

import numpy as np
import pytest

from damacy import halo
from damacy.halo import _local, _message_copies

pytestmark = pytest.mark.timeout(60)
STREAMS = ("main", "a", "b", "c")


class Event:
    happened = False


class Streams:
    """The queues of work of one simulated device. `run` runs it, preferring one stream unless that stream waits."""

    def __init__(self):
        self.queues = {name: collections.deque() for name in STREAMS}
        self.current = "main"

    @contextlib.contextmanager
    def use(self, name):
        before, self.current = self.current, name
        yield
        self.current = before

    def put(self, work, stream=None):
        self.queues[stream or self.current].append(work)

    def record(self, stream=None):
        event = Event()
        self.put(event, stream)
        return event

    def wait(self, event, stream=None):
        self.put(lambda: event.happened, stream)

    def step(self, queue):
        work = queue[0]
        if isinstance(work, Event):
            work.happened = True
        elif work() is False:  # waits for an event
            return False
        queue.popleft()
        return True

    def run(self, preferred):
        while any(self.queues.values()):
            assert any(self.queues[name] and self.step(self.queues[name]) for name in preferred), "streams deadlock"


class SimulatedCopies(_message_copies.HostCopies):
    def __init__(self, streams):
        self._streams = streams

    def clone(self, buffer):
        message = np.zeros_like(buffer)
        self._streams.put(lambda: message.__setitem__(..., buffer))
        return message

    def place(self, message, buffer):
        self._streams.put(lambda: buffer.__setitem__(..., message))

    def record(self, buffer):
        return self._streams.record()

    def wait(self, mark, *arrays):
        self._streams.wait(mark)


def simulated_way(streams):
    """Replaces `Exchanger._way`: runs of one exchanger are in order, and ordered with the current stream."""

    def way(exchanger, arrays, copies):
        if copies is None:
            return None

        def run(stream):
            stream, current = stream or streams.current, streams.current
            before = [streams.record(current)] + ([exchanger._queue] if exchanger._queue else [])
            for event in before:
                streams.wait(event, stream)
            streams.put(lambda: copies.run(1), stream)
            exchanger._queue = streams.record(stream)
            streams.wait(exchanger._queue, current)

        return run

    return way


FIELD = halo.Field.like(np.zeros(4), ("i",), (1,), (2,))


def both_ways():
    return halo.Cartesian((2,), True, dims=("i",))


def one_way():
    """Rank 0 sends and receives nothing; rank 1 packs nothing, so that no packing orders its receives."""
    sends = halo.Link(1, (1,), (-1,), 0, ((1, 2),), None)
    receives = halo.Link(0, (-1,), (1,), 0, None, ((-1, 0),))
    return halo.Links([[sends], [receives]], ("i",))


@pytest.mark.parametrize("preferred", list(itertools.permutations(STREAMS)))
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("by_argument", [False, True])
@pytest.mark.parametrize("topology", [both_ways, one_way])
def test_messages_are_ordered_between_the_streams_of_ranks(preferred, depth, by_argument, topology, monkeypatch):
    streams = Streams()
    monkeypatch.setattr(_local._message_copies, "copies_for", lambda buffer: SimulatedCopies(streams))
    monkeypatch.setattr(halo.Exchanger, "_way", simulated_way(streams))
    local = halo.Local(2)
    plans = [halo.compile([FIELD], topology(), rank, 1) for rank in range(2)]
    exchangers = [halo.Exchanger(plan, local, depth=depth) for plan in plans]
    rounds = 6
    arrays = [[np.zeros(4) for _ in range(rounds * depth)] for _ in range(2)]
    seen = []

    def at(rank, n, ends):
        """Rank 1 uses another stream in each round, and finishes an exchange on another stream than it started on."""
        return ("main", "b", "c")[(n + 2 * ends) % 3] if rank else "a"

    def fill(rank, n):
        streams.put(lambda: arrays[rank][n].fill(100 * rank + n))

    def look(rank, n):
        streams.put(lambda: seen.append((rank, n, arrays[rank][n][0])))

    def on(rank, n, ends):
        """The current stream, and the `stream` argument: one of them is the rank's stream."""
        name = at(rank, n, ends)
        return (contextlib.nullcontext(), name) if by_argument and name != "main" else (streams.use(name), None)

    for n in range(0, rounds * depth, depth):
        tokens = {}
        for slot in range(depth):
            for rank in range(2):
                current, stream = on(rank, n // depth, ends=False)
                with current:
                    fill(rank, n + slot)
                    tokens[rank, slot] = exchangers[rank].start([arrays[rank][n + slot]], stream=stream)
        for (rank, slot), token in tokens.items():
            current, stream = on(rank, n // depth, ends=True)
            with current:
                exchangers[rank].finish(token, stream=stream)
                look(rank, n + slot)
    streams.run(preferred)
    receivers = [0, 1] if topology is both_ways else [1]
    wanted = {(rank, n, 100.0 * (1 - rank) + n) for rank in receivers for n in range(rounds * depth)}
    assert {found for found in seen if found[0] in receivers} == wanted


def test_a_torch_message_waits_for_its_sender_and_keeps_its_memory_for_the_receiver(monkeypatch):
    calls = []

    class Stream:
        def __init__(self, name):
            self.name = name

        def record_event(self):
            calls.append(f"{self.name} records")
            return f"event of {self.name}"

        def wait_event(self, event):
            calls.append(f"{self.name} waits for {event}")

    class Tensor:
        device = "cuda:0"

        def __init__(self, name):
            self.name = name

        def clone(self):
            calls.append(f"clone {self.name}")
            return Tensor(f"message of {self.name}")

        def copy_(self, message):
            calls.append(f"{message.name} to {self.name}")

        def record_stream(self, stream):
            calls.append(f"{self.name} is used on {stream.name}")

    sender, receiver = Stream("sender"), Stream("receiver")
    cuda = types.SimpleNamespace(current_stream=lambda device: sender, is_current_stream_capturing=lambda: False)
    fake = types.ModuleType("torch")
    fake.cuda = cuda
    monkeypatch.setitem(sys.modules, "torch", fake)
    copies = _message_copies.TorchCopies()
    message = copies.clone(Tensor("send"))
    mark = copies.record(message)
    cuda.current_stream = lambda device: receiver
    buffer = Tensor("receive")
    copies.wait(mark, message, buffer)
    copies.place(message, buffer)
    assert calls == [
        "clone send",
        "sender records",
        "receiver waits for event of sender",
        "message of send to receive",
        "message of send is used on receiver",
    ]
    cuda.is_current_stream_capturing = lambda: True  # CUDA refuses waits for work outside the capture
    copies.wait(mark, message, buffer)
    assert len(calls) == 5
