"""Comparisons, logic and choice."""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.kernel import Expr, Op, alu, select
from anyrt.prims.scalar.table import (
    BOOLS,
    EVERY,
    NUMBERS,
    REALS,
    ResultKind,
    ScalarFn,
    absolute,
    equal,
)


def _differ(a: Expr, b: Expr) -> Expr:
    return alu(Op.NE, a, b)


FUNCTIONS = (
    ScalarFn("not", 1, np.logical_not, lambda x: alu(Op.NOT, x), BOOLS),
    ScalarFn("and", 2, np.logical_and, lambda a, b: a & b, BOOLS),
    ScalarFn("or", 2, np.logical_or, lambda a, b: a | b, BOOLS),
    ScalarFn("xor", 2, np.logical_xor, lambda a, b: a ^ b, BOOLS),
    ScalarFn("eq", 2, np.equal, equal, EVERY, ResultKind.BOOL),
    ScalarFn("ne", 2, np.not_equal, _differ, EVERY, ResultKind.BOOL, note="true when either is NaN"),
    ScalarFn("lt", 2, np.less, lambda a, b: a < b, NUMBERS, ResultKind.BOOL),
    ScalarFn("le", 2, np.less_equal, lambda a, b: a <= b, NUMBERS, ResultKind.BOOL),
    ScalarFn("gt", 2, np.greater, lambda a, b: a > b, NUMBERS, ResultKind.BOOL),
    ScalarFn("ge", 2, np.greater_equal, lambda a, b: a >= b, NUMBERS, ResultKind.BOOL),
    ScalarFn("isinf", 1, np.isinf, lambda x: equal(absolute(x), math.inf), REALS, ResultKind.BOOL),
    ScalarFn("isnan", 1, np.isnan, lambda x: _differ(x, x), REALS, ResultKind.BOOL),
    ScalarFn("select", 3, np.where, select, EVERY, conditions=1),
)
