"""The NumPy evaluation of kernel expressions: rules that differ from NumPy's."""

import ml_dtypes
import numpy as np

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import Op, alu, bitcast, bound, cast, const, fma, index, load

I = Sym("i", extent=4)  # noqa: E741 - the index of every test


def value(expr, **buffers):
    return evaluate(expr, buffers, {"i": np.arange(4)})


def element(name, type):
    return load(Buffer(name, type, Space.INPUT, 4), I.dim)


def test_fma_rounds_once_where_float64_would_tie():
    a, b = const((1 + 2**-23) * 2**-12, Scalar.F32), const((1 - 2**-23) * 2**-12, Scalar.F32)
    assert evaluate(fma(a, b, 1 + 2**-23), {}, {}) == np.float32(1 + 2**-23)


def test_float_to_int_truncates_and_saturates():
    x = np.float32([-2.7, 3e9, -np.inf, np.nan])
    assert value(cast(element("x", Scalar.F32), Scalar.I32), x=x).tolist() == [-2, 2**31 - 1, -(2**31), 0]
    assert value(cast(element("x", Scalar.F32), Scalar.I64), x=x).tolist() == [-2, 3_000_000_000, -(2**63), 0]


def test_bfloat16_rounds_half_to_even():
    x = np.float32([1 + 2**-8, 1 + 3 * 2**-8, 3e38, 3.4e38])
    out = value(cast(element("x", Scalar.F32), Scalar.BF16), x=x)
    assert out.dtype == ml_dtypes.bfloat16
    assert out.astype(float).tolist() == [
        1.0,
        1 + 4 * 2**-8,
        float(ml_dtypes.bfloat16(3e38)),
        np.inf,
    ]


def test_integers_wrap_and_shift_both_ways():
    x = np.array([-(2**31), -1, 1, 2**31 - 1], np.int32)
    v = element("x", Scalar.I32)
    assert value(v + v, x=x).tolist() == [0, -2, 2, -2]
    assert value(v >> 31, x=x).tolist() == [-1, -1, 0, 0]
    assert value(alu(Op.LSHR, v, const(31, Scalar.I32)), x=x).tolist() == [1, 1, 0, 0]
    assert value(bitcast(v, Scalar.F32), x=x).view(np.int32).tolist() == x.tolist()


def test_a_load_outside_its_buffer_is_poison():
    out = evaluate(
        load(Buffer("x", DataType.FLOAT, Space.INPUT, 2), I.dim - 1),
        {"x": np.float32([5, 6])},
        {"i": np.arange(4)},
    )
    assert str(out.tolist()) == "[nan, 5.0, 6.0, nan]"


def test_indices_follow_the_algebra_of_dims():
    assert value(index(I.dim * 3 // 2 + I.dim % 3)).tolist() == [0, 2, 5, 4]


def test_deep_expressions_need_no_recursion():
    total = element("x", Scalar.I32)
    for _ in range(5000):
        total = total + total
    assert value(total, x=np.int32([0, 1, 2, 3])).tolist() == [0, 0, 0, 0]


def test_a_bound_value_is_an_index():
    taps = element("taps", Scalar.I32)
    x = load(Buffer("x", DataType.INT64, Space.INPUT, 4), bound(taps, 0, 3))
    assert value(x, taps=np.int32([3, 0, 0, 1]), x=np.array([10, 20, 30, 40])).tolist() == [40, 10, 10, 20]
