"""Random arrays with random specs, and the bits that NumPy computes for each row (`support.finish_model`).

Layouts, contents and output types are those of random cases; boxes cross borders, have steps or single indices, and are
turned. A case is a pure function of its number.
"""

import dataclasses

import numpy as np

import damacy
from support import finish_model, random_cases, writers
from support.element_types import OUTPUT, from_bits
from support.streaming import config

MODES = ("edge", "reflect", "symmetric", "wrap")
NAMES = ("t", "c", "z", "y", "x")
SCALES = (1.0, 0.5, 1 / 3, -2.0, 1 / 4095, 1e-3, 1.0000001, 300.0, 1e30)
OFFSETS = (0.0, 0.5, -1 / 3, 100.0, -1e10, 1e-30)


@dataclasses.dataclass
class BoxAxis:
    """An axis of a box."""

    value: object  # as a Sample takes it
    indices: list[int]


class FinishCase:
    """`by_hand`: written without other libraries."""

    def __init__(self, number, path, by_hand=False):
        self.rng = rng = np.random.default_rng([17, number])
        drawn = random_cases.draw(5000 + number)
        self.layout, self.stored, self.output = drawn.layouts[0], drawn.bits[0], drawn.output
        self.buffers = {name: drawn.config[name] for name in ("host_buffer_bytes", "device_buffer_bytes")}
        self.uri = path / "array"
        data = from_bits(self.stored, self.layout.dtype)
        if by_hand or drawn.writers[0] is writers.BY_HAND:
            writers.write_by_hand(self.layout, data, self.uri, **drawn.by_hand)
        else:
            drawn.writers[0].write(self.layout, data, self.uri)
        self.rank = len(self.layout.shape)
        self.named = bool(rng.random() < 0.5)
        self.stack = int(rng.integers(1, 4)) if self.named and rng.random() < 0.4 else 0
        self.names = tuple(str(n) for n in rng.permutation(NAMES))[: self.rank] if rng.random() < 0.7 else None
        self._draw_spec()
        self._draw_samples()

    def __repr__(self):
        return f"{self.layout} -> {self.output} {self.spec} {self.samples[0]}"

    def config(self, **options):
        rng = np.random.default_rng(self.layout.shape)
        return config(
            batch_size=int(rng.integers(1, 5)),
            n_batches=int(rng.integers(1, 3)),
            arrays={"a": self.spec} if self.named else self.spec,
            **self.buffers,
            **options,
        )

    def _key(self, axis):
        """A stored axis, by name or by number."""
        if self.names is not None and self.rng.random() < 0.6:
            return self.names[axis]
        return axis if self.rng.random() < 0.5 else axis - self.rank

    def _number(self):
        """A number that the output type has."""
        rng, output = self.rng, self.output
        if output in finish_model.FLOATS:
            return float(rng.choice([-1.5, 0.0, 0.25, 7.0, 1000.0, -3.25]))
        return int(rng.choice([0, 1] if output == "bool" else [0, 1, 7, 100, *([-5] if output[0] == "i" else [])]))

    def _draw_spec(self):
        rng, given = self.rng, {"dtype": OUTPUT[self.output]}
        self.borders = [None] * self.rank
        if rng.random() < 0.6 and self.rank:
            borders = [str(rng.choice(MODES)) if rng.random() < 0.7 else self._number() for _ in range(self.rank)]
            if rng.random() < 0.4:
                borders = [borders[0]] * self.rank
                given["pad"] = borders[0]
            else:
                kept = [axis for axis in range(self.rank) if rng.random() < 0.7]
                borders = [border if axis in kept else None for axis, border in enumerate(borders)]
                if kept:
                    given["pad"] = {self._key(axis): borders[axis] for axis in kept}
            self.borders = borders
        self.low = self.high = None
        if rng.random() < 0.4:
            low, high = sorted((self._number(), self._number()))
            self.low, self.high = (bound if rng.random() < 0.8 else None for bound in (low, high))
            given["clip"] = (self.low, self.high)
        self.rounding = given["rounding"] = str(rng.choice(["truncate", "nearest"]))
        if self.names is not None:
            given["axes"] = self.names
        self.channel_axis = None
        if self.rank and not self.stack and rng.random() < 0.4:
            self.channel_axis = int(rng.integers(self.rank))
            given["channel_axis"] = self._key(self.channel_axis)
        self.channels = None
        if self.channel_axis is not None and rng.random() < 0.4:
            size = self.layout.shape[self.channel_axis]
            self.channels = [int(c) for c in rng.integers(0, size, int(rng.integers(1, 4)))]
            given["channels"] = self.channels
        self._extents()
        self.scale, self.offset = (self._numbers(choices) for choices in (SCALES, OFFSETS))
        given |= {name: value for name in ("scale", "offset") if (value := getattr(self, name)) is not None}
        self.order = self._draw_order()
        if self.order is not None:
            given["order"] = [None if axis is None else self._order_key(axis) for axis in self.order]
        self.spec = damacy.ArraySpec(**given)

    def _extents(self):
        """How many indices an axis of a box has, and which kind of axis it is."""
        rng = self.rng
        self.kinds, self.counts = [], []
        for axis, size in enumerate(self.layout.shape):
            kind = str(rng.choice(["pair", "pair", "range", "take"]))
            crosses = self.borders[axis] is not None
            if axis == self.channel_axis and self.channels is not None:
                kind, count = "whole", size
            elif kind == "range":
                count = int(rng.integers(1, 4))
                self_step = int(rng.integers(2, 4))
                if not crosses and (count - 1) * self_step + 1 > size:
                    kind, count = "pair", int(rng.integers(1, size + 1))
                else:
                    kind = ("range", self_step)
            elif kind == "take":
                count = int(rng.integers(1, 6))
            else:
                count = int(rng.integers(1, (size + 6 if crosses else size) + 1))
            self.kinds.append(kind)
            self.counts.append(count)

    def _draw_axis(self, axis):
        rng, size, kind, count = self.rng, self.layout.shape[axis], self.kinds[axis], self.counts[axis]
        crosses = self.borders[axis] is not None
        beyond = 2 * size + 3 if crosses else 0
        if kind == "take":
            indices = [int(i) for i in rng.integers(-beyond, size + beyond, count)]
            return BoxAxis(damacy.Take(indices), indices)
        step = kind[1] if isinstance(kind, tuple) else 1
        last = size + beyond - (count - 1) * step
        start = 0 if kind == "whole" else int(rng.integers(-beyond, max(last, -beyond + 1)))
        stop = start + (count - 1) * step + 1
        indices = list(range(start, stop, step))
        return BoxAxis((start, stop) if step == 1 else range(start, stop, step), indices)

    def _numbers(self, choices):
        rng = self.rng
        if rng.random() < 0.4:
            return None
        channels = self.stack
        if self.channel_axis is not None:
            channels = len(self.channels) if self.channels is not None else self.counts[self.channel_axis]
        if 0 < channels <= 4096 and rng.random() < 0.5:
            return [float(c) for c in rng.choice(choices, channels)]
        return float(rng.choice(choices))

    def _draw_order(self):
        """Axes of the row, the stack's being 0 where there is one; None is a new axis."""
        rng, rank = self.rng, self.rank + (self.stack > 0)
        if rng.random() < 0.6:
            return None
        extents = ([self.stack] if self.stack else []) + [self._count(axis) for axis in range(self.rank)]
        order = [int(axis) for axis in rng.permutation(rank) if extents[axis] > 1 or rng.random() < 0.5]
        if rng.random() < 0.3:
            order.insert(int(rng.integers(len(order) + 1)), None)
        return order

    def _order_key(self, axis):
        if not self.stack:
            return self._key(axis)
        return -(self.rank + 1) if axis == 0 else self._key(axis - 1)

    def _count(self, axis):
        channels = self.channels if axis == self.channel_axis else None
        return self.counts[axis] if channels is None else len(channels)

    def _draw_samples(self):
        self.samples, self.wanted = [], []
        for _ in range(int(self.rng.integers(1, 6))):
            boxes = [[self._draw_axis(axis) for axis in range(self.rank)] for _ in range(max(self.stack, 1))]
            scale, offset, turns = self._sample_numbers()
            parts = [self._part(box, k, scale, offset) for k, box in enumerate(boxes)]
            rows = finish_model.row(parts if self.stack else parts[0], self.order, None, None)
            turns |= self._turns(rows.shape)
            self.wanted.append(finish_model.row(rows, None, turns.get("transpose"), turns.get("flip")))
            pairs = [(str(self.uri), [axis.value for axis in box]) for box in boxes]
            arrays = {"a": pairs if self.stack else pairs[0]}
            self.samples.append(damacy.Sample(arrays, **turns) if self.named else damacy.Sample(*pairs[0], **turns))

    def _sample_numbers(self):
        scale, offset, turns = self.scale, self.offset, {}
        if self.rng.random() < 0.3:
            scale = turns["scale"] = self._numbers(SCALES) or 2.0
            if self.named and self.rng.random() < 0.5:
                turns["scale"] = {"a": scale}
        return scale, offset, turns

    def _turns(self, shape):
        rng, turns, rank = self.rng, {}, len(shape)
        if rank and rng.random() < 0.5:
            turns["flip"] = tuple(int(a) - rank for a in rng.permutation(rank)[: int(rng.integers(1, rank + 1))])
        axis = int(rng.integers(rank)) if rank else 0
        same = [k - rank for k in range(rank) if shape[k] == shape[axis]]
        if len(same) > 1 and rng.random() < 0.6:
            turns["transpose"] = tuple(int(a) for a in rng.permutation(same))
        return turns

    def _part(self, box, number, scale, offset):
        indices = [axis.indices for axis in box]
        if self.channels is not None:
            indices[self.channel_axis] = self.channels
        borders = [
            border if border is None or isinstance(border, str) else finish_model.bits_of(border, self.output)
            for border in self.borders
        ]

        def of_channels(numbers):
            if not isinstance(numbers, list):
                return numbers
            if self.stack:
                return numbers[number]
            shape = [1] * self.rank
            shape[self.channel_axis] = -1
            return np.array(numbers).reshape(shape)

        def finish(bits):
            no_scale = (scale is None or scale == 1.0) and (offset is None or offset == 0.0)
            return finish_model.finished(
                bits,
                self.layout.dtype,
                self.output,
                scale=None if no_scale else of_channels(1.0 if scale is None else scale),
                offset=None if no_scale else of_channels(offset),
                rounding=self.rounding,
                low=self.low,
                high=self.high,
            )

        return finish_model.part(self.stored, indices, borders, finish)
