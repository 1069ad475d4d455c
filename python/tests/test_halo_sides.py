"""Boxes of sides as callers give their arguments."""

import numpy as np
import pytest

from damacy import halo

ARGUMENTS = (("j", "i"), (3, 3), (4, 4), (10, 10))


@pytest.mark.parametrize("interior", [True, 1, np.bool_(True)])
def test_interior_is_any_truth_value(interior):
    assert halo.boundary_slice(*ARGUMENTS, halo.WEST, np.int64(2), interior) == (slice(3, 7), slice(3, 5))


def test_numbers_of_arrays_are_numbers():
    origin, extent = np.array([3, 3]), [np.int32(4), 4]
    assert halo.boundary_slice(("j", "i"), origin, extent, (10, 10), halo.EAST, 2, 0) == (slice(3, 7), slice(7, 9))


def test_a_side_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="side 8: expected one of 0 to 7"):
        halo.boundary_slice(*ARGUMENTS, 8, 2, True)
    with pytest.raises(ValueError, match="n_halo: expected a positive number of cells"):
        halo.boundary_slice(*ARGUMENTS, halo.WEST, -1, True)
