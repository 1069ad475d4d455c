"""Padding of torch tensors: equal to the unsharded tensor, forward and backward; memory order kept; nothing copied."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="halo.torch needs torch")

from damacy import halo  # noqa: E402
from damacy.halo.torch import empty_padded, pad, padding  # noqa: E402


def in_threads(count, work):
    """Runs `work(rank)` for all ranks at once, and returns the results."""
    out, failures = [None] * count, []

    def run(rank):
        try:
            out[rank] = work(rank)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    if failures:
        raise failures[0]
    return out


def alone(periodic=True, width=1, dims="nchw", over=("h", "w")):
    topology = halo.Cartesian((1,) * len(over), periodic, dims=over)
    return padding(topology, 0, width, halo.Local(1), dims=dims)


def test_one_periodic_rank_pads_as_torch_does():
    x = torch.randn(2, 3, 5, 6)
    assert torch.equal(pad(x, alone(width=2)), torch.nn.functional.pad(x, (2, 2, 2, 2), mode="circular"))


def test_physical_edges_get_zeros_or_stay():
    x = torch.randn(1, 2, 4, 4)
    assert torch.equal(pad(x, alone(periodic=False)), torch.nn.functional.pad(x, (1, 1, 1, 1)))
    inside = empty_padded((1, 2, 4, 4), alone(periodic=False))
    inside._damacy_room.padded.fill_(7)
    inside.copy_(x)
    assert (pad(inside, alone(periodic=False), boundary="keep")[:, :, 0] == 7).all()


def test_a_copy_has_zeros_at_physical_edges_also_with_boundary_keep():
    x = torch.randn(1, 2, 4, 4)
    assert torch.equal(pad(x, alone(periodic=False), boundary="keep"), torch.nn.functional.pad(x, (1, 1, 1, 1)))


def test_halos_wider_than_their_neighbours_end_in_zeros():
    full = torch.arange(1.0, 6).reshape(1, 1, 5)
    topology, local = halo.Cartesian((3,), False, sizes=[(1, 3, 1)], dims=("w",)), halo.Local(3)
    parts = in_threads(
        3, lambda r: pad(full.split((1, 3, 1), 2)[r], padding(topology, r, (3, 2), local, dims="ncw"), boundary="keep")
    )
    wanted = torch.nn.functional.pad(full, (3, 2))
    assert all(torch.equal(part, wanted[..., a : a + n + 5]) for part, a, n in zip(parts, (0, 1, 4), (1, 3, 1)))


def test_widths_of_unknown_dimensions_are_refused():
    for change in ({"width": -1}, {"width": {"x": 1}}, {"dims": "ncw"}):
        with pytest.raises(ValueError, match="width|dimensions"):
            alone(**change)


def test_an_interior_is_not_copied_and_other_tensors_once():
    plan = alone()
    inside = empty_padded((1, 2, 4, 4), plan, dtype=torch.float64)
    inside.copy_(torch.randn(1, 2, 4, 4))
    padded = pad(inside, plan)
    assert padded.untyped_storage().data_ptr() == inside.untyped_storage().data_ptr()
    other = torch.randn(1, 2, 6, 6)[:, :, 1:-1, 1:-1]  # a view; the room around it belongs to another tensor
    before = other._base.clone()
    assert pad(other, plan).untyped_storage().data_ptr() != other.untyped_storage().data_ptr()
    assert torch.equal(other._base, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.complex64, torch.int32])
def test_memory_order_and_type_are_kept(dtype):
    x = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).to(dtype).contiguous(memory_format=torch.channels_last)
    padded = pad(x, alone())
    assert padded.is_contiguous(memory_format=torch.channels_last)
    assert padded.dtype == dtype
    assert torch.equal(padded[:, :, 0, 1:-1], x[:, :, -1])


def layouts(x):
    return [x.contiguous(), x.contiguous(memory_format=torch.channels_last)]


def test_blocks_of_one_cell_may_have_other_strides_than_their_neighbours():
    """The strides of a block of 1 x 1 do not tell its memory order; the ranks must make the same exchangers."""
    full = torch.arange(2 * 3 * 4.0).reshape(2, 3, 1, 4)
    sizes = (3, 1)
    topology, local = halo.Cartesian((2,), True, sizes=[sizes], dims=("w",)), halo.Local(2)
    wanted = torch.cat([full[..., -1:], full, full[..., :1]], 3)

    def work(rank):
        plan = padding(topology, rank, 1, local, dims="nchw")
        x = full.split(sizes, 3)[rank]
        out = []
        for mine, theirs in ((0, 0), (1, 0), (1, 1), (0, 1)):  # memory orders of the two ranks
            out.append(pad(layouts(x)[theirs if rank else mine], plan))
            inside = empty_padded(x.shape, plan, memory_format=(torch.contiguous_format, torch.channels_last)[mine])
            inside.copy_(x)
            out.append(pad(inside, plan))
        return out, len(plan._kinds)

    for rank, (start, (padded, kinds)) in enumerate(zip((0, 3), in_threads(2, work))):
        assert kinds == 1
        for one in padded:
            assert torch.equal(one, wanted[..., start : start + sizes[rank] + 2])
    assert in_threads(2, work)[0][0][2].is_contiguous(memory_format=torch.channels_last)


def test_the_exchanges_that_were_used_last_are_kept(monkeypatch):
    monkeypatch.setattr("damacy.halo.torch._MOST_KINDS", 2)
    topology, local = halo.Cartesian((2,), True, dims=("w",)), halo.Local(2)
    fulls = {cells: torch.randn(1, 1, cells, 8) for cells in (3, 4, 5)}

    def work(rank):
        plan = padding(topology, rank, 1, local, dims="nchw")
        inside = empty_padded((1, 1, 3, 4), plan)
        inside.copy_(fulls[3].chunk(2, 3)[rank])
        made, closed = [], []
        for cells in (3, 4, 3, 5, 3, 4, 5, 3):
            x = inside if cells == 3 else fulls[cells].chunk(2, 3)[rank]
            full = fulls[cells].roll(1 - 4 * rank, 3)
            assert torch.equal(pad(x, plan), full[..., :6])
            kinds = list(plan._kinds.values())
            closed += [kind for kind in made if kind not in kinds and kind not in closed]
            made += [kind for kind in kinds if kind not in made]
            assert len(kinds) <= 2
        assert len(plan._ambiguous) <= 2
        for kind in closed:
            with pytest.raises(RuntimeError, match="closed"):
                kind.forward.bind([x])
        return [kind.key[0][2] for kind in closed]

    assert in_threads(2, work) == [[4, 5, 3, 4]] * 2


def test_dimensions_of_one_element_do_not_change_the_memory_order():
    x = torch.randn(1, 3, 4, 5)
    plan = alone()
    for n in (0, 1):
        like = layouts(x)[n]
        odd = torch.empty_strided(x.shape, (1, *like.stride()[1:])).copy_(x)
        assert pad(odd, plan).stride()[1:] == pad(like, plan).stride()[1:]
    assert len(plan._kinds) == 2


@pytest.mark.parametrize("periodic", [True, False])
def test_gradients_are_exact_and_may_be_differentiated(periodic):
    plan = alone(periodic, width=2, over=("h",))
    x = torch.randn(1, 1, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: pad(t, plan), (x,))
    assert torch.autograd.gradgradcheck(lambda t: pad(t, plan) ** 2, (x,))


@pytest.mark.parametrize(("ranks", "periodic"), [(2, True), (2, False), (3, True)])
def test_a_sharded_convolution_is_the_unsharded_one(ranks, periodic):
    torch.manual_seed(1)
    full = torch.randn(1, 2, 4 * ranks, 5, 6, dtype=torch.float64)
    weight = torch.randn(3, 2, 3, 3, 3, dtype=torch.float64)
    topology = halo.Cartesian((ranks,), periodic, dims=("d",))
    local = halo.Local(ranks)

    def convolved(padded, w):
        return torch.nn.functional.conv3d(torch.nn.functional.pad(padded, (1, 1, 1, 1)), w)

    def shard(rank):
        x = full[:, :, 4 * rank : 4 * rank + 4].clone().requires_grad_()
        w = weight.clone().requires_grad_()
        y = convolved(pad(x, padding(topology, rank, 1, local, dims="ncdhw")), w)
        (y**2).sum().backward()
        return y.detach(), x.grad, w.grad

    whole, w = full.clone().requires_grad_(), weight.clone().requires_grad_()
    mode = {"mode": "circular"} if periodic else {}
    y = convolved(torch.nn.functional.pad(whole, (0, 0, 0, 0, 1, 1), **mode), w)
    (y**2).sum().backward()
    parts = in_threads(ranks, shard)
    assert torch.allclose(torch.cat([p[0] for p in parts], 2), y, atol=1e-12)
    assert torch.allclose(torch.cat([p[1] for p in parts], 2), whole.grad, atol=1e-10)
    assert torch.allclose(sum(p[2] for p in parts), w.grad, atol=1e-9)
