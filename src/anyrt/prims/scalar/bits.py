"""Bits of integers, two's complement; narrow types are computed as int32.

>>> _shift_right(np.int32([-1, 64]), np.int32([28, 33])).tolist()
[15, 32]
"""

from __future__ import annotations

import numpy as np

from anyrt.ir.buffer import BITS
from anyrt.ir.kernel import Const, Expr, Op, alu, const
from anyrt.prims.scalar.table import INTS, Array, Ints, ScalarFn

SHIFT = "by the second operand modulo the width"


def _amount(x: Expr, n: Expr) -> Expr:
    """The shift count; LLVM defines no shift by the width or more."""
    last = BITS[x.type] - 1
    return const(int(n.value) & last, n.type) if isinstance(n, Const) else n & last


def _shift_left(x: Ints, n: Ints) -> Array:
    moved: Ints = np.left_shift(x, n & (8 * x.dtype.itemsize - 1))
    return moved


def _shift_right(x: Ints, n: Ints) -> Array:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    moved: Ints = np.right_shift(x.view(unsigned), (n & (8 * x.dtype.itemsize - 1)).view(unsigned))
    return moved.view(x.dtype)


FUNCTIONS = (
    ScalarFn("bit_and", 2, np.bitwise_and, lambda a, b: a & b, INTS),
    ScalarFn("bit_or", 2, np.bitwise_or, lambda a, b: a | b, INTS),
    ScalarFn("bit_xor", 2, np.bitwise_xor, lambda a, b: a ^ b, INTS),
    ScalarFn("shift_left", 2, _shift_left, lambda x, n: x << _amount(x, n), INTS, note=SHIFT),
    ScalarFn(
        "shift_right",
        2,
        _shift_right,
        lambda x, n: alu(Op.LSHR, x, _amount(x, n)),
        INTS,
        note=f"{SHIFT}; zeros come in",
    ),
    ScalarFn(
        "shift_signed",
        2,
        lambda x, n: np.right_shift(x, n & x.dtype.type(8 * x.dtype.itemsize - 1)),
        lambda x, n: alu(Op.SHR, x, _amount(x, n)),
        INTS,
        note=f"{SHIFT} to the right; signs come in, zeros for uint64",
    ),
)
