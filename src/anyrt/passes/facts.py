"""Facts about a value's elements that follow from the graph: one number everywhere, no sign, a square root.

>>> from anyrt.core.enums import DataType
>>> from anyrt.prims import build
>>> number(build.expand(build.const([[0.5]], DataType.FLOAT), (4, 6)))
0.5
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.dtype import cast, is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.prims.const import Blob, Const, Shape
from anyrt.prims.map import CAST, SELECT, Map, fn_of
from anyrt.prims.reduce import Reduce
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

# Functions whose results are never below zero, nor −0, for any operands; NaN does not matter here.
UNSIGNED: Final = frozenset({"square", "abs", "exp"})
# Functions of which the same holds if it holds for all operands.
KEEPING: Final = frozenset({CAST, "identity", "add", "mul", "div", "fma", "min", "max", "sqrt", "recip"})
FOLDS: Final = frozenset({"sum", "prod"})  # max of nothing is −∞
FEW: Final = 64  # values that are examined


def volume(shape: Iterable[Dim]) -> int:
    """The elements along the axes of known size."""
    return math.prod(d for d in shape if isinstance(d, int))


def is_repeated(blob: Blob) -> bool:
    """True if all elements, of which there are some, have the same bits, also after a refit."""
    if blob.size == 0 or not blob.is_known:
        return False
    bits = blob.data.view(f"u{blob.data.itemsize}")
    return bool(bits[0] == bits[-1] and (bits == bits[0]).all())


def number(value: Value) -> float | None:
    """The number that every element of `value` is known to be; None if unknown."""
    blob, casts = constant(value)
    if blob is None or not is_repeated(blob):
        return None
    held = blob.array[:1].astype(np.float64)
    for dtype in casts:
        held = cast(held, dtype).astype(np.float64)
    return float(held[0])


def constant(value: Value) -> tuple[Blob | None, tuple[DataType, ...]]:
    """The constant whose elements `value` has, moved or repeated, and the types that they are cast to, in
    order."""
    casts: tuple[DataType, ...] = ()
    while True:
        match value.op:
            case Const(blob=blob):
                return blob, casts
            case Map(fn=fn, dtype=dtype) if fn == CAST and is_float(dtype):
                casts = (dtype, *casts)
            case View() | Reshape():
                pass
            case _:
                return None, ()
        (value,) = value.args


def is_constant(value: Value) -> bool:
    """True for constants, also after moves, repetitions and casts."""
    return constant(value)[0] is not None


def has_no_sign(value: Value) -> bool:
    """True if no element can be below zero, −0 included: a sum of squares, of nonnegative values and of a
    positive number."""
    seen: set[Value] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if len(seen) > FEW or not _passes_on(v):
            return False
        todo += () if _is_unsigned(v) else v.args
    return True


def _is_unsigned(value: Value) -> bool:
    match value.op:
        case Map(fn=fn):
            return fn in UNSIGNED and is_float(value.dtype)  # the square of an integer wraps
        case Const(blob=blob):
            return blob.is_known and not np.signbit(blob.array.astype(np.float64)).any()
        case Shape():
            return True
    return False


def _passes_on(value: Value) -> bool:
    match value.op:
        case Map(fn=fn):
            return is_float(value.dtype) and (fn in UNSIGNED or fn in KEEPING)
        case Reduce(fn=fn):
            return is_float(value.dtype) and fn in FOLDS
        case View() | Reshape():
            return True
    return _is_unsigned(value)


def source(value: Value) -> Value:
    """The value that `value` moves, repeats, or converts to another float type."""
    while isinstance(value.op, View | Reshape) or _converts_float(value):
        (value,) = value.args
    return value


def _converts_float(value: Value) -> bool:
    converts = fn_of(value) == CAST
    return converts and is_float(value.dtype) and is_float(value.args[0].dtype)


def root_of(value: Value) -> Value | None:
    """The square roots in `value`, to which a number may be added, or a minimum applied; of each such sum
    that is not 0, infinite or NaN the reciprocal is a normal float32."""
    while True:
        origin = source(value)
        match origin.op:
            case Map(fn="sqrt"):
                return origin
            case Map(fn="add" | "max") if _is_small(number(origin.args[1])):
                value = origin.args[0]
            case Map(fn=fn) if fn == SELECT and number(origin.args[1]) == math.inf:
                value = origin.args[2]
            case _:
                return None


def _is_small(x: float | None) -> bool:
    return x is not None and 0.0 <= x <= 2.0**63


def is_reciprocal_root(value: Value) -> bool:
    """True for reciprocals of square roots, also after moves and casts."""
    origin = source(value)
    return fn_of(origin) == "recip" and root_of(origin.args[0]) is not None
