"""Operands of long sums that are worth turning first, so that the terms of each sum lie side by side.

Where positions lie side by side, and the results of neighbours do not, as those of a strided deconvolution,
tiles hold few of them, and each term is on a line of cache of its own. Turning the operand once costs little
beside a sum with many results. The other factor is constant, as it lies in panels then.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Final

from anyrt.core.enums import DataType
from anyrt.ir.compute import Contracted, Elements, Given
from anyrt.ir.graph import Shape, Value

LONG: Final = 512  # terms, from which lanes of them do not stay in the nearest cache
MANY: Final = 512  # results that read each element


def axis_of_terms(user: Value, side: int) -> int | None:
    """The axis of an operand of a contraction that is worth being its last one; None where there is none."""
    how = user.compute
    if not isinstance(how, Contracted) or user.dtype is not DataType.FLOAT:
        return None
    if not _is_constant(user.args[1 - side]) or _is_constant(user.args[side]):
        return None
    labels, others = (how.left, how.right) if side == 0 else (how.right, how.left)
    shape, other = (_sizes(labels, user.args[side].shape), _sizes(others, user.args[1 - side].shape))
    if shape is None or other is None:
        return None
    summed = [label for label, size in shape.items() if label in other and label not in how.out and size > 1]
    alone = [how.out.index(label) for label, size in shape.items() if label not in other and size > 1]
    results = prod(size for label, size in other.items() if label not in shape)
    if len(summed) != 1 or shape[summed[0]] < LONG or results < MANY:
        return None
    between = (range(first + 1, last) for first, last in pairwise(sorted(alone)))
    parted = any(other.get(how.out[k], 1) > 1 for places in between for k in places)
    return labels.index(summed[0]) if parted else None


def _is_constant(value: Value) -> bool:
    while isinstance(value.compute, Elements) and value.compute.moves and len(value.args) == 1:
        (value,) = value.args
    return isinstance(value.compute, Given) and value.compute.constant


def _sizes(labels: tuple[int, ...], shape: Shape) -> dict[int, int] | None:
    """The size of each label, None where some are open."""
    found = {label: d for label, d in zip(labels, shape, strict=True) if isinstance(d, int)}
    return found if len(found) == len(shape) else None
