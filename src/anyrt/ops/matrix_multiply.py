"""MatrixMultiply: products of matrices and vectors, with broadcast batches.

add_matrix_multiply(a, MatrixOperation.NONE, b, MatrixOperation.TRANSPOSE)  # (8, 3, 5), (1, 4, 5) → (8, 3, 4)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anyrt.core.enums import DataType, LayerType, MatrixOperation
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import checked, need, show
from anyrt.ops._product import factor, multiplied, share_batch
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS
from anyrt.prims.build import cast

NONE, TRANSPOSE, VECTOR = MatrixOperation
WHOLE = INTS | {DataType.UINT32, DataType.UINT64}
TYPES = FLOATS | WHOLE | {DataType.FP8, DataType.INT8, DataType.DOUBLE}
# The labels of the axes after the batch: m rows, n columns, k is contracted.
LEFT = {NONE: "mk", TRANSPOSE: "km", VECTOR: "k"}
RIGHT = {NONE: "kn", TRANSPOSE: "nk", VECTOR: "k"}
BATCH = "abcdefgh"


@dataclass(frozen=True, slots=True)
class MatrixMultiplyAttrs(Attrs):
    """Attributes of MatrixMultiply."""

    op0: MatrixOperation = attr(Kind.ENUM, "input0: a matrix, transposed, or a vector", enum=MatrixOperation)
    op1: MatrixOperation = attr(Kind.ENUM, "input1: a matrix, transposed, or a vector", enum=MatrixOperation)


def expand(layer: Layer[MatrixMultiplyAttrs]) -> tuple[Value, ...]:
    """One `Contract`."""
    a, b = factor(layer, 0), factor(layer, 1)
    left, right = LEFT[layer.attrs.op0], RIGHT[layer.attrs.op1]
    batch = _check_ranks(layer, len(left), len(right))
    m, n = (x.value.shape[batch + s.index("k")] for x, s in ((a, left), (b, right)))
    got = f"summed dimensions {m} and {n} in {show(a.value.shape)} and {show(b.value.shape)}"
    do = "use MatrixOperation.TRANSPOSE for an operand whose rows and columns are exchanged"
    rule = need(layer.name, m, Relation.EQ, n, "AR130", got, "equal dimensions", do)
    a = a.moved(checked(a.value, rule))
    a, b, first, second = share_batch(layer.name, a, b, batch, BATCH[:batch])
    kept = (left + right).replace("k", "")
    equation = f"{first}{left},{second}{right}->{BATCH[:batch]}{kept}"
    return (_stored(multiplied(equation, a, b), layer.input(0).dtype),)


def _stored(y: Value, dtype: DataType) -> Value:
    return cast(y, dtype) if dtype is DataType.FP8 else y


def _check_ranks(layer: Layer[MatrixMultiplyAttrs], left: int, right: int) -> int:
    """The number of batch axes, which is the same for both operands."""
    ranks = []
    for i, (op, axes) in enumerate(((layer.attrs.op0, left), (layer.attrs.op1, right))):
        shape = layer.input(i).shape
        if len(shape) < axes:
            got, do = f"rank {len(shape)} for input {i} with {op.name}", "add dimensions of size 1"
            raise ShapeError("AR101", layer.name, got, f"rank >= {axes}", do)
        ranks.append(len(shape) - axes)
    if ranks[0] != ranks[1]:
        got = f"{ranks[0]} and {ranks[1]} batch dimensions in {show(layer.input(0).shape)}"
        got += f" and {show(layer.input(1).shape)}"
        do = "add dimensions of size 1 with a shuffle or unsqueeze"
        raise ShapeError("AR122", layer.name, got, "equal numbers", do)
    return ranks[0]


def ref(attrs: MatrixMultiplyAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """All products, by broadcasting, and their sums."""
    a, b = (x.astype(np.float64) for x in arrays)
    rows = a[..., None, :] if attrs.op0 is VECTOR else a
    columns = b[..., None] if attrs.op1 is VECTOR else b
    rows = np.swapaxes(rows, -1, -2) if attrs.op0 is TRANSPOSE else rows
    columns = np.swapaxes(columns, -1, -2) if attrs.op1 is TRANSPOSE else columns
    with np.errstate(all="ignore"):
        y = np.sum(rows[..., None] * columns[..., None, :, :], axis=-2)
    y = y[..., 0] if attrs.op1 is VECTOR else y
    drop = -1 if attrs.op1 is VECTOR else -2
    return (np.squeeze(y, drop) if attrs.op0 is VECTOR else y,)


def _case(
    op0: MatrixOperation,
    op1: MatrixOperation,
    left: tuple[int, ...],
    right: tuple[int, ...],
    dtype: DataType = DataType.FLOAT,
    dynamic: tuple[tuple[int, ...], ...] = (),
    int8: tuple[tuple[float, ...], float] | None = None,
) -> Case[MatrixMultiplyAttrs]:
    summed = left[-2] if op0 is TRANSPOSE else left[-1]
    low, high = (-128, 128) if int8 else (-2, 2)
    # A sum of k products below 4, each addition rounded to float32.
    room = 4 * summed**2 * 2.0**-24 + 1e-7
    return Case(
        MatrixMultiplyAttrs(op0, op1), (left, right), (dtype,), (), dynamic, low, high, int8=int8, atol=room
    )


def cases() -> tuple[Case[MatrixMultiplyAttrs], ...]:
    """Every pair of operations, types, broadcast batches, empty sums, ranks up to 8."""
    shape = {NONE: ((3, 5), (5, 9)), TRANSPOSE: ((5, 3), (9, 5)), VECTOR: ((5,), (5,))}
    out = [_case(p, q, shape[p][0], shape[q][1]) for p in MatrixOperation for q in MatrixOperation]
    out += [_case(NONE, NONE, (7, 33), (33, 17), t) for t in (DataType.HALF, DataType.BF16, DataType.FP8)]
    out.append(replace(_case(NONE, NONE, (7, 33), (33, 17), DataType.DOUBLE), rtol=1e-13, atol=1e-13))
    whole = np.array([[2.0**31 - 1, 3], [-7, 5]])
    out += [_case(NONE, NONE, (3, 5), (5, 4), t) for t in sorted(WHOLE, key=int)]
    out.append(replace(out[-1], dtypes=(DataType.INT64,), shapes=((2, 2),) * 2, data=(whole, whole)))
    codes = ((0.05, 0.1), 4.0)
    return (
        *out,
        _case(NONE, TRANSPOSE, (2, 1, 3, 5), (1, 4, 9, 5), dynamic=((0, 1), (0, 1))),
        _case(NONE, VECTOR, (2, 3, 5), (2, 5)),
        _case(VECTOR, NONE, (1, 5), (4, 5, 3), dynamic=((), (0, 2))),
        _case(NONE, NONE, (2, 3, 0), (2, 0, 4)),
        _case(NONE, NONE, (0, 3, 5), (1, 5, 4)),
        _case(NONE, NONE, (1, 2, 1, 2, 1, 2, 3, 5), (2, 1, 1, 2, 1, 1, 5, 4)),
        _case(NONE, NONE, (3, 70), (70, 18), DataType.INT8, ((0,), (1,)), codes),
        _case(NONE, TRANSPOSE, (2, 3, 5), (1, 4, 5), DataType.INT8, int8=codes),
    )


def mistakes() -> tuple[Mistake[MatrixMultiplyAttrs], ...]:
    """Ranks, dimensions and types."""
    plain, turned = MatrixMultiplyAttrs(NONE, NONE), MatrixMultiplyAttrs(NONE, TRANSPOSE)
    vector, ints = MatrixMultiplyAttrs(NONE, VECTOR), (DataType.INT16,)
    good, mixed = ((3, 5), (5, 4)), (DataType.FLOAT, DataType.HALF)
    return (
        Mistake("AR130", "summed dimensions that differ", plain, ((3, 5), (4, 5))),
        Mistake("AR130", "summed dimensions that differ after a transposition", turned, good),
        Mistake("AR130", "summed dimensions that differ at run time", plain, ((3, 5), (4, 5)), dynamic=True),
        Mistake("AR122", "different numbers of batch dimensions", plain, ((2, 3, 5), (5, 4))),
        Mistake("AR122", "a matrix for a vector", vector, good),
        Mistake("AR101", "a vector for a matrix", plain, ((5,), (5, 4))),
        Mistake("AR101", "a scalar for a vector", vector, ((3, 5), ())),
        Mistake("AR112", "batches that do not broadcast", plain, ((2, 3, 5), (3, 5, 4))),
        Mistake("AR112", "batches that differ at run time", plain, ((2, 3, 5), (3, 5, 4)), dynamic=True),
        Mistake("AR202", "a type that MatrixMultiply does not support", plain, good, ints),
        Mistake("AR203", "operands of different types", plain, good, mixed),
    )


OPS = (
    Op(
        layer=LayerType.MATRIX_MULTIPLY,
        cls="IMatrixMultiplyLayer",
        methods=(
            Method(
                "add_matrix_multiply",
                ("input0", "op0", "input1", "op1"),
                example="plain, turned = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE\n"
                "layer = network.add_matrix_multiply(a, plain, b, turned)",
            ),
        ),
        inputs=(Input("input0", TYPES), Input("input1", TYPES, same_as=0)),
        attrs=MatrixMultiplyAttrs,
        expand=expand,
        ref=ref,
        doc="Multiplies matrices, which are the last two dimensions of an operand, or vectors (VECTOR), "
        "which are its last dimension; the output does not have the dimension of a vector. Both operands "
        "have the same number of batch dimensions before these. Two batch dimensions are equal, or one is 1 "
        "and broadcasts. TRANSPOSE exchanges the last two dimensions. Sums are float32, rounded once; empty "
        "sums are 0. int8 with dynamic ranges multiplies codes, sums them exactly in int32, and scales the "
        "sums. Integers of 32 and 64 bits, an extension, are summed in their own type and wrap.",
        cases=cases,
        mistakes=mistakes,
        onnx=("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"),
        real_int8=lambda attrs: True,
        source="operator page MatrixMultiply",
    ),
)
