"""TopK: the largest or smallest elements along an axis, sorted, and their indices.

add_topk(x, TopKOperation.MAX, k=5, axes=1 << 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.counts import count
from anyrt.core.dims import Dim, minimum
from anyrt.core.enums import DataType, LayerType, TopKOperation
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.core.requirement import FINE, Assertion, Relation
from anyrt.ir.graph import Value, apply
from anyrt.ir.symbolic import known
from anyrt.ops._check import axes_of, checked, need
from anyrt.ops._math import number
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, REALS
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, gather, map_, pattern, scalar, transpose
from anyrt.prims.count import Count
from anyrt.prims.foremost import HALF, SHORT, Foremost
from anyrt.prims.ranked import Ranked

MOST = 3840
ALL = -1  # as k: all elements
MAX, MIN = TopKOperation.MAX, TopKOperation.MIN


@dataclass(frozen=True, slots=True)
class TopKAttrs(Attrs):
    """Attributes of TopK."""

    op: TopKOperation = attr(Kind.ENUM, "MAX: the largest elements; MIN: the smallest", enum=TopKOperation)
    k: int = attr(
        Kind.INT, "number of elements, 1 to 3840 and at most the size of the axis; -1, an extension: sort all"
    )
    axes: int = attr(Kind.AXES, "axis to search; an axis before the last four is an extension")
    indices_type: DataType = attr(
        Kind.ENUM, "element type of the indices, int32 or int64", DataType.INT32, enum=DataType
    )


def expand(layer: Layer[TopKAttrs]) -> tuple[Value, ...]:
    """`Ranked` computes the indices along the last axis, which is contiguous, and a `Gather` the values.
    `Foremost` computes both for one element along another axis."""
    attrs, axis = layer.attrs, _axis(layer)
    if attrs.indices_type not in INTS:
        got, do = f"indices of {attrs.indices_type.name}", "set indices_type to one of these"
        raise DTypeError("AR202", layer.name, got, "INT32 or INT64", do)
    x, k = _counted(layer, axis)
    if k == 1 and axis != x.type.rank - 1 and x.dtype in SHORT:
        code = apply(Foremost(axis, attrs.op is MAX), x)
        return _element(code, x.dtype), cast(cast(code, DataType.INT32), attrs.indices_type)
    last = x.type.rank - 1
    turned, back = _moved(x.type.rank, axis, last), _moved(x.type.rank, last, axis)
    at = transpose(apply(Ranked(last, k, attrs.op is MAX), transpose(x, turned)), back)
    return gather(x, at, axis), cast(at, attrs.indices_type)


def _element(code: Value, dtype: DataType) -> Value:
    """The element whose bits are the upper half of a code."""
    bits = cast(map_("shift_signed", code, scalar(HALF, code)), DataType.INT32)
    return bits if dtype is DataType.INT32 else cast(pattern(bits, DataType.FLOAT), dtype)


def _counted(layer: Layer[TopKAttrs], axis: int) -> tuple[Value, Dim]:
    """The input with the conditions on k, and k."""
    x, operand = layer.input(0), layer.optional(1)
    if operand is None and layer.attrs.k == ALL:
        return x, x.shape[axis]
    elements = None if operand is None else known(operand)
    if operand is not None and elements is None:
        return _by_data(layer, x, operand, x.shape[axis])
    k: Dim = layer.attrs.k if elements is None else elements.reshape(-1).tolist()[0]
    got, wanted, do = f"k = {k}", f"1 to {MOST}", "change k"
    rules = need(layer.name, 1, Relation.LE, k, "AR132", got, wanted, do)
    rules += need(layer.name, k, Relation.LE, MOST, "AR132", got, wanted, do)
    size, do = x.shape[axis], f"pass a k of at most the size of axis {axis}"
    rules += need(layer.name, k, Relation.LE, size, "AR132", got, f"at most {size}", do)
    return checked(x, rules), k


def _by_data(layer: Layer[TopKAttrs], x: Value, operand: Value, size: Dim) -> tuple[Value, Dim]:
    """The same for a k that the inference computes, which is a data-dependent dimension."""
    most, k = minimum(size, MOST), cast(operand, DataType.INT64)
    sym = count(f"{layer.name}#k", most)
    inside = map_("max", map_("min", k, number(most, k)), scalar(0, k))
    bounded = apply(Count(sym), inside)
    is_right = map_("and", map_("eq", bounded, k), map_("lt", scalar(0, bounded), bounded))
    do = "pass a k of at most the size of the axis"
    rule = Assertion("AR132", layer.name, "k = {}", f"1 to {most}", do)
    return apply(Asserted(rule), x, map_("select", is_right, scalar(FINE, k), k)), sym.dim


def _moved(rank: int, axis: int, to: int) -> list[int]:
    """The order of the axes after `axis` is moved to position `to`."""
    order = [k for k in range(rank) if k != axis]
    return [*order[:to], axis, *order[to:]]


def _axis(layer: Layer[TopKAttrs]) -> int:
    """The axis of the mask, which must have one bit."""
    rank, mask = layer.input(0).type.rank, layer.attrs.axes
    if rank == 0:
        raise ShapeError("AR101", layer.name, "rank 0", "rank >= 1", "add a dimension of size 1")
    axes = axes_of(layer.name, mask, rank)
    if len(axes) > 1:
        raise ArgumentError("AR302", layer.name, f"axes {bin(mask)} for rank {rank}", "one bit", "merge axes")
    return axes[0]


def ref(attrs: TopKAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The first k elements of each sorted row, by Python's stable sort."""
    x, axis = arrays[0], attrs.axes.bit_length() - 1
    k = attrs.k if len(arrays) < 2 or arrays[1] is ABSENT else int(arrays[1])
    k = x.shape[axis] if k == ALL else k
    rows = np.moveaxis(x, axis, -1)
    at = np.zeros((*rows.shape[:-1], k), np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        row = rows[place].tolist()
        sign = -1 if attrs.op is MAX else 1
        order = sorted(
            range(len(row)), key=lambda i: (row[i] != row[i], 0 if row[i] != row[i] else sign * row[i])
        )
        at[place] = order[:k]
    indices = np.moveaxis(at, -1, axis)
    chosen = np.int64 if attrs.indices_type is DataType.INT64 else np.int32
    return np.take_along_axis(x, indices, axis), indices.astype(chosen)


def cases() -> tuple[Case[TopKAttrs], ...]:
    """Both operations in every type, every axis, k from 1 to all, equal elements, hard orders, NaN and
    infinities, k from an operand, empty tensors."""
    types = sorted(REALS | INTS, key=int)
    rng = np.random.default_rng(5)
    few = rng.integers(-3, 4, (2, 700))
    up = np.arange(900.0).reshape(1, 900)
    special = np.array([[np.nan, 1, -np.inf, np.nan, np.inf, -0.0, 0.0, -1], [np.nan] * 7 + [-np.inf]])
    edges = np.array([[2**63 - 1, -(2**63), 0, -1, 2**63 - 1]])
    half = np.array([[2**31 - 1, -(2**31), 0, -1, 2**31 - 1]])
    k, f, i32, i64, bf16 = TopKAttrs, DataType.FLOAT, DataType.INT32, DataType.INT64, DataType.BF16
    own, f64 = ((0, 1), ()), DataType.DOUBLE
    floats = (f, DataType.HALF, f64)
    return (
        *(Case(k(op, 3, 0b10), ((3, 17),), (t,), low=-9, high=9) for op in (MAX, MIN) for t in types),
        *(Case(k(op, n, 0b10), ((2, 700),), (t,), (few,))
          for op, n, t in ((MAX, 5, f), (MIN, 5, bf16), (MAX, 150, i32), (MIN, 150, i64), (MAX, 700, f),
                           (MAX, 150, f64), (MIN, 5, f64))),
        *(Case(k(op, n, 0b10), ((1, 900),), (f,), (up,)) for op in (MAX, MIN) for n in (1, 10, 200)),
        *(Case(k(MAX, 2, 1 << axis), ((2, 5, 33),)) for axis in (0, 1, 2)),
        *(Case(k(op, 8, 0b10), ((2, 8),), (t,), (special,)) for op in (MAX, MIN) for t in floats),
        *(Case(k(op, 5, 0b10), ((1, 5),), (i64,), (edges,)) for op in (MAX, MIN)),
        *(Case(k(op, 5, 0b10), ((1, 5),), (i32,), (half,)) for op in (MAX, MIN)),
        *(Case(k(MIN, n, 0b10), ((2, size),)) for n, size in ((64, 256), (9, 70), (100, 448))),
        *(Case(k(op, 1, 0b1), ((3, 1500),), (t,)) for op in (MAX, MIN) for t in (f, bf16, i32)),
        *(Case(k(op, 1, 0b1), ((8, 2),), (t,), (special.T,)) for op in (MAX, MIN) for t in (f, bf16)),
        *(Case(k(op, 1, 0b1), ((5, 1),), (i32,), (half.T,)) for op in (MAX, MIN)),
        Case(k(MAX, 2, 0b10, i64), ((3, 17),)),
        Case(k(MAX, 2, 0b10), ((3, 17), ()), (f, i32), (None, np.array(4)), own),
        Case(k(MIN, 2, 0b1, i64), ((17, 3), ()), (f, i32), (None, np.array(17)), own),
        Case(k(MAX, 3, 0b10), ((0, 17),)),
        *(Case(k(op, ALL, 0b10), ((3, 17),), (t,), low=-9, high=9)
          for op in (MAX, MIN) for t in (f, bf16, i64)),
        Case(k(MIN, ALL, 0b01), ((17, 3),)),
        Case(k(MAX, ALL, 0b10), ((2, 8),), (f,), (special,)),
        Case(k(MAX, ALL, 0b10), ((1, 5000),)),
        Case(k(MIN, ALL, 0b10), ((2, 0),)),
        Case(k(MAX, 1, 0b1), ((31,),)),
        *(Case(k((MAX, MIN)[axis % 2], n, 1 << axis), ((2, 3, 1, 2, 4, 1, 3, 2)[:rank],))
          for rank in range(1, 9) for axis in range(rank) for n in ((1, 2) if axis in (0, 1, 4) else (1,))
          if n <= (2, 3, 1, 2, 4, 1, 3, 2)[axis]),
    )  # fmt: skip


def mistakes() -> tuple[Mistake[TopKAttrs], ...]:
    """Wrong values of k, axes and types."""
    k, f, i32 = TopKAttrs, DataType.FLOAT, DataType.INT32
    one = k(MAX, 1, 0b10)
    return (
        Mistake("AR132", "a k larger than the axis", k(MAX, 6, 0b10), ((2, 5),)),
        Mistake("AR132", "a k larger than a dynamic axis", k(MAX, 6, 0b10), ((2, 5),), dynamic=True),
        Mistake("AR132", "a k of 0", k(MAX, 0, 0b10), ((2, 5),)),
        Mistake("AR132", "a k over 3840", k(MAX, 3841, 0b10), ((2, 5000),)),
        Mistake("AR132", "a k over 3840 from an operand", one, ((2, 5000), ()), (f, i32),
                (None, np.array(3841)), dynamic=True),
        Mistake("AR132", "a k of 0 from an operand", one, ((2, 5), ()), (f, i32), (None, np.array(0)),
                dynamic=True),
        Mistake("AR123", "a k that is not a scalar", one, ((2, 5), (1,)), (f, i32), (None, np.array([1]))),
        Mistake("AR302", "a mask of 0", k(MAX, 1, 0), ((2, 5),)),
        Mistake("AR302", "two axes", k(MAX, 1, 0b11), ((2, 5),)),
        Mistake("AR302", "an axis beyond the rank", k(MAX, 1, 0b100), ((2, 5),)),
        Mistake("AR101", "an input of rank 0", k(MAX, 1, 0b1), ((),)),
        Mistake("AR202", "an unsupported element type", one, ((2, 5),), (DataType.BOOL,)),
        Mistake("AR202", "a type of the indices other than int32 and int64", k(MAX, 1, 0b10, f), ((2, 5),)),
        Mistake("AR202", "a k that is not int32", one, ((2, 5), ()), (f, f), (None, np.array(1))),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.TOPK,
        cls="ITopKLayer",
        methods=(
            Method(
                "add_topk",
                ("input", "op", "k", "axes", "indices_type"),
                defaults=(("indices_type", DataType.INT32),),
                example="layer = network.add_topk(x, trt.TopKOperation.MAX, 2, 1 << 1)\n"
                "values, indices = layer.get_output(0), layer.get_output(1)",
            ),
        ),
        inputs=(
            Input("input", REALS | INTS),
            Input("k", frozenset({DataType.INT32}), required=False, shape_values=True, axes=""),
        ),
        attrs=TopKAttrs,
        expand=expand,
        ref=ref,
        doc="Returns the k largest elements along an axis (MAX) or the k smallest (MIN) in sorted order, and "
        "their indices. Of equal elements, such as 0 and -0, the one with the lower index comes first. NaN "
        "comes after all numbers, for MAX and MIN. Input 1, a scalar, replaces k: a constant, a value "
        "computed from shapes, an input of the network, or a value computed from data. In the last case the "
        "outputs have a data-dependent dimension. k is 1 to 3840 and at most the size of the axis; otherwise "
        "the build or the inference raises an error. k = −1, an extension, sorts: the outputs are all "
        "elements and the permutation, of any size; NonZero of the neighbours that differ then finds the "
        "unique values.",
        cases=cases,
        mistakes=mistakes,
        onnx=("TopK", "ArgMax", "ArgMin"),
        more_outputs=" ({})",
        outputs=("values", "indices"),
        source="operator page TopK; indices_type from 10.14",
    ),
)
