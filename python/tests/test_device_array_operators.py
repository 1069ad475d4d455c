"""What a DeviceArray says to operators, which it does not have, and its copies and pickles."""

import copy
import operator
import pickle

import numpy as np
import pytest

import damacy

pytestmark = pytest.mark.timeout(60)
BINARY = [
    operator.add, operator.sub, operator.mul, operator.matmul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, divmod,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


def array(dtype="f4"):
    return damacy.asarray(np.arange(6, dtype=dtype).reshape(2, 3), device="cpu")


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("other", [2, 2.5, np.float32(2), np.ones((2, 3)), "itself"])
def test_arithmetic_names_the_libraries_that_compute(operation, other):
    mine = array()
    for pair in ((mine, mine if isinstance(other, str) else other), (mine if isinstance(other, str) else other, mine)):
        with pytest.raises(TypeError, match=r"no operator .*cupy\.from_dlpack, torch\.from_dlpack .*numpy\(\)"):
            operation(*pair)
    assert np.array_equal(mine.numpy(), array().numpy())


@pytest.mark.parametrize("operation", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ior])
def test_operators_in_place_do_too(operation):
    with pytest.raises(TypeError, match="no operator .*="):
        operation(array(), 2)


@pytest.mark.parametrize("operation", [operator.neg, operator.pos, operator.invert, abs])
def test_unary_operators_do_too(operation):
    with pytest.raises(TypeError, match="no operator"):
        operation(array())


def test_other_libraries_may_have_the_operator():
    class Computes:
        def __radd__(self, other):
            return "computed"

    assert array() + Computes() == "computed"
    with pytest.raises(TypeError, match="unsupported operand"):
        array() + object()


@pytest.mark.parametrize("dtype", ["f4", ">i2", "c8", "bool", "S3", "M8[s]"])
def test_pickles_and_copies_are_equal_and_independent(dtype):
    whole = array().astype(dtype) if dtype != "M8[s]" else array("i8").view(dtype)
    for mine in (whole, whole.T, whole[:, 1:], whole[0, 0], whole[:0]):
        for made in (pickle.loads(pickle.dumps(mine)), copy.copy(mine), copy.deepcopy(mine)):
            assert (made.shape, made.dtype, made.device) == (mine.shape, mine.dtype, mine.device)
            assert made.tobytes() == mine.tobytes()
            assert made.flags.writeable and not np.may_share_memory(made._array, mine._array)
    for mine in (whole, whole.T):
        assert pickle.loads(pickle.dumps(mine)).strides == mine.strides


def test_a_pickle_for_a_device_that_is_missing_says_so():
    mine = array()
    data = pickle.dumps(mine).replace(b"\x8c\x03cpu", b"\x8c\x08cuda:999")
    with pytest.raises(damacy.DamacyError):
        pickle.loads(data)
