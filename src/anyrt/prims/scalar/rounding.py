"""Rounding to the half types inside float32: what a value suffers that is stored and loaded again."""

from __future__ import annotations

import numpy as np

from anyrt.core.dtype import cast as stored
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, cast
from anyrt.prims.scalar.table import Array, ScalarFn


def _through(x: Expr, narrow: Scalar) -> Expr:
    return cast(cast(x, narrow), Scalar.F32)


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
)


def _wide(x: Array, narrow: DataType) -> Array:
    return stored(x, narrow).astype(np.float64)
