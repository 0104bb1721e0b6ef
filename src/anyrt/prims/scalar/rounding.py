"""Rounding to narrow types inside float32: what a value suffers that is stored and loaded again."""

from __future__ import annotations

import numpy as np

from anyrt.core.dtype import cast as stored
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, bitcast, cast, select
from anyrt.prims.scalar.table import Array, ScalarFn, absolute, at_most, bits_of, equal, flip_sign, sign_of


def _through(x: Expr, narrow: Scalar) -> Expr:
    return cast(cast(x, narrow), Scalar.F32)


def _to_fp8(x: Expr) -> Expr:
    """Three bits of mantissa, half to even; below 2⁻⁶ multiples of 2⁻⁹; no infinity, but a largest number."""
    size, cut = absolute(x), 20  # bits of a float32's mantissa that go
    bits = bits_of(size)
    even = (bits >> cut) & 1
    normal = bitcast((bits + (even + ((1 << cut - 1) - 1))) & -(1 << cut), Scalar.F32)
    subnormal = (size + 2.0**14) - 2.0**14  # whose last place is 2⁻⁹
    kept = at_most(select(size < 2.0**-6, subnormal, normal), 448.0)
    return select(equal(x, x), flip_sign(kept, sign_of(x)), x)


FUNCTIONS = (
    ScalarFn(
        "to_half",
        1,
        lambda x: _wide(x, DataType.HALF),
        lambda x: _through(x, Scalar.F16),
        note="the nearest float16",
    ),
    ScalarFn(
        "to_bf16",
        1,
        lambda x: _wide(x, DataType.BF16),
        lambda x: _through(x, Scalar.BF16),
        note="the nearest bfloat16",
    ),
    ScalarFn(
        "to_fp8",
        1,
        lambda x: _wide(x, DataType.FP8),
        _to_fp8,
        note="the nearest 8-bit float (E4M3), at most 448",
    ),
)


def _wide(x: Array, narrow: DataType) -> Array:
    return stored(x, narrow).astype(np.float64)
