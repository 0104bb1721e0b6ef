"""Operands of long sums that are worth transposing first, so that the terms of each sum are contiguous.

If positions are contiguous and the results of neighbours are not, as in a strided deconvolution, tiles hold
few of them, and each term is in a cache line of its own. Transposing the operand once costs little beside a
sum with many results. The other factor must be constant, since it is then packed in panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Final

from anyrt.core.enums import DataType
from anyrt.ir.compute import Contracted, Given, only_moves
from anyrt.ir.graph import Shape, Value
from anyrt.schedule.cost import Sizes

LONG: Final = 512  # terms from which lanes of them do not stay in the nearest cache
MANY: Final = 512  # results that read each element


def axis_of_terms(user: Value, side: int) -> int | None:
    """The axis of an operand of a contraction that should be its last one; None if there is none."""
    how = user.compute
    if not isinstance(how, Contracted) or user.dtype is not DataType.FLOAT:
        return None
    arg, factor, (labels, others) = user.args[side], user.args[1 - side], how.sides[side]
    shape, other = _sizes(labels, arg.shape), _sizes(others, factor.shape)
    if shape is None or other is None or _is_constant(arg) or not _is_constant(factor):
        return None
    summed = [x for x in labels if x in other and x not in how.out and shape[x] > 1]
    results = prod(size for label, size in other.items() if label not in shape)
    if len(summed) != 1 or shape[summed[0]] < LONG or results < MANY or not _is_parted(how, shape, other):
        return None
    return labels.index(summed[0])


def _is_parted(how: Contracted, shape: Mapping[int, int], other: Mapping[int, int]) -> bool:
    """True where axes of the other factor lie between those of an operand in the result."""
    alone = [how.out.index(label) for label, size in shape.items() if label not in other and size > 1]
    between = (range(first + 1, last) for first, last in pairwise(sorted(alone)))
    return any(other.get(how.out[k], 1) > 1 for places in between for k in places)


def _is_constant(value: Value) -> bool:
    while only_moves(value.compute) and len(value.args) == 1:
        (value,) = value.args
    return isinstance(value.compute, Given) and value.compute.constant


def _sizes(labels: tuple[int, ...], shape: Shape) -> dict[int, int] | None:
    """The size of each label, None if some are dynamic."""
    sizes = {label: d for label, d in zip(labels, shape, strict=True) if isinstance(d, int)}
    return sizes if len(sizes) == len(shape) else None


def rows(contraction: Value, value: Value, sizes: Sizes) -> int:
    """The rows of a contraction's results that are computed from a value, which may be moved; an estimate."""
    how, most = contraction.compute, 0
    if not isinstance(how, Contracted):
        return 0
    for arg, (mine, other) in zip(contraction.args, how.sides, strict=True):
        source = arg
        while source is not value and only_moves(source.compute):
            source = source.args[0]
        if source is value:
            alone = [k for k, label in enumerate(mine) if label in how.out and label not in other]
            most = max(most, prod(sizes.of(arg.shape[k]) for k in alone))
    return most
