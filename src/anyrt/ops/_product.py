"""Sums of products of two operands: INT8 operands by their codes, batches with broadcasting.

a, b = factor(layer, 0), factor(layer, 1)
multiplied("mk,kn->mn", a, b)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, add, always_le, minimum, product
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Shape, Value
from anyrt.ops._check import checked, show
from anyrt.ops._record import A, Array, Layer
from anyrt.ops._scales import Scale, both, single, times
from anyrt.prims.build import cast, contract, squeeze, windows
from anyrt.prims.contract import SUMMED
from anyrt.prims.map import broadcast
from anyrt.prims.view import Axis

CODES = 127.0  # the largest code of weights; −128 is not used


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand of a product: real numbers, or INT8 codes with the scale `step`."""

    value: Value
    step: Scale | None = None

    def real(self) -> Value:
        """The real numbers."""
        if self.step is None:
            return self.value
        return times(cast(self.value, DataType.FLOAT), self.step)

    def moved(self, value: Value) -> Factor:
        """The same operand with its elements rearranged as `value`."""
        return replace(self, value=value)


def factor(layer: Layer[A], i: int) -> Factor:
    """Operand `i`: its codes if it is INT8; as HALF if it is FP8, which HALF represents exactly."""
    codes = layer.codes[i] if layer.codes else None
    if codes is not None:
        return Factor(codes[0], single(codes[1]))
    value = layer.input(i)
    return Factor(cast(value, DataType.HALF) if value.dtype is DataType.FP8 else value)


def multiplied(equation: str, a: Factor, b: Factor, dtype: DataType | None = None) -> Value:
    """The sums of products of einsum's `equation`, of `dtype` or of the operands' type. Sums of codes are
    exact before they are converted to real numbers (FLOAT)."""
    if a.step is None or b.step is None or not always_le(_summed(equation, a.value, b.value), SUMMED):
        return contract(equation, a.real(), b.real(), dtype)
    sums = cast(contract(equation, a.value, b.value, DataType.INT32), DataType.FLOAT)
    return times(sums, both(a.step, b.step))


def _summed(equation: str, a: Value, b: Value) -> Dim:
    operands, out = equation.split("->")
    sizes = dict(zip(operands.replace(",", ""), (*a.shape, *b.shape), strict=True))
    return product(size for label, size in sizes.items() if label not in out)


def coded(where: str, real: NDArray[np.float32], rest: tuple[int, ...]) -> tuple[Array, Array]:
    """Weights as int8 codes, and their scales. The largest magnitude along the axes `rest`, which remain with
    size 1, has code 127."""
    if not np.isfinite(real).all():
        got, do = "a kernel that is not finite, with int8", "use finite numbers"
        raise ArgumentError("AR308", where, got, "finite numbers", do)
    most = np.abs(real).max(rest, keepdims=True, initial=0)
    step = np.where(most > 0, most / np.float32(CODES), np.float32(1))
    return np.clip(np.rint(real / step), -CODES, CODES).astype(np.int8), step


def share_batch(where: str, a: Factor, b: Factor, axes: int, labels: str) -> tuple[Factor, Factor, str, str]:
    """Both operands, and the labels of their first `axes` axes, which broadcast: an axis of size 1 is removed
    if the other operand has another size there."""
    left, right = a.value.shape[:axes], b.value.shape[:axes]
    common = broadcast(left, right)
    do = f"make sizes equal or 1: {show(left)} and {show(right)}"
    rules = [
        Requirement(m, Relation.BROADCAST, n, "AR112", where, do)
        for m, n in zip(left, right, strict=True)
        if m != n and 1 not in (m, n)
    ]
    a = a.moved(checked(a.value, rules))
    a, first = _repeated(a, common, labels)
    b, second = _repeated(b, common, labels)
    return a, b, first, second


def _repeated(x: Factor, common: Shape, labels: str) -> tuple[Factor, str]:
    value, lost = repeated(x.value, dict(enumerate(common)))
    return x.moved(value), "".join(c for k, c in enumerate(labels) if k not in lost)


def repeated(value: Value, common: Mapping[int, Dim]) -> tuple[Value, frozenset[int]]:
    """`value` with the sizes `common` (by axis), and the axes that are removed: those of size 1, if another
    size is required. A contraction repeats an operand along an axis that it lacks."""
    shape = value.shape
    open_axes = [k for k, size in common.items() if shape[k] not in (1, size)]
    if open_axes:
        # If a dynamic size is 1 at inference, every position reads the one element.
        axes = [Axis(0, k, minimum(add(d, -1), 1) if k in open_axes else 1) for k, d in enumerate(shape)]
        sizes = tuple(common[k] if k in open_axes else d for k, d in enumerate(shape))
        value = windows(value, axes, sizes)
    lost = frozenset(k for k, size in common.items() if shape[k] == 1 != size)
    return squeeze(value, sorted(lost)), lost
