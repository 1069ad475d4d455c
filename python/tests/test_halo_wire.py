"""Bytes on the wire compared with index formulas: every type, rotation, order of dims, layout, and both wires."""

import itertools
import random

import numpy as np
import pytest

from damacy import halo
from tests.support import halo_oracle as oracle

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
EXTRA = ["k", "k_interface", "tile", "anything"]


def values(rng, shape, dtype):
    raw = np.frombuffer(rng.randbytes(max(1, int(np.prod(shape))) * np.dtype(dtype).itemsize), dtype=np.uint8)
    if dtype == "bool":
        raw = raw & 1
    return raw[: int(np.prod(shape)) * np.dtype(dtype).itemsize].view(dtype).reshape(shape).copy()


def laid_out(rng, array):
    """The same values in memory of another order: C, F, padded, flipped, any order of axes."""
    order = list(range(array.ndim))
    rng.shuffle(order)
    padded = [n + rng.choice([0, 0, 1, 3]) for n in array.shape]
    store = np.zeros([padded[a] for a in order], array.dtype)
    view = store.transpose([order.index(a) for a in range(array.ndim)])
    view = view[tuple(slice(0, n) for n in array.shape)]
    view = view[tuple(slice(None, None, rng.choice([1, 1, -1])) for _ in array.shape)]
    view[...] = array
    return view


def box(rng, shape):
    out = []
    for n in shape:
        width = rng.choice([0] + [1, 2, 3, 4, 5] * 4 + [n] * 8)
        start = rng.randrange(n - min(width, n) + 1)
        out.append(slice(start, start + min(width, n)))
    return tuple(out)


def spec_of(array, dims, pack, r, unpack):
    return halo.HaloExchangeSpec(halo.Quantity(array, dims).halo_spec(0), pack, r, unpack)


class Case:
    """A random exchange: one to three fields or pairs, both boxes of each."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.dtype = rng.choice(DTYPES)
        self.native = rng.random() < 0.5
        self.vector = rng.random() < 0.5
        negatable = self.dtype not in ("bool", "uint8", "uint16", "uint32", "uint64")
        self.x, self.y, self.xs, self.ys = [], [], [], []
        for _ in range(rng.randint(1, 3)):
            r = rng.randint(-6, 9) if negatable or not self.vector else 4 * rng.randint(-1, 1)
            dims = rng.sample(EXTRA, rng.randint(0, 3)) + rng.choice([["i", "j"], ["i"], ["j"], []])
            dims = dims or ["k"]
            rng.shuffle(dims)
            self._add(rng, self.x, self.xs, [d + rng.choice(["", "_interface"]) * (d in "ij") for d in dims], r)
            if self.vector:
                self._add(rng, self.y, self.ys, [d + rng.choice(["", "_interface"]) * (d in "ij") for d in dims], r)

    def _add(self, rng, arrays, specs, dims, r):
        shape = [rng.randint(1, 6) for _ in dims]
        array = laid_out(rng, values(rng, shape, self.dtype))
        arrays.append(array)
        specs.append(spec_of(array, dims, box(rng, shape), r, box(rng, shape)))

    def transformer(self):
        wire = "native" if self.native else "ndsl"
        return halo.HaloDataTransformer.get(np, self.xs, self.ys if self.vector else None, wire=wire)

    def quantities(self):
        return (self.x, self.y) if self.vector else (self.x,)

    def wire(self):
        blocks, strides = [], []
        for n, spec in enumerate(self.xs):
            x = (self.x[n][spec.pack_slices], spec.specification.dims)
            y = (self.y[n][self.ys[n].pack_slices], self.ys[n].specification.dims) if self.vector else None
            blocks += oracle.slots(x, y, spec.pack_clockwise_rotation)
            strides += [s.specification.strides for s in ((spec, self.ys[n]) if self.vector else (spec,))]
        return oracle.wire(blocks, strides, self.native)

    def unpacked(self, received):
        """The expected fields after unpacking the bytes `received`."""
        out = [[a.copy() for a in self.x], [a.copy() for a in self.y]]
        at = 0
        for n in range(len(self.xs)):
            for arrays, specs in zip(out, (self.xs, self.ys) if self.vector else (self.xs,)):
                at += -at % 16 if self.native else 0
                target = arrays[n][specs[n].unpack_slices]
                if self.native:
                    ranks = specs[n].specification.strides
                    target = target.transpose(sorted(range(target.ndim), key=lambda a: (-abs(ranks[a]), a)))
                target[...] = np.frombuffer(received, self.dtype, target.size, at).reshape(target.shape)
                at += target.nbytes
        assert at == len(received)
        return out


@pytest.fixture(scope="module")
def cases(pytestconfig):
    return range(600)


def test_packing_equals_the_oracle_byte_by_byte(cases):
    for seed in cases:
        case = Case(seed)
        with case.transformer() as transformer:
            transformer.async_pack(*case.quantities())
            assert transformer.get_pack_buffer().array.tobytes() == case.wire(), seed


def test_unpacking_equals_the_oracle_byte_by_byte(cases):
    for seed in cases:
        case = Case(seed)
        with case.transformer() as transformer:
            buffer = transformer.get_unpack_buffer().array
            buffer[...] = values(random.Random(seed), buffer.shape, case.dtype)
            wanted = case.unpacked(buffer.tobytes())
            transformer.async_unpack(*case.quantities())
            transformer.synchronize()
            for got, want in zip((case.x, case.y), wanted):
                assert [a.tobytes() for a in got] == [a.tobytes() for a in want], seed


def test_the_wire_follows_the_specs_for_arrays_with_other_strides():
    for seed in range(200):
        case, rng = Case(seed), random.Random(seed)
        others = [[laid_out(rng, a) for a in arrays] for arrays in case.quantities()]
        with case.transformer() as transformer:
            transformer.async_pack(*others)
            assert transformer.get_pack_buffer().array.tobytes() == case.wire(), seed
            buffer = transformer.get_unpack_buffer().array
            buffer[...] = values(rng, buffer.shape, case.dtype)
            wanted = case.unpacked(buffer.tobytes())
            transformer.async_unpack(*others)
            for got, want in zip(others, wanted):
                assert [a.tobytes() for a in got] == [a.tobytes() for a in want], seed


@pytest.mark.parametrize(
    ("r", "wanted"),
    [(0, [0, 1, 2, 3, 4, 5]), (1, [3, 0, 4, 1, 5, 2]), (2, [5, 4, 3, 2, 1, 0]), (3, [2, 5, 1, 4, 0, 3])],
)
def test_the_worked_case(r, wanted):
    q = halo.Quantity(np.arange(6.0).reshape(2, 3), ("j", "i"))
    everything = (slice(None), slice(None))
    with halo.HaloDataTransformer.get(np, [spec_of(q.data, q.dims, everything, r, everything)]) as transformer:
        transformer.async_pack([q])
        assert transformer.get_pack_buffer().array.tolist() == wanted


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_survives_a_round_trip(dtype):
    source = values(random.Random(1), (5, 7, 3), dtype)
    target = np.zeros_like(source)
    everything = (slice(None),) * 3
    spec = spec_of(source, ("k", "j", "i"), everything, 0, everything)
    with halo.HaloDataTransformer.get(np, [spec]) as transformer:
        transformer.async_pack([source])
        transformer.get_unpack_buffer().array[...] = transformer.get_pack_buffer().array
        transformer.async_unpack([target])
    assert target.tobytes() == source.tobytes()


@pytest.mark.parametrize("dims", list(itertools.permutations(["i", "j", "k"])) + [("i", "k"), ("k", "j"), ("k",)])
def test_a_rotation_and_its_inverse_are_the_identity(dims):
    data = np.arange(4 * 5 * 6).reshape(4, 5, 6)[(slice(None),) * len(dims) + (0,) * (3 - len(dims))]
    for n in range(-5, 6):
        turned = halo.rotate_scalar_data(data, dims, np, n)
        assert np.array_equal(turned, oracle.turned(data, *oracle.axes_of(dims), n))
        if {"i", "j"} <= set(dims):
            assert np.array_equal(halo.rotate_scalar_data(turned, dims, None, -n), data)


def test_vectors_rotate_by_plus_n():
    x, y = np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3) + 10
    for n in range(-5, 6):
        got = halo.rotate_vector_data(x, y, n, ("j", "i"), np)
        want = oracle.slots((x, ("j", "i")), (y, ("j", "i")), -n)
        assert all(np.array_equal(a, b) for a, b in zip(got, want))
