"""Topologies and exchanges in one process, compared with index arithmetic (grids) and geometry (cubed sphere)."""

import copy
import itertools
import pickle
import random

import numpy as np
import pytest

from damacy import halo
from damacy.halo import topology as topologies
from damacy.halo.exchange import Exchanger
from damacy.halo.exchange_plan import Field
from damacy.halo.topology import CORNERS, Cartesian, CubedSphere, Link, Links, boundary_slice, check_symmetric
from damacy.halo.transports import Local
from tests.support import cube

NAMES = ("k", "j", "i")


def exchange_all(plans, arrays, depth=2):
    local = Local(len(plans))
    exchangers = [Exchanger(plan, local, depth=depth) for plan in plans]
    tokens = [e.start(a) for e, a in zip(exchangers, arrays)]
    finish_all(exchangers, tokens)
    for e in exchangers:
        e.close()


def finish_all(exchangers, tokens):
    """One thread per rank, because a sequential phase needs the peers' previous phase."""
    import threading

    failures = []

    def finish(e, t):
        try:
            e.finish(t)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=finish, args=pair) for pair in zip(exchangers, tokens)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def cells_of(topology, rank, widths):
    """Global coordinates of every cell of a rank's allocation, one list per dimension."""
    out = []
    for axis, at in enumerate(topology.coordinates(rank)):
        start = sum(topology.sizes[axis][:at])
        out.append(range(start - widths[axis][0], start + topology.sizes[axis][at] + widths[axis][1]))
    return out


@pytest.mark.parametrize("seed", range(60))
def test_a_grid_gives_each_ghost_cell_its_owners_value(seed):
    rng = random.Random(seed)
    rank_count = rng.randint(1, 3)
    grid = [rng.randint(1, 3) for _ in range(rank_count)]
    periodic = [rng.random() < 0.6 for _ in grid]
    sizes = [tuple(rng.randint(1, 5) for _ in range(n)) for n in grid]
    corners = rng.choice(["direct", "none", "sequential"])
    widths = [(rng.randint(0, 3), rng.randint(0, 3)) for _ in grid]
    topology = Cartesian(grid, periodic, sizes=sizes, corners=corners, dims=NAMES[-rank_count:])
    total = [sum(s) for s in sizes]
    plans, arrays, wanted = [], [], []
    for rank in range(topology.size):
        cells = cells_of(topology, rank, widths)
        extent = [sizes[a][at] for a, at in enumerate(topology.coordinates(rank))]
        array = np.full([len(c) for c in cells], -1.0)
        want = array.copy()
        for place in itertools.product(*map(range, array.shape)):
            outside = [not widths[a][0] <= p < widths[a][0] + extent[a] for a, p in enumerate(place)]
            where = [cells[a][p] for a, p in enumerate(place)]
            there = all(p or 0 <= w < n for p, w, n in zip(periodic, where, total))
            value = float(np.ravel_multi_index([w % n for w, n in zip(where, total)], total)) if there else -1.0
            if not any(outside):
                array[place] = value
            if sum(outside) <= 1 or corners != "none":
                want[place] = value
        origin = [w[0] for w in widths]
        fields = [Field.like(array, NAMES[-rank_count:], origin, extent)]
        arrays.append([array])
        wanted.append(want)
        plans.append(halo.compile(fields, topology, rank, widths, wire="native" if seed % 2 else "ndsl"))
    exchange_all(plans, arrays)
    for rank, (got, want) in enumerate(zip(arrays, wanted)):
        assert np.array_equal(got[0], want), (rank, got[0], want)


@pytest.mark.parametrize("layout", [1, 2, 3, 4])
def test_links_of_the_cubed_sphere_are_those_of_the_geometry(layout):
    sphere = CubedSphere(layout)
    check_symmetric(sphere)
    n = 2 * layout
    for rank in range(sphere.size):
        tile, row, col = sphere.place(rank)
        for side, (i_end, j_end) in topologies.SIDE_ENDS.items():
            i = {-1: col * 2 - 1, 0: col * 2, 1: col * 2 + 2}[i_end]
            j = {-1: row * 2 - 1, 0: row * 2, 1: row * 2 + 2}[j_end]
            found = sphere.neighbour(rank, side)
            if not 0 <= i < n and not 0 <= j < n:
                assert found is None
                continue
            there, at_j, at_i, _, _ = cube.fold(tile, j, i, n)
            assert found[0] == there * layout**2 + at_j // 2 * layout + at_i // 2


def test_topologies_can_be_copied():
    grid = Cartesian((2, 3), (True, False), sizes=[4, (1, 2, 3)], corners="none", dims="ab")
    said = ((2, 3), (True, False), 6, "none", ("a", "b"), ((4, 4), (1, 2, 3)))
    for one in (grid, pickle.loads(pickle.dumps(grid)), copy.deepcopy(grid)):
        assert type(one) is Cartesian
        assert (one.grid, one.periodic, one.size, one.corners, one.dims, one.sizes) == said
        assert one.links(4, 1) == grid.links(4, 1)
        assert one.with_sizes([1, 1]) is one
    sphere = CubedSphere([2, 2], fill="x")
    for one in (sphere, pickle.loads(pickle.dumps(sphere)), copy.deepcopy(sphere)):
        assert (type(one), one.layout, one.fill, one.size, one.dims) == (CubedSphere, 2, "x", 24, ("j", "i"))
        assert one.links(5) == sphere.links(5)
    bare = Cartesian((2,), True)
    assert (bare.periodic, bare.dims, bare.sizes) == ((True,), ("i",), None)
    assert bare.with_sizes([3]).sizes == ((3, 3),)


def sphere_case(layout, n, h, names=("j", "i")):
    """Scalar and vector fields of every rank, with distinct values per component and cell, and the expected halos."""
    size = n * layout
    fields, wanted = [], []
    for rank in range(6 * layout**2):
        tile, row, col = CubedSphere(layout).place(rank)
        shape = (n + 2 * h, n + 2 * h)
        got = [np.full(shape, -1.0) for _ in range(3)]
        want = [np.full(shape, -1.0) for _ in range(3)]
        for j, i in itertools.product(range(-h, n + h), repeat=2):
            gj, gi = row * n + j, col * n + i
            if not 0 <= gj < size and not 0 <= gi < size:
                continue
            t, fj, fi, along_i, along_j = cube.fold(tile, gj, gi, size)
            base = 1.0 + (t * size + fj) * size + fi
            x, y = base + 1e6, base + 2e6
            # The vector (x along I, y along J of the other tile) in this tile's axes, continued across the edge.
            values = (base, x * along_i[0] + y * along_i[1], x * along_j[0] + y * along_j[1])
            for k, value in enumerate(values):
                want[k][h + j, h + i] = value
                if 0 <= j < n and 0 <= i < n:
                    got[k][h + j, h + i] = value
        fields.append([a if names == ("j", "i") else np.asfortranarray(a) for a in got])
        wanted.append(want)
    return fields, wanted


@pytest.mark.parametrize("wire", ["ndsl", "native"])
@pytest.mark.parametrize(("layout", "n", "h"), [(1, 4, 1), (1, 5, 3), (2, 4, 2), (3, 3, 3), (4, 2, 1)])
def test_scalars_and_vectors_cross_the_cubed_sphere_as_by_folding(layout, n, h, wire):
    fields, wanted = sphere_case(layout, n, h)
    sphere = CubedSphere(layout)
    plans = [
        halo.compile(
            [Field.like(a, ("j", "i"), (h, h), (n, n)) for a in arrays], sphere, rank, h, vectors=[(1, 2)], wire=wire
        )
        for rank, arrays in enumerate(fields)
    ]
    assert all(len(plan.peers) == len(set(plan.peers)) for plan in plans)
    exchange_all(plans, fields)
    for rank, (got, want) in enumerate(zip(fields, wanted)):
        for k in range(3):
            assert np.array_equal(got[k], want[k]), (rank, k, got[k], want[k])


def vector_at(position):
    """Three numbers that are unique to the point."""
    return np.array([1, 1000, 10**6]) * (7 + (position + 20) @ [1, 50, 2500])


@pytest.mark.parametrize("wire", ["ndsl", "native"])
@pytest.mark.parametrize("staggered", [((1, 0), (0, 1)), ((0, 1), (1, 0))])  # (j, i) of x, of y
@pytest.mark.parametrize(("layout", "n", "h"), [(1, 4, 2), (2, 3, 1)])
def test_vectors_on_interfaces_cross_the_cubed_sphere_as_by_folding(layout, n, h, staggered, wire):
    sphere, size = CubedSphere(layout), layout * n
    plans, arrays, wanted = [], [], []
    for rank in range(sphere.size):
        tile, row, col = sphere.place(rank)
        fields = []
        for component, more in enumerate(staggered):
            got = np.zeros([n + m + 2 * h for m in more])
            want = np.zeros_like(got)
            for at in np.ndindex(*got.shape):
                local = [k - h for k in at]
                b, a = (2 * (k + n * o) + 1 - m - size for k, o, m in zip(local, (row, col), more))
                if abs(a) <= size or abs(b) <= size:
                    position, *axes = cube.place(tile, b, a, size)
                    want[at] = vector_at(position) @ axes[component]
                if all(0 <= k < n + m for k, m in zip(local, more)):
                    got[at] = want[at]
            names = [d + "_interface" * m for d, m in zip("ji", more)]
            fields.append(Field.like(got, names, (h, h), [n + m for m in more]))
            arrays.append(got)
            wanted.append(want)
        plans.append(halo.compile(fields, sphere, rank, h, vectors=[(0, 1)], wire=wire))
    exchange_all(plans, list(zip(arrays[::2], arrays[1::2])))
    assert all(np.array_equal(got, want) for got, want in zip(arrays, wanted))


@pytest.mark.parametrize("fill", ["x", "y"])
def test_cells_beyond_a_cube_corner_are_filled_on_request(fill):
    n, h = 4, 2
    fields, _ = sphere_case(1, n, h)
    fields = [[f[0]] for f in fields]
    sphere = CubedSphere(1, fill=fill)
    plans = [halo.compile([Field.like(a[0], ("j", "i"), (h, h), (n, n))], sphere, r, h) for r, a in enumerate(fields)]
    exchange_all(plans, fields)
    for (a,) in fields:
        assert (a > 0).all()
        # The outermost cell of the south-west corner has its value from the halo in x, or in y.
        assert a[1, 0] == (a[3, 1] if fill == "x" else a[0, 2])


def test_fields_of_several_types_are_sent_in_one_message_also_in_flight():
    topology = Cartesian((2,), True, sizes=[4], dims=("i",))
    arrays = []
    for rank in range(2):
        parts = [np.zeros(6, t) for t in ("float64", "int16", "complex64", "bool")]
        for k, a in enumerate(parts):
            a[1:5] = (np.arange(4) + 4 * rank + 10 * k).astype(a.dtype)
        arrays.append(parts)
    plans = [
        halo.compile([Field.like(a, ("i",), (1,), (4,)) for a in parts], topology, r, 1)
        for r, parts in enumerate(arrays)
    ]
    assert [len(p.phases[0].sends) for p in plans] == [1, 1]
    local = Local(2)
    exchangers = [Exchanger(p, local) for p in plans]
    first = [e.start(a) for e, a in zip(exchangers, arrays)]
    second = [e.start(a) for e, a in zip(exchangers, arrays)]
    with pytest.raises(RuntimeError, match="in flight"):
        exchangers[0].start(arrays[0])
    for tokens in (first, second):
        for e, t in zip(exchangers, tokens):
            e.finish(t)
    for rank, parts in enumerate(arrays):
        for ours, theirs in zip(parts, arrays[1 - rank]):
            assert (ours[0], ours[5]) == (theirs[4], theirs[1])
    with pytest.raises(RuntimeError, match="finished already"):
        exchangers[0].finish(first[0])
    with pytest.raises(RuntimeError, match="another"):
        exchangers[0].finish(second[1])


def test_exchanges_in_flight_are_finished_in_any_order():
    field = Field.like(np.zeros(6), ("i",), (1,), (4,))
    plans = [halo.compile([field], Cartesian((2,), True, dims=("i",)), rank, 1) for rank in range(2)]
    local = Local(2)
    exchangers = [Exchanger(plan, local) for plan in plans]
    for first in (0, 2):
        arrays = [[np.full(6, 10.0 * n + rank) for n in (first, first + 1)] for rank in range(2)]
        tokens = [[e.start([a]) for a in own] for e, own in zip(exchangers, arrays)]
        for rank, order in ((0, (1, 0)), (1, (0, 1))):
            for n in order:
                exchangers[rank].finish(tokens[rank][n])
                assert arrays[rank][n][0] == arrays[rank][n][5] == 10 * (first + n) + 1 - rank
    assert not local._mail


def test_links_may_be_given_explicitly():
    """A link of rank 0 to itself: cells at its end become the halo at its start."""
    links = Links([[Link(0, (1,), (-1,), 0, ((3, 4),), None), Link(0, (-1,), (1,), 0, None, ((-1, 0),))]], ("i",))
    a = np.array([-1.0, 1, 2, 3, 4, -1])
    plan = halo.compile([Field.like(a, ("i",), (1,), (4,))], links, 0, 1)
    exchange_all([plan], [[a]])
    assert a.tolist() == [4, 1, 2, 3, 4, -1]


def test_links_with_boxes_and_without_may_be_mixed():
    field = Field.like(np.zeros((6, 6)), ("j", "i"), (1, 1), (4, 4))
    whole = (0, 4)
    by_hand = Link(1, halo.WEST, halo.EAST, 0, (whole, (0, 1)), (whole, (-1, 0)))

    def compiled(*links):
        return halo.compile([field], Links(links, ("j", "i")), 0, 1).phases[0]

    east = Link(1, halo.EAST, halo.WEST)
    mixed, plain = compiled(east, by_hand), compiled(east, Link(1, halo.WEST, halo.EAST))
    assert (mixed.sends, mixed.receives) == (plain.sends, plain.receives)
    with pytest.raises(RuntimeError, match="does not send"):
        compiled(Link(0, halo.EAST, halo.WEST, 0, None, (whole, (4, 5))))


def test_boundary_slices_equal_those_of_the_table():
    shape, origin, extent = (11, 10), (3, 3), (5, 4)
    dims = ("j_interface", "i")
    assert boundary_slice(dims, origin, extent, shape, halo.SOUTH, 2, True) == (slice(4, 6), slice(3, 7))
    assert boundary_slice(dims, origin, extent, shape, halo.SOUTH, 2, False) == (slice(1, 3), slice(3, 7))
    assert boundary_slice(dims, origin, extent, shape, halo.NORTHEAST, 2, True) == (slice(5, 7), slice(5, 7))
    assert boundary_slice(dims, origin, extent, shape, halo.NORTHEAST, 3, False) == (slice(8, 11), slice(7, 10))
    with pytest.raises(IndexError, match="past start of domain on dimension i: -1:3 of 10 elements"):
        boundary_slice(dims, origin, extent, shape, halo.WEST, 4, False)
    with pytest.raises(IndexError, match="Boundary slice extends past end of domain on dimension j_interface"):
        boundary_slice(dims, origin, extent, shape, halo.NORTH, 4, False)
    assert set(CORNERS) == {4, 5, 6, 7}


def test_a_grid_of_three_dimensions_is_over_k_j_i():
    field = Field.like(np.zeros((6, 6, 6)), ("k", "j", "i"), (1, 1, 1), (4, 4, 4))
    assert halo.compile([field], Cartesian((2, 2, 2), True), 0, 1).peers == list(range(1, 8))


class Breaking:
    """A transport whose next step of the given name fails."""

    def __init__(self, transport):
        self._transport, self.breaks = transport, None

    def open(self, rank, rounds):
        self._channels = self._transport.open(rank, rounds)
        return self

    def __getattr__(self, name):
        def step(*arguments):
            if name == self.breaks:
                self.breaks = None
                raise OSError("the network is down")
            return getattr(self._channels, name)(*arguments)

        return step


def two_ranks():
    topology = Cartesian((2,), True, dims=("i",))
    arrays = [np.array([-1.0, rank * 10 + 1, rank * 10 + 2, -1.0]) for rank in (0, 1)]
    plans = [halo.compile([Field.like(a, ("i",), (1,), (2,))], topology, rank, 1) for rank, a in enumerate(arrays)]
    local = Local(2)
    transports = [Breaking(local), Breaking(local)]
    return arrays, transports, [Exchanger(p, t, depth=1) for p, t in zip(plans, transports)]


def exchanged(exchangers, arrays):
    finish_all(exchangers, [e.start([a]) for e, a in zip(exchangers, arrays)])
    return [list(a[[0, 3]]) for a in arrays] == [[12, 11], [2, 1]]


@pytest.mark.parametrize("step", ["post_receives", "packing"])
def test_an_exchange_that_failed_before_sending_can_be_retried(step, monkeypatch):
    arrays, transports, exchangers = two_ranks()
    bound = exchangers[0].bind([arrays[0]])
    if step == "packing":
        monkeypatch.setattr(exchangers[0], "_way", lambda *_: lambda stream: 1 / 0)
    else:
        transports[0].breaks = step
    for _ in range(3 if step == "packing" else 1):  # more times than there are slots
        with pytest.raises((ZeroDivisionError, OSError)):
            bound.start()
    monkeypatch.undo()
    assert exchanged(exchangers, arrays)


@pytest.mark.parametrize("step", ["send", "wait_received"])
def test_after_an_exchange_failed_later_the_exchanger_refuses_calls(step):
    arrays, transports, exchangers = two_ranks()
    transports[0].breaks = step
    with pytest.raises(OSError, match="network is down"):
        exchangers[0].exchange([arrays[0]])
    for refused in (exchangers[0].bind, exchangers[0].exchange):
        with pytest.raises(RuntimeError, match=r"half way \(the network is down\)"):
            refused([arrays[0]])
    exchangers[0].close()


def test_a_bound_exchange_equals_one_with_arrays_as_arguments():
    arrays, _, exchangers = two_ranks()
    bound = [e.bind([a]) for e, a in zip(exchangers, arrays)]
    for _ in range(3):
        for a in arrays:
            a[[0, 3]] = -1
        finish_all(exchangers, [b.start() for b in bound])
        assert [list(a[[0, 3]]) for a in arrays] == [[12, 11], [2, 1]]
    with pytest.raises(RuntimeError, match="another exchanger"):
        exchangers[0].finish(bound[1].start())


def test_exchanges_with_sequential_corners_are_finished_in_the_order_of_their_starts():
    grid, local = Cartesian((1, 2), True, corners="sequential"), Local(2)
    field = Field.like(np.zeros((6, 6)), ("j", "i"), (1, 1), (4, 4))
    exchangers = [Exchanger(halo.compile([field], grid, rank, 1), local) for rank in range(2)]
    arrays = [[np.full((6, 6), 100.0 * rank + n) for n in range(2)] for rank in range(2)]
    tokens = [[e.start([a]) for a in mine] for e, mine in zip(exchangers, arrays)]
    with pytest.raises(RuntimeError, match="must be finished in the order of their starts"):
        exchangers[1].finish(tokens[1][1])
    for n in range(2):
        finish_all(exchangers, [tokens[rank][n] for rank in range(2)])
        for rank in range(2):
            assert arrays[rank][n][:, (0, 5)].tolist() == [[100.0 * (1 - rank) + n] * 2] * 6
