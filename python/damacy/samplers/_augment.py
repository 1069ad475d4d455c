"""`Flips` and `Dihedral`: the turns that a sampler draws for its crops. Knows axes; not arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from damacy._core import counter_rng, counter_rng_many
from damacy._core.counter_rng_many import I64
from damacy._pipeline.array_spec import axis_keys
from damacy._pipeline.cropped_arrays import Dims
from damacy._pipeline.sample import Sample, Turns, with_turns

PURPOSE = 64  # of the draw, behind those of the places on the axes


class Augment:
    """Turns of a crop; each is equally likely."""

    axes: tuple[str | int, ...]
    _turns: tuple[Turns | None, ...]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.axes))})"

    def __len__(self) -> int:
        return len(self._turns)

    def one(self, sample: Sample, state: int) -> Sample:
        """The sample, turned as its state draws."""
        return with_turns(sample, self._turns[counter_rng.draw_below(len(self._turns), state, PURPOSE)])

    def many(self, samples: list[Sample], seed: int, epoch: int, indices: I64) -> list[Sample]:
        """The samples of these indices, turned as `one` turns them."""
        states = counter_rng_many.extended(counter_rng.extended(3, seed, epoch), indices)
        drawn = counter_rng_many.draw_below(len(self._turns), states, PURPOSE)
        return [with_turns(sample, self._turns[number]) for sample, number in zip(samples, drawn.tolist())]


class Flips(Augment):
    """Each of these axes is reversed in half of the crops: for `n` axes 2**n equally likely results.

    An axis is a name, or a negative number that counts from the last axis. All arrays of a sample turn alike.

    >>> len(Flips("z", "y", "x"))
    8
    """

    def __init__(self, *axes: str | int) -> None:
        self.axes = _checked(axes, 1, 8)
        self._turns = tuple(_turns_of((), flip) for flip in _subsets(self.axes))


class Dihedral(Augment):
    """The turns and reflections of a square, or of a cube: 8 for two axes, 48 for three, equally likely.

    The axes must have equal extents in a crop.

    >>> len(Dihedral("y", "x")), len(Dihedral("z", "y", "x"))
    (8, 48)
    """

    def __init__(self, *axes: str | int) -> None:
        self.axes = _checked(axes, 2, 3)
        orders = itertools.permutations(self.axes)
        self._turns = tuple(
            _turns_of(() if order == self.axes else order, flip) for order in orders for flip in _subsets(self.axes)
        )


def check_augment(augment: Augment | None, samples: Iterable[Dims]) -> Augment | None:
    """`TypeError` for others; `ValueError` if it would turn the arrays of a sample apart."""
    if augment is not None and not isinstance(augment, Augment):
        raise TypeError(f"augment must be Flips, Dihedral or None (got {type(augment).__name__})")
    if isinstance(augment, Dihedral):
        for arrays in samples:
            _check_turns_alike(augment, arrays)
    return augment


def _check_turns_alike(augment: Dihedral, arrays: Dims) -> None:
    """An array must have all of the axes, or at most one, and one array must have all."""
    is_whole = False
    for name, dims in arrays:
        if None in dims and any(isinstance(axis, str) for axis in augment.axes):
            return  # the names may be given by an `ArraySpec`
        there = [axis for axis in augment.axes if axis in dims or isinstance(axis, int) and -len(dims) <= axis]
        is_whole |= len(there) == len(augment.axes)
        if 1 < len(there) < len(augment.axes):
            raise ValueError(
                f"augment: {name or 'the array'} has only {' and '.join(map(repr, there))} of the axes of {augment!r}, "
                "and would turn otherwise than an array with all of them: turn only axes that both have"
            )
    if not is_whole:
        has = "; ".join(f"{name or 'the array'} has {', '.join(map(str, dims))}" for name, dims in arrays)
        raise ValueError(f"augment: no array has all axes of {augment!r}: {has}")


def _checked(axes: tuple[str | int, ...], least: int, most: int) -> tuple[str | int, ...]:
    keys = axis_keys(axes, "augment")
    if not least <= len(keys) <= most:
        raise ValueError(f"augment: expected {least} to {most} axes (got {len(keys)})")
    return keys


def _subsets(axes: tuple[str | int, ...]) -> Iterable[tuple[str | int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(axes, n) for n in range(len(axes) + 1))


def _turns_of(transpose: tuple[str | int, ...], flip: tuple[str | int, ...]) -> Turns | None:
    return (flip, transpose, (), ()) if transpose or flip else None
