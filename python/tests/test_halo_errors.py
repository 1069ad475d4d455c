"""Errors of halo transformers; a failed call writes nothing."""

import subprocess
import sys

import numpy as np
import pytest

import damacy
from damacy import halo

ALL = (slice(None), slice(None))
DIMS = ("j", "i")


def layout(array, dims=DIMS, **changes):
    q = halo.Quantity(array, dims).halo_spec(0)
    for name, value in changes.items():
        setattr(q, name, value)
    return q


def spec(array=None, pack=ALL, r=0, unpack=ALL, dims=DIMS, **changes):
    array = np.zeros((4, 5)) if array is None else array
    return halo.HaloExchangeSpec(layout(array, dims, **changes), pack, r, unpack)


def refused(kind, text, call):
    with pytest.raises(kind, match=text) as seen:
        call()
    assert isinstance(seen.value, damacy.DamacyError)


@pytest.mark.parametrize(
    ("kind", "text", "change"),
    [
        (ValueError, "dimension j", {"pack": (slice(0, 4, 2), slice(None))}),
        (ValueError, "dimension i", {"pack": (slice(None), slice(3, 2))}),
        (ValueError, "dimension i", {"unpack": (slice(None), 3)}),
        (ValueError, "a slice for each", {"pack": (slice(None),)}),
        (IndexError, "dimension j", {"pack": (slice(0, 5), slice(None))}),
        (IndexError, "dimension i", {"unpack": (slice(None), slice(-6, None))}),
        (ValueError, "strides", {"strides": (8,)}),
        (ValueError, "origin", {"origin": (0,)}),
        (ValueError, "itemsize", {"itemsize": 4}),
        (ValueError, "the stride is 0", {"strides": (0, 8)}),
        (TypeError, "is not supported in halo exchanges", {"dtype": "datetime64[s]", "itemsize": 8}),
        (TypeError, "is not supported in halo exchanges", {"dtype": None}),
        (NotImplementedError, "byte order", {"dtype": np.dtype(">f8")}),
        (ValueError, "more than one", {"dims": ("i", "i_interface"), "r": 1}),
    ],
)
def test_invalid_specs_are_refused(kind, text, change):
    refused(kind, text, lambda: spec(**change))


def test_an_array_without_cells_can_be_exchanged():
    empty = np.zeros((0, 5))
    with get([spec(empty)]) as t:
        assert t.get_pack_buffer().array.size == 0
        t.async_pack([empty])
        t.async_unpack([empty])
        t.synchronize()


@pytest.mark.parametrize("turns", [1.5, "x", None])
def test_rotations_are_integers(turns):
    with pytest.raises(TypeError):
        halo.rotate_scalar_data(np.zeros((4, 5)), DIMS, np, turns)
    with pytest.raises(TypeError):
        spec(r=turns)


@pytest.mark.parametrize("huge", [2**63, 2**70, -(2**70)])
def test_numbers_beyond_64_bits_are_refused(huge):
    refused(ValueError, "range", lambda: get([spec(strides=(huge, 8))]))


def test_a_spec_counts_its_elements_and_resolves_negative_ends():
    s = spec(pack=(slice(-3, -1), slice(1, None)), unpack=(slice(0, 0), slice(None)))
    assert (s.pack_buffer_size, s._unpack_buffer_size) == (8, 0)
    assert s._id != spec()._id


def get(*arguments, **options):
    return halo.HaloDataTransformer.get(np, *arguments, **options)


def test_invalid_transformers_are_refused():
    refused(RuntimeError, "Attempting to init an empty halo exchange", lambda: get([]))
    f4 = spec(np.zeros((4, 5), "f4"))
    for cls in (halo.HaloDataTransformer.get, halo.HaloDataTransformerCPU):
        refused(NotImplementedError, "Halo exchange process mixed precision", lambda c=cls: c(np, [spec(), f4]))
    same = "Vector halo exchange must have same exchange data for X and Y"
    refused(RuntimeError, same, lambda: get([spec()], []))
    refused(RuntimeError, same, lambda: get([spec()], [spec(r=1)]))
    refused(RuntimeError, same, lambda: get([spec()], [spec(dims=("k", "i"))]))
    for dtype in ("uint8", "bool"):
        turned = spec(np.zeros((4, 5), dtype), r=2)
        refused(TypeError, "cannot negate", lambda t=turned: get([t], [t]))
    refused(ValueError, "wire", lambda: get([spec()], wire="other"))
    odd = type(sys)("odd")
    refused(
        NotImplementedError,
        "Quantity module odd has no HaloDataTransformer implemented",
        lambda: halo.HaloDataTransformer.get(odd, [spec()]),
    )


@pytest.mark.skipif(damacy._native.backend_info()["cuda"], reason="there is a GPU")
def test_the_gpu_class_raises_an_error_that_says_why_it_is_not_available():
    with pytest.raises(NotImplementedError, match="GPU"):
        halo.HaloDataTransformerGPU(np, [spec()])


def test_quantities_are_checked_before_anything_is_written():
    target = np.zeros((4, 5))
    with get([spec(), spec()]) as t:
        t.get_unpack_buffer().array[:] = 1
        for call in (t.async_pack, t.async_unpack):
            refused(RuntimeError, "^Quantities count", lambda c=call: c([target]))
            refused(RuntimeError, "^Quantities count", lambda c=call: c([target] * 2, [target]))
            refused(ValueError, "quantity 1.*shape", lambda c=call: c([target, np.zeros((5, 4))]))
            refused(TypeError, "quantity 1.*float32", lambda c=call: c([target, np.zeros((4, 5), "f4")]))
            wrong = halo.Quantity(np.zeros((4, 5)), ("i", "j"))
            refused(ValueError, "quantity 0.*dims", lambda c=call, w=wrong: c([w, target]))
        refused(ValueError, "overlap", lambda: t.async_unpack([target, target]))
        frozen = np.zeros((4, 5))
        frozen.flags.writeable = False
        refused(ValueError, "read-only", lambda: t.async_unpack([target, frozen]))
        assert not target.any()
        t.async_unpack([target, np.zeros((4, 5))])
        assert target.all()
    with get([spec()], [spec()]) as t:
        refused(RuntimeError, "^Quantities count", lambda: t.async_pack([target]))
        refused(RuntimeError, "^Quantities count", lambda: t.async_pack([target], [target] * 2))


def test_errors_name_the_wrong_component_of_a_vector():
    good, bad = np.zeros((4, 5)), np.zeros((5, 4))
    with get([spec()] * 2, [spec()] * 2) as t:
        refused(ValueError, "quantity 1 has shape", lambda: t.async_pack([good, bad], [good, good]))
        refused(ValueError, "quantity 1 of y has shape", lambda: t.async_pack([good, good], [good, bad]))


def test_a_transformer_can_be_listed_once_in_pack_many():
    with get([spec()]) as t:
        twice = [(t, [np.zeros((4, 5))], None)] * 2
        refused(ValueError, "may be listed once", lambda: halo.pack_many(twice))
        refused(ValueError, "threads", lambda: halo.set_num_threads(0))
        with pytest.raises(TypeError):
            halo.set_num_threads(1.5)


def test_rotations_that_need_a_sign_are_refused_for_unsigned_types():
    x = np.ones((2, 3), "u1")
    refused(TypeError, "cannot negate", lambda: halo.rotate_vector_data(x, x, 2, DIMS, np))
    refused(ValueError, "dims", lambda: halo.rotate_scalar_data(x, ("j",), np, 1))
    assert halo.rotate_vector_data(x, x, 4, DIMS, np)[0] is x


def test_boxes_that_overlap_in_one_array_are_refused_for_that_pattern_only():
    first, second = (slice(0, 2), slice(None)), (slice(1, 3), slice(None))
    a, b = np.zeros((4, 5)), np.zeros((4, 5))
    with get([spec(unpack=first), spec(unpack=second)]) as t:
        t.async_unpack([a, b])
        refused(ValueError, "overlap", lambda: t.async_unpack([a, a]))
        shared = np.zeros((5, 5))
        refused(ValueError, "overlap", lambda: t.async_unpack([shared[1:], shared[:-1]]))
        t.async_unpack([a, b])


def test_cached_checks_of_an_array_do_not_apply_to_another_at_its_address():
    top, bottom = (slice(0, 2), slice(None)), (slice(2, 4), slice(None))
    square = np.zeros((4, 4))
    with get([spec(square, unpack=top), spec(square, unpack=bottom)]) as t:
        t.async_unpack([square, square])
        refused(ValueError, "overlap", lambda: t.async_unpack([square, square.T]))
        frozen = square.view()
        frozen.flags.writeable = False
        refused(ValueError, "read-only", lambda: t.async_unpack([square, frozen]))


def test_calls_after_finalize_are_refused():
    t = get([spec()])
    assert t.ready()
    t.finalize()
    t.finalize()
    assert not t.ready()
    assert t._pack_buffer is None
    assert t._unpack_buffer is None
    refused(RuntimeError, r"Send buffer can't be retrieved before allocate\(\)", t.get_pack_buffer)
    refused(RuntimeError, r"Recv buffer can't be retrieved before allocate\(\)", t.get_unpack_buffer)
    refused(RuntimeError, "finalized", lambda: t.async_pack([np.zeros((4, 5))]))
    refused(RuntimeError, "finalized", lambda: t.async_unpack([np.zeros((4, 5))]))


def test_errors_are_raised_without_asserts_too():
    program = """
import numpy as np
from damacy import halo
q = halo.Quantity(np.zeros((4, 5)), ("j", "i")).halo_spec(0)
t = halo.HaloDataTransformer.get(np, [halo.HaloExchangeSpec(q, (slice(None),) * 2, 0, (slice(None),) * 2)])
try:
    t.async_pack([])
except RuntimeError as error:
    print(str(error)[:16])
"""
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "Quantities count", done.stderr


def test_halos_that_are_too_narrow_are_refused():
    with pytest.raises(ValueError, match="dimension i"):
        halo.Quantity(np.zeros((6, 6)), ("j", "i"), origin=(2, 1), extent=(2, 4)).halo_spec(2)
