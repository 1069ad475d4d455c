"""Errors of exchanges; every rank gets them."""

import numpy as np
import pytest

from damacy import halo
from damacy.halo.exchange import Exchanger
from damacy.halo.exchange_plan import Field
from damacy.halo.topology import Cartesian, CubedSphere, boundary_slice
from damacy.halo.transports import Local


def test_peers_that_disagree_both_get_an_error():
    topology = Cartesian((2,), True, sizes=[4], dims=("i",))
    ours = halo.compile([Field.like(np.zeros(6), ("i",), (1,), (4,))], topology, 0, 1)
    theirs = halo.compile([Field.like(np.zeros(6, "f4"), ("i",), (1,), (4,))], topology, 1, 1)
    local = Local(2)
    first = Exchanger(ours, local)
    with pytest.raises(RuntimeError, match="do not agree"):
        Exchanger(theirs, local)
    with pytest.raises(RuntimeError, match="do not agree"):
        first.start([np.zeros(6)])


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("width -1", {"width": -1}),
        ("width 1.5", {"width": 1.5}),
        (r"width \(1, 1, 1\)", {"width": (1, 1, 1)}),
        (r"field 0 has \[4, 4\] cells", {"sizes": [(5, 4), (4, 4)]}),
        ("a field has", {"dims": ("j", "k")}),
        ("pass a name for each", {"dims": ("j",)}),
        ("vectors", {"vectors": [(0, 2)]}),
        ("vectors", {"vectors": [(0, 1), (1, 0)]}),
    ],
)
def test_invalid_exchanges_are_refused(text, change):
    field = Field.like(np.zeros((6, 6)), ("j", "i"), (1, 1), (4, 4))
    topology = Cartesian((2, 2), True, sizes=change.pop("sizes", None), dims=change.pop("dims", None))
    with pytest.raises(ValueError, match=text):
        halo.compile([field, field], topology, 0, change.pop("width", 1), **change)


def test_fields_that_share_memory_are_not_exchanged():
    array = np.zeros((6, 6))
    field = Field.like(array, ("j", "i"), (1, 1), (4, 4))
    with Exchanger(halo.compile([field] * 2, Cartesian((1, 1), True), 0, 1), Local(1)) as exchanger:
        exchanger.exchange([array, np.zeros((6, 6))])
        with pytest.raises(ValueError, match="overlap"):
            exchanger.exchange([array, array])
        with pytest.raises(TypeError, match="float32"):
            exchanger.exchange([array, np.zeros((6, 6), "f4")])


def test_widths_are_one_number_per_dimension():
    for origin, width in (((1,), 1), ((1, 1), -1)):
        with pytest.raises(ValueError, match="dimensions|halo"):
            boundary_slice(("j", "i"), origin, (4, 4), (6, 6), halo.EAST, width, True)


def test_layouts_that_are_not_square_are_not_implemented():
    with pytest.raises(NotImplementedError, match="cubed sphere"):
        CubedSphere((1, 2))
