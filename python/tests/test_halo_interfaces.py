"""Shared edges of C-grid vectors on the cubed sphere: after synchronising, both sides hold the values of one side."""

import threading

import numpy as np
import pytest

from damacy import halo
from damacy.halo.interfaces import compile_interfaces, synchronize_vector_interfaces


def vectors(n, ranks):
    rng = np.random.default_rng(5)
    made = []
    for _ in range(ranks):
        x = halo.Quantity(rng.random((n + 1, n, 2)), ("j_interface", "i", "k"))
        y = halo.Quantity(rng.random((n, n + 1, 2)), ("j", "i_interface", "k"))
        made.append((x, y))
    return made


@pytest.mark.parametrize("layout", [1, 2])
def test_both_sides_of_an_edge_hold_the_same_values(layout):
    n, sphere, local = 3, halo.CubedSphere(layout), halo.Local(6 * layout**2)
    fields = vectors(n, sphere.size)
    before = [(x.data.copy(), y.data.copy()) for x, y in fields]
    threads = [
        threading.Thread(
            target=synchronize_vector_interfaces, args=fields[r], kwargs=dict(topology=sphere, rank=r, transport=local)
        )
        for r in range(sphere.size)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(sphere.size):
        for side, negated in ((halo.SOUTH, (2, 3)), (halo.WEST, (1, 2))):
            peer, r, peer_side = sphere.neighbour(rank, side)
            line = before[rank][0][0] if side == halo.SOUTH else before[rank][1][:, 0]
            # As a line along i it is flipped for -r in {1, 2}, along j for -r in {2, 3}.
            line = line[::-1] if -r % 4 in ((1, 2) if side == halo.SOUTH else (2, 3)) else line
            line = -line if r in negated else line
            x, y = fields[peer]
            got = x.data[-1] if peer_side == halo.NORTH else y.data[:, -1]
            assert peer_side in (halo.NORTH, halo.EAST)
            assert np.array_equal(got, line), (rank, side, r)


def test_vectors_on_other_grids_are_refused():
    (x, y), sphere = vectors(3, 1)[0], halo.CubedSphere(1)
    fields = [halo.Field.like(q, q.dims, q.origin, q.extent) for q in (x, y)]
    with pytest.raises(ValueError, match="vector must be defined on Arakawa C-grid"):
        compile_interfaces(fields[1], fields[0], sphere, 0)


def test_the_programs_of_the_migration_page_run():
    import pathlib
    import re

    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "migrating-from-ndsl.md"
    programs = [p for p in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S) if "assert" in p]
    assert len(programs) == 2
    for program in programs:
        exec(program, {})
