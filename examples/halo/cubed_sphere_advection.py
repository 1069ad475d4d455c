"""Advection around a cubed sphere: six tiles, halos by damacy.halo, over MPI or in one process.

    python examples/halo/cubed_sphere_advection.py --out one.npz
    mpirun -n 6 python examples/halo/cubed_sphere_advection.py --out six.npz --compare one.npz --plot tracer.png

Solid rotation about a tilted axis transports a tracer; fluxes are upwind on the faces of a gnomonic grid. Each step
exchanges the tracer's halo. The two runs are equal bit for bit, and the tracer's mass is conserved.
"""

from __future__ import annotations

import argparse
import contextlib
import threading

import numpy as np

from damacy import halo

# The directions (normal, i, j) of each tile, consistent with the links of halo.CubedSphere.
X, Y, Z = np.eye(3)
TILES = [(X, Y, Z), (Y, -X, Z), (Z, -X, -Y), (-X, -Z, -Y), (-Y, -Z, X), (-Z, Y, X)]
AXIS = np.array([0.3, 0.4, 0.866])
HALO = 1


def points(tile, a, b):
    """Points of the unit sphere at angles `a` (along i) and `b` (along j) of a tile."""
    normal, along_i, along_j = TILES[tile]
    cube = normal + np.tan(a)[..., None] * along_i + np.tan(b)[..., None] * along_j
    return cube / np.linalg.norm(cube, axis=-1, keepdims=True)


class Tile:
    """One tile's grid: areas of cells, and the flow through each face."""

    def __init__(self, tile, n):
        edges = np.linspace(-np.pi / 4, np.pi / 4, n + 1)
        centres = (edges[1:] + edges[:-1]) / 2
        b, a = np.meshgrid(centres, centres, indexing="ij")
        self.centres = points(tile, a, b)
        corner_b, corner_a = np.meshgrid(edges, edges, indexing="ij")
        corners = points(tile, corner_a, corner_b)
        self.areas = quadrangle(corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1])
        # The stream function of solid rotation is the height along its axis; flow is its difference between corners.
        stream = corners @ AXIS
        self.flow_i = stream[1:, :] - stream[:-1, :]  # through faces between columns
        self.flow_j = -(stream[:, 1:] - stream[:, :-1])  # through faces between rows
        distance = np.arccos(np.clip(self.centres @ np.array([1.0, 0, 0]), -1, 1))
        self.tracer = np.zeros((n + 2 * HALO, n + 2 * HALO))
        self.tracer[HALO:-HALO, HALO:-HALO] = np.exp(-((distance / 0.4) ** 2))

    def step(self, dt):
        """One upwind step. The tracer's halo must be filled."""
        q = self.tracer
        inner = slice(HALO, -HALO)
        left, right = q[inner, HALO - 1 : -HALO], q[inner, HALO : q.shape[1] - HALO + 1]
        below, above = q[HALO - 1 : -HALO, inner], q[HALO : q.shape[0] - HALO + 1, inner]
        through_i = np.maximum(self.flow_i, 0) * left + np.minimum(self.flow_i, 0) * right
        through_j = np.maximum(self.flow_j, 0) * below + np.minimum(self.flow_j, 0) * above
        gone = through_i[:, 1:] - through_i[:, :-1] + through_j[1:] - through_j[:-1]
        q[inner, inner] -= dt * gone / self.areas

    @property
    def mass(self):
        return float((self.tracer[HALO:-HALO, HALO:-HALO] * self.areas).sum())


def quadrangle(a, b, c, d):
    """Areas of spherical quadrangles, each the sum of two triangles."""
    return triangle(a, b, c) + triangle(a, c, d)


def triangle(a, b, c):
    dot = lambda u, v: (u * v).sum(-1)  # noqa: E731
    volume = np.abs(dot(a, np.cross(b, c)))
    return 2 * np.arctan2(volume, 1 + dot(a, b) + dot(b, c) + dot(c, a))


def run(rank, transport, n, steps):
    tile = Tile(rank, n)
    field = halo.Field.like(tile.tracer, ("j", "i"), (HALO, HALO), (n, n))
    dt = 0.2 * (np.pi / 2) / n  # the same on all tiles; emptying a cell takes at least two steps
    before = tile.mass
    with halo.Exchanger(halo.compile([field], halo.CubedSphere(1), rank, HALO), transport) as exchanger:
        for _ in range(steps):
            exchanger.exchange([tile.tracer])
            tile.step(dt)
    return tile.tracer[HALO:-HALO, HALO:-HALO].copy(), before, tile.mass


def in_one_process(n, steps):
    transport, out = halo.Local(6), [None] * 6

    def work(rank):
        out[rank] = run(rank, transport, n, steps)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


def plot(tiles, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), subplot_kw={"projection": "mollweide"})
    for rank, values in enumerate(tiles):
        where = Tile(rank, values.shape[0]).centres
        longitude, latitude = np.arctan2(where[..., 1], where[..., 0]), np.arcsin(where[..., 2])
        drawn = axes.scatter(longitude, latitude, c=values, s=6, vmin=0, vmax=max(t.max() for t in tiles))
    axes.grid(alpha=0.3)
    figure.colorbar(drawn, label="tracer", shrink=0.7)
    axes.set_title("the tracer after crossing edges of tiles")
    figure.savefig(path, dpi=110, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=48, help="cells along a tile's side")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out")
    parser.add_argument("--compare", help="a file of another run, to which this one must be equal")
    parser.add_argument("--plot")
    arguments = parser.parse_args()

    comm = None
    with contextlib.suppress(ImportError):
        from mpi4py import MPI

        comm = MPI.COMM_WORLD if MPI.COMM_WORLD.Get_size() > 1 else None
    if comm is None:
        results = in_one_process(arguments.n, arguments.steps)
    else:
        results = comm.gather(run(comm.Get_rank(), halo.MPI(comm), arguments.n, arguments.steps))
        if comm.Get_rank() != 0:
            return
    tiles = np.stack([r[0] for r in results])
    before, after = sum(r[1] for r in results), sum(r[2] for r in results)
    assert abs(after - before) < 1e-9 * before, (before, after)
    print(f"{'6 MPI ranks' if comm else 'one process'}: mass {before:.12f} -> {after:.12f}, highest {tiles.max():.4f}")
    if arguments.out:
        np.savez(arguments.out, tiles=tiles)
    if arguments.compare:
        assert np.array_equal(np.load(arguments.compare)["tiles"], tiles)
        print("equal, bit for bit, to", arguments.compare)
    if arguments.plot:
        plot(tiles, arguments.plot)


if __name__ == "__main__":
    main()
