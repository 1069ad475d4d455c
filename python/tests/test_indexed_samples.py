"""Samples in a given order, and drawn by weight: `Indexed`, `Weighted`, `damacy.torch.from_sampler`."""

import importlib
import pickle
import random
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import damacy
from damacy import Sample
from damacy.samplers import Indexed, RandomCrops, SlidingGrid, Weighted
from damacy.samplers._weighted import alias_table
from damacy.training import Loader

CROPS = RandomCrops({"a": (9, 40), "b": (9, 16)}, (3, 8), length=30, seed=3)
SAMPLES = [Sample("a", [(k, k + 1)]) for k in range(10)]


class Shuffled:
    """As torch's DistributedSampler: an order for each epoch, after set_epoch."""

    def __init__(self, count):
        self.count, self.epoch, self.calls = count, 0, []

    def __len__(self):
        return self.count

    def set_epoch(self, epoch):
        self.calls.append(epoch)
        self.epoch = epoch

    def __iter__(self):
        order = list(range(self.count))
        random.Random(self.epoch).shuffle(order)
        return iter(order)


@pytest.mark.parametrize("indices", [[7, 0, 29, 7], np.array([7, 0, 29, 7], np.uint8), range(29, -1, -3)])
def test_samples_come_in_the_order_of_the_indices(indices):
    ordered = Indexed(CROPS, indices)
    assert len(ordered) == len(indices) and (ordered.seed, ordered.stream) == (3, 2)
    expected = [CROPS.sample(5, int(k)) for k in indices]
    assert ordered.samples(5, 0, len(indices)) == expected == [ordered.sample(5, k) for k in range(len(indices))]
    assert [sample.row_key for sample in ordered.samples(5, 1, 3)] == [(5, 1), (5, 2)]
    assert [tuple(map(tuple, box)) for box in ordered.boxes(5, 0, len(indices)).tolist()] == [s.aabb for s in expected]


def test_a_list_of_samples_is_taken_and_not_changed():
    ordered = Indexed(SAMPLES, [3, 3, 1])
    assert ordered.samples(2, 0, 3) == [SAMPLES[3], SAMPLES[3], SAMPLES[1]]
    assert [sample.row_key for sample in ordered.samples(2, 0, 3)] == [(2, 0), (2, 1), (2, 2)]
    assert SAMPLES[3].row_key is None and ordered.boxes(0, 0, 2).tolist() == [[[3, 4]], [[3, 4]]]


def test_a_sampler_without_portions_is_taken():
    class Plain:
        seed = 5

        def __len__(self):
            return 10

        def sample(self, epoch, index):
            return Sample("a", [(epoch + index, epoch + index + 1)])

    assert [s.aabb[0][0] for s in Indexed(Plain(), [9, 2]).samples(100, 0, 2)] == [109, 102]
    assert [s.aabb[0][0] for s in Weighted(Plain(), [0] * 9 + [1], length=2).samples(100, 0, 2)] == [109, 109]


def test_the_order_of_an_epoch_is_drawn_once_after_set_epoch():
    order = Shuffled(10)
    ordered = Indexed(SAMPLES, order)
    found = {epoch: [ordered.sample(epoch, k).aabb[0][0] for k in range(10)] for epoch in (0, 1)}
    assert order.calls == [0, 1] and found[0] != found[1]
    for epoch in (0, 1):  # as in a loader that has read ahead into the next epoch
        assert [ordered.sample(epoch, k).aabb[0][0] for k in range(10)] == found[epoch]
        assert sorted(found[epoch]) == list(range(10))
    assert order.calls == [0, 1]
    again = pickle.loads(pickle.dumps(Indexed(SAMPLES, Shuffled(10))))
    assert [sample.aabb[0][0] for sample in again.samples(1, 0, 10)] == found[1]


@pytest.mark.parametrize(
    ("indices", "kind", "text"),
    [
        ([0, 10], ValueError, "indices: 10 in epoch 0, of 10 samples"),
        ([0, -1], ValueError, "indices: -1 in epoch 0, of 10 samples"),
        ([[0, 1]], TypeError, "an index must be an integer (got list)"),  # torch's BatchSampler
        ([0, 1.0], TypeError, "an index must be an integer (got float)"),
    ],
)
def test_invalid_indices_are_refused_when_they_are_drawn(indices, kind, text):
    with pytest.raises(kind) as refused:
        Indexed(SAMPLES, indices).sample(0, 0)
    assert str(refused.value) == text


def test_what_has_no_length_or_another_one_is_refused():
    with pytest.raises(TypeError, match=r"^indices must have a length and be iterable \(got generator\)$"):
        Indexed(SAMPLES, (k for k in range(3)))
    with pytest.raises(ValueError, match="^indices must have at least one index$"):
        Indexed(SAMPLES, [])
    with pytest.raises(TypeError, match=r"^samples must be a sampler or a sequence of Sample \(got int\)$"):
        Indexed(3, [0])
    order = Shuffled(4)
    ordered = Indexed(SAMPLES, order)
    order.count = 5
    with pytest.raises(ValueError, match="^indices has the length 4 and gave 5 in epoch 0$"):
        ordered.sample(0, 0)
    for sampler in (Indexed(SAMPLES, [1]), Weighted(SAMPLES, [1] * 10, length=1)):
        with pytest.raises(IndexError, match="^sample 1 of an epoch of 1$"):
            sampler.sample(0, 1)


# -- Weighted ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=60).filter(lambda weights: sum(weights) > 1e-3))
def test_a_table_has_the_probabilities_of_the_weights(weights):
    limits, others = alias_table(weights)
    share = np.zeros(len(weights))
    for k, (limit, other) in enumerate(zip((limits / 2**53).tolist(), others.tolist())):
        share[k] += limit / len(weights)
        share[other] += (1 - limit) / len(weights)
    assert np.allclose(share, np.array(weights) / sum(weights), rtol=0, atol=1e-12)
    assert all(share[k] == 0 for k, weight in enumerate(weights) if weight == 0)


def test_samples_are_drawn_by_weight():
    weights = [0, 1, 2, 3, 0, 10, 0.5, 1.5, 2, 0]
    drawn = Weighted(SAMPLES, weights, length=40_000, seed=7).boxes(0, 0, 40_000)[:, 0, 0]
    expected = np.array(weights) / 20 * 40_000
    assert (np.abs(np.bincount(drawn, minlength=10) - expected) <= 5 * np.sqrt(expected)).all()


def test_draws_are_frozen():
    """The order was computed by the release that introduced `Weighted`; it must not change."""
    sampler = Weighted(SAMPLES, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], length=20, seed=-5)
    assert sampler.stream == 2
    assert [sampler.sample(3, k).aabb[0][0] for k in range(20)] == FROZEN
    assert sampler.samples(3, 0, 20) == [sampler.sample(3, k) for k in range(20)]
    assert sampler.samples(4, 0, 20) != sampler.samples(3, 0, 20)


FROZEN = [5, 8, 8, 5, 8, 8, 4, 4, 7, 9, 9, 5, 3, 4, 3, 6, 7, 8, 6, 8]


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([1], r"^weights must have one number per sample: 10 \(got 1\)$"),
        ([0] * 10, "^weights must be finite and >= 0, and not all 0$"),
        ([-1] + [1] * 9, "^weights must be finite and >= 0, and not all 0$"),
        ([float("nan")] * 10, "^weights must be finite and >= 0, and not all 0$"),
    ],
)
def test_invalid_weights_are_refused(weights, text):
    with pytest.raises(ValueError, match=text):
        Weighted(SAMPLES, weights, length=3)


# -- in loaders --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    """The element at k is k."""
    zarr = pytest.importorskip("zarr")
    path = tmp_path_factory.mktemp("indexed") / "a.zarr"
    zarr.create_array(path, shape=(20,), chunks=(4,), dtype="i4")[:] = np.arange(20)
    return path


@pytest.mark.parametrize("kind", ["indexed", "weighted"])
def test_a_loader_resumes_in_the_order_of_the_sampler(array, kind):
    def loader():
        grid = SlidingGrid({array: (20,)}, (1,))
        sampler = Indexed(grid, Shuffled(20)) if kind == "indexed" else Weighted(grid, range(20), length=20, seed=1)
        fields = {"host_buffer_bytes": 1 << 20, "device_buffer_bytes": 1 << 20, "device": "cpu", "dtype": "i32"}
        return Loader(sampler, damacy.Config(batch_size=4, **fields))

    def steps(run, count):
        found = []
        while len(found) < count:
            for batch in run:
                with batch as lent:
                    found.append(lent.numpy()[:, 0].tolist())
                if len(found) == count:
                    break
        return found

    with loader() as whole:
        expected = steps(whole, 10)
        order = whole._sampler.samples(0, 0, 20) + whole._sampler.samples(1, 0, 20)
    assert sum(expected, []) == [sample.aabb[0][0] for sample in order]
    with loader() as first:
        assert steps(first, 7) == expected[:7]
        state = first.state_dict()
    with loader() as second:
        second.load_state_dict(state)
        assert steps(second, 3) == expected[7:]


def test_damacy_torch_takes_torchs_samplers(monkeypatch):
    """Also without torch: a module of that name has what `damacy.torch` imports."""
    torch = types.ModuleType("torch")
    data = types.ModuleType("torch.utils.data")
    data.IterableDataset, data.DataLoader = type("IterableDataset", (), {}), {}.__class__
    torch.utils = types.ModuleType("torch.utils")
    torch.utils.data = data
    for name, module in (("torch", torch), ("torch.utils", torch.utils), ("torch.utils.data", data)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "damacy.torch", raising=False)
    monkeypatch.delattr(damacy, "torch", raising=False)
    made = importlib.import_module("damacy.torch").from_sampler(CROPS, Shuffled(30))
    monkeypatch.delitem(sys.modules, "damacy.torch")
    assert isinstance(made, Indexed) and made.samples(1, 0, 30) == Indexed(CROPS, Shuffled(30)).samples(1, 0, 30)


DRAWN_BY_TORCH = """
import sys, torch
from damacy.samplers import Indexed, RandomCrops
from damacy.torch import from_sampler

torch.manual_seed(int(sys.argv[1]))  # DDP does not ask for one seed on all ranks
crops = RandomCrops({"a": (1_000_000,)}, (10,), length=64, seed=3)
after = torch.rand(3)
torch.manual_seed(int(sys.argv[1]))
for kind in (
    torch.utils.data.RandomSampler(range(64)),
    torch.utils.data.SubsetRandomSampler(range(64)),
    torch.utils.data.WeightedRandomSampler([1.0] * 64, 64),
):
    for make in (Indexed, from_sampler):
        for epochs in ((0, 1, 2), (2, 0)):  # a resumed run draws only later epochs
            order = make(crops, kind)
            print([(epoch, order.boxes(epoch, 0, 64)[:, 0, 0].tolist()) for epoch in sorted(epochs)][-1])
assert (torch.rand(3) == after).all()  # the program's own random numbers stay
"""


def test_a_torch_sampler_without_a_seed_has_one_order_in_all_processes():
    pytest.importorskip("torch")
    outputs = [
        subprocess.run(
            [sys.executable, "-c", DRAWN_BY_TORCH, seed], capture_output=True, text=True, check=True, timeout=300
        ).stdout.splitlines()
        for seed in "12"
    ]
    assert outputs[0] == outputs[1] and len(outputs[0]) == 12
    for k in range(0, 12, 4):
        assert len(set(outputs[0][k : k + 4])) == 1
    assert len(set(outputs[0])) == 3
