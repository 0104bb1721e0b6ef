"""Scalar functions of sizes, for symbolic shape arithmetic. True is 1, false is 0.

>>> from anyrt.core.dims import Sym
>>> size_function("mul")(DataType.INT64, Sym("n").dim, 4)
4*n
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from anyrt.core.dims import (
    Dim,
    add,
    always_le,
    equal,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    tdiv,
)
from anyrt.core.enums import DataType
from anyrt.core.sizes import choose
from anyrt.prims._convert import limits

SizeFunction: TypeAlias = Callable[..., Dim | None]


def _not(a: Dim) -> Dim:
    return add(1, mul(a, -1))


def _le(a: Dim, b: Dim) -> Dim:
    return equal(minimum(a, b), a)


def _floordiv(a: Dim, b: Dim) -> Dim | None:
    return floordiv(a, b) if (isinstance(a, int) and isinstance(b, int)) or always_le(0, b) else None


def _mod(a: Dim, b: Dim) -> Dim | None:
    return mod(a, b) if (isinstance(a, int) and isinstance(b, int)) or always_le(0, b) else None


TABLE: dict[str, SizeFunction] = {
    "add": add,
    "sub": lambda a, b: add(a, mul(b, -1)),
    "mul": mul,
    "div": tdiv,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": minimum,
    "max": maximum,
    "neg": lambda a: mul(a, -1),
    "abs": lambda a: maximum(a, mul(a, -1)),
    "sign": lambda a: maximum(minimum(a, 1), -1),
    "square": lambda a: mul(a, a),
    "identity": lambda a: a,
    "eq": equal,
    "ne": lambda a, b: _not(equal(a, b)),
    "le": _le,
    "ge": lambda a, b: _le(b, a),
    "lt": lambda a, b: _not(_le(b, a)),
    "gt": lambda a, b: _not(_le(a, b)),
    "select": choose,
    # These take truth values only.
    "not": _not,
    "and": mul,
    "or": maximum,
    "xor": lambda a, b: _not(equal(a, b)),
}
WIDE = frozenset({DataType.INT32, DataType.INT64})


def size_function(name: str) -> SizeFunction | None:
    """The function (result type, *operands) → size, or None if there is none for sizes.

    The function itself returns None for results that would have wrapped."""
    if name in CASTS:
        return CASTS[name]

    if name not in TABLE:
        return None
    function = TABLE[name]
    return lambda dtype, *operands: _fitting(dtype, function(*operands))


def _cast(dtype: DataType, x: Dim) -> Dim | None:
    return _not(equal(x, 0)) if dtype is DataType.BOOL else _fitting(dtype, x)


def _fitting(dtype: DataType, x: Dim | None) -> Dim | None:
    """`x` unless it would have wrapped; sizes other than numbers are assumed to be small."""
    if dtype is DataType.BOOL or x is None:
        return x
    low, high = limits(dtype)
    fits = low <= x <= high if isinstance(x, int) else dtype in WIDE
    return x if fits else None


CASTS: dict[str, SizeFunction] = {"cast": _cast}
