"""The repr of objects, as in a notebook or a debugger."""

from damacy import Config
from damacy._pipeline.explanation import Explanation
from damacy.samplers import RandomCrops, SlidingGrid
from damacy.training import Loader

ARRAYS = {"a.zarr": (100, 200), "b.zarr": (50, 60)}


def test_the_repr_of_a_sampler_describes_its_draws():
    crops = RandomCrops(ARRAYS, (32, 16), length=1000, seed=7)
    assert repr(crops) == ("<damacy.samplers.RandomCrops of (32, 16) in 2 arrays: length=1000, seed=7, stream=2>")
    one = {"a.zarr": (100, 200)}
    assert repr(SlidingGrid(one, (50, 100))) == (
        "<damacy.samplers.SlidingGrid of (50, 100) in 1 array: 4 crops, stride=(50, 100), in order>"
    )
    assert "seed=3>" in repr(SlidingGrid(one, (50, 100), seed=3))


def test_the_repr_of_a_loader_has_its_position_without_looking_up_ranks():
    crops = RandomCrops(ARRAYS, (32, 16), length=1000, seed=7)
    loader = Loader(crops, Config(batch_size=8), rank=1, ranks=2)
    assert repr(loader) == (
        f"<damacy.training.Loader of {crops!r}: batch_size=8, rank 1 of 2, tail='drop', at sample 0 of epoch 0>"
    )
    assert "ranks not looked up yet" in repr(Loader(crops, Config(batch_size=8), rank="auto", ranks="auto"))


def test_an_explanation_shows_its_text():
    explanation = Explanation("read", 0.5, 1e9, 0.1, (), "more", "1 GB/s: read binds.")
    assert repr(explanation) == "<damacy.Explanation: 1 GB/s: read binds.>"
    assert str(explanation) == "1 GB/s: read binds."
