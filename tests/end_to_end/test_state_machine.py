"""Random walks over the API against a simple model: what was pushed comes out, in order, once, or as the error it was.

The model is a list of tokens in stream order: a sample, an error to come, the end of a run. Pushes raise what they find
themselves; what later calls find stays a token. A walk is a pure function of its number.
"""

import gc

import numpy as np
import pytest
from support.line import LENGTH, Source, numbers
from support.streaming import pipeline

import damacy

END = "end of run"
SLOT_BYTES = 256  # a batch of a few one-element rows, rounded up


class Planted(Exception):
    pass


class Walk:
    def __init__(self, number: int, line, kept: int = 0):
        self.kept = kept  # batches that may be held beyond n_batches
        self.rng = np.random.default_rng([5, number])
        self.line = line
        self.batch_size = int(self.rng.integers(1, 5))
        self.n_batches = int(self.rng.integers(1, 4))
        self.pipeline = pipeline(
            batch_size=self.batch_size,
            n_batches=self.n_batches,
            lookahead_batches=int(self.rng.integers(2, 4)),
            n_io_threads=int(self.rng.integers(1, 4)),
            n_compute_threads=int(self.rng.integers(0, 2)),
            keep_bytes=SLOT_BYTES * kept,
        )
        self.tokens: list = []
        self.held: list = []  # (batch or None, tensors, numbers)
        self.delivered = 0

    def run(self, steps: int) -> None:
        actions = [self.push] * 4 + [self.pop] * 8 + [self.flush] * 2 + [self.drop] * 5 + [self.export, self.look]
        for _ in range(steps):
            actions[int(self.rng.integers(len(actions)))]()
            self.check_held()
            assert self.pipeline.stats().kept_bytes_committed <= SLOT_BYTES * self.kept
        while self.held:
            self.drop()
        self.flush()
        while any(token != END for token in self.tokens):
            self.pop()
            while self.held:
                self.drop()
        with pytest.raises(damacy.TryAgain):
            self.pipeline.pop()
        self.pipeline.close()

    # --- actions ---

    def push(self) -> None:
        first = int(self.rng.integers(0, LENGTH - 50))
        good = list(range(first, first + int(self.rng.integers(0, 14))))
        items: list = self.line.all(good)
        failure = None
        if self.rng.random() < 0.25:
            failure = Planted("mine") if self.rng.random() < 0.5 else damacy.InvalidArgument
            items += [failure if isinstance(failure, Planted) else self.line.beyond(), self.line.at(0)]
        self.tokens += good + ([failure] if failure else [])
        try:
            self.pipeline.push(Source(items) if self.rng.random() < 0.5 or failure else items)
        except (Planted, damacy.InvalidArgument) as error:
            assert failure is not None and self.matches(error, failure)
            assert self.tokens.pop() is failure

    def flush(self) -> None:
        self.pipeline.flush()
        if self.tokens and self.tokens[-1] != END:
            self.tokens.append(END)

    def pop(self) -> None:
        # No variable for the batch: a deferred exception's traceback keeps this frame and its variables alive.
        try:
            self.check_batch(self.pipeline.pop())
        except damacy.PopTimeout:
            raise
        except damacy.TryAgain as error:
            self.check_try_again(error)
        except (Planted, damacy.InvalidArgument) as error:
            self.check_error(error)

    def drop(self) -> None:
        """Lets go of one thing that holds a slot, in whatever order."""
        if not self.held:
            return
        entry = self.held[int(self.rng.integers(len(self.held)))]
        if entry["batch"] is not None and (self.rng.random() < 0.5 or not entry["tensors"]):
            if self.rng.random() < 0.5:
                entry["batch"].release()
            entry["batch"] = None
        elif entry["tensors"]:
            entry["tensors"].pop(int(self.rng.integers(len(entry["tensors"]))))
        if entry["batch"] is None and not entry["tensors"]:
            self.held.remove(entry)

    def export(self) -> None:
        alive = [e for e in self.held if e["batch"] is not None]
        if alive:
            entry = alive[int(self.rng.integers(len(alive)))]
            make = [entry["batch"].numpy, lambda: np.from_dlpack(entry["batch"]), entry["batch"].__dlpack__]
            entry["tensors"].append(make[int(self.rng.integers(3))]())

    def look(self) -> None:
        self.pipeline.stats()
        assert self.pipeline.pending in (True, False)
        if self.rng.random() < 0.2:
            gc.collect()

    # --- the model ---

    def forget_ends(self) -> None:
        while self.tokens and self.tokens[0] == END:
            self.tokens.pop(0)

    def first_error(self) -> int | None:
        return next((k for k, t in enumerate(self.tokens) if not isinstance(t, int) and t != END), None)

    def next_run(self) -> tuple[list[int], bool]:
        """The samples of the run at the front, errors left out, and whether it is ended."""
        run = []
        for token in self.tokens:
            if token == END:
                return run, True
            if isinstance(token, int):
                run.append(token)
        return run, False

    def runs_before(self, place: int) -> list[list[int]]:
        """The samples before a place, a list a run; the last one may go on behind it."""
        runs: list[list[int]] = [[]]
        for token in self.tokens[:place]:
            if token == END:
                runs.append([])
            else:
                runs[-1].append(token)
        return runs

    def matches(self, error, failure) -> bool:
        return error is failure if isinstance(failure, Planted) else type(error) is failure

    def check_batch(self, batch) -> None:
        self.forget_ends()
        assert self.first_error() != 0, "a batch wholly behind an error came first"
        rows = numbers(batch)
        run, ended = self.next_run()
        wanted = run[: self.batch_size]
        assert rows == wanted and (len(wanted) == self.batch_size or ended), (rows, self.tokens[:10])
        assert batch.sample_indices == tuple(range(self.delivered, self.delivered + len(rows)))
        self.delivered += len(rows)
        for _ in rows:
            del self.tokens[next(k for k, t in enumerate(self.tokens) if isinstance(t, int))]
        self.held.append({"batch": batch, "tensors": [], "numbers": rows})

    def check_error(self, error) -> None:
        place = self.first_error()
        assert place is not None, f"no error was to come: {error!r}"
        *ended, unfinished = self.runs_before(place)
        assert not any(ended) and len(unfinished) < self.batch_size, "a batch in front of it was left out"
        assert self.matches(error, self.tokens[place])
        if isinstance(error, damacy.DamacyError):
            assert error.what == "push"
        del self.tokens[place]

    def check_try_again(self, error) -> None:
        if error.reason == "held":
            assert len(self.held) == self.n_batches + self.kept
            return
        assert error.reason == "empty"
        self.forget_ends()
        run, ended = self.next_run()
        assert len(run) < self.batch_size and not ended, self.tokens[:10]
        assert self.first_error() is None

    def check_held(self) -> None:
        assert len(self.held) <= self.n_batches + self.kept
        for entry in self.held:
            if entry["batch"] is not None:
                assert numbers(entry["batch"]) == entry["numbers"]
            for tensor in entry["tensors"]:
                if isinstance(tensor, np.ndarray):
                    assert [int(v) - 1 for v in tensor[:, 0]] == entry["numbers"]


@pytest.mark.parametrize("number", range(40))
def test_a_random_walk(line, number):
    Walk(number, line).run(150)


@pytest.mark.parametrize("number", range(20))
def test_a_random_walk_that_may_keep_batches(line, number):
    Walk(number, line, kept=1 + number % 5).run(150)
