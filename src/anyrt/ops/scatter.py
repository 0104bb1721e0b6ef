"""Scatter: a copy of a tensor with updates written at indices.

layer = add_scatter(data, indices, updates, ScatterMode.ELEMENT)   # data[indices[i, j], j] = updates[i, j]
layer.axis = 0
add_scatter(data, indices, updates, ScatterMode.ND)                # data[tuple(indices[i])] = updates[i]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, LayerType, ReduceOperation, ScatterMode
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Shape as Sizes
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import check_axis, need, show
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN_NUMBERS, PACKED, STORAGE
from anyrt.prims.build import cast, map_, reshape, scalar, slice_
from anyrt.prims.build import expand as repeat
from anyrt.prims.const import Shape
from anyrt.prims.scatter import LAST, Scatter

COMBINED_TYPES = FLOATS | INTS | (OWN_NUMBERS - PACKED) | {DataType.INT8, DataType.UINT8}
TYPES = STORAGE - PACKED
ELEMENT, ND = ScatterMode.ELEMENT, ScatterMode.ND
R = ReduceOperation
HALVES = frozenset({DataType.HALF, DataType.BF16})
WIDER = frozenset({R.SUM, R.PROD})
FUNCTIONS = {R.NONE: LAST, R.SUM: "sum", R.PROD: "prod", R.MAX: "max", R.MIN: "min"}


@dataclass(frozen=True, slots=True)
class ScatterAttrs(Attrs):
    """Attributes of Scatter."""

    mode: ScatterMode = attr(
        Kind.ENUM, "a position is one index (ELEMENT) or a row of indices (ND)", enum=ScatterMode
    )
    axis: int = attr(Kind.INT, "axis of the indices in mode ELEMENT", 0)
    reduction: ReduceOperation = attr(
        Kind.ENUM,
        "combines an update with the current element; NONE: overwrites it; others are an extension",
        R.NONE,
        enum=ReduceOperation,
    )


def expand(layer: Layer[ScatterAttrs]) -> tuple[Value, ...]:
    """A `Scatter`; each row of indices becomes one index into the flattened leading axes."""
    data, attrs = layer.input(0), layer.attrs
    if data.type.rank == 0:
        raise ShapeError("AR101", layer.name, "data of rank 0", "rank >= 1", "add a dimension of size 1")
    if attrs.reduction not in FUNCTIONS:
        wanted = ", ".join(r.name for r in FUNCTIONS)
        raise ArgumentError("AR304", layer.name, attrs.reduction.name, wanted, "use one of these")
    if attrs.reduction is not R.NONE and data.dtype in TYPES - COMBINED_TYPES:
        got, do = f"{short_name(data.dtype)} with reduction {attrs.reduction.name}", "cast the data"
        raise DTypeError("AR202", layer.name, got, "numbers", do)
    compute = _rows if attrs.mode is not ELEMENT else _elements
    if attrs.reduction in WIDER and data.dtype in HALVES:  # repeated updates of an element are rounded once
        wide = [None if v is None or k == 1 else cast(v, DataType.FLOAT) for k, v in enumerate(layer.inputs)]
        inputs = tuple(layer.inputs[k] if v is None else v for k, v in enumerate(wide))
        return (cast(compute(replace(layer, inputs=inputs)), data.dtype),)
    return (compute(layer),)


def _elements(layer: Layer[ScatterAttrs]) -> Value:
    data, indices, updates = (layer.input(i) for i in range(3))
    rank, axis = data.type.rank, layer.attrs.axis
    check_axis(layer.name, axis, rank)
    if {indices.type.rank, updates.type.rank} != {rank}:
        got = f"indices {show(indices.shape)} and updates {show(updates.shape)} for {show(data.shape)}"
        raise ShapeError("AR122", layer.name, got, "equal ranks", "add dimensions of size 1")
    _equal(layer, indices.shape)
    for k, (m, n) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if k != axis:
            got, do = f"size {m} of axis {k} for {show(data.shape)}", "pass fewer indices"
            need(layer.name, m, Relation.LE, n, "AR123", got, f"at most {n}", do)
    return apply(Scatter(axis, FUNCTIONS[layer.attrs.reduction]), data, indices, updates)


def _rows(layer: Layer[ScatterAttrs]) -> Value:
    data, indices, updates = (layer.input(i) for i in range(3))
    rank, length = data.type.rank, indices.shape[-1] if indices.type.rank else 0
    if not isinstance(length, int) or not 1 <= length <= rank:
        got, do = (
            f"indices {show(indices.shape)} for {show(data.shape)}",
            "pass one index for each leading axis",
        )
        raise ShapeError("AR123", layer.name, got, f"a last size of 1 to {rank}, static", do)
    row = data.shape[length:]
    expected = (*indices.shape[:-1], *row)
    if updates.type.rank != len(expected):
        got, do = f"updates {show(updates.shape)}", "pass a slice of the data for each index"
        raise ShapeError("AR122", layer.name, got, f"the shape {show(expected)}", do)
    _equal(layer, expected)
    count = product(indices.shape[:-1])
    at = _positions(reshape(indices, (count, length)), data.shape[:length])
    at = repeat(reshape(at, (count, *(1 for _ in row))), (count, *row))
    fn = FUNCTIONS[layer.attrs.reduction]
    return apply(Scatter(0, fn, length), data, at, reshape(updates, (count, *row)))


def _equal(layer: Layer[ScatterAttrs], expected: Sizes) -> None:
    """The condition that the updates have this shape, where it is known; `Scatter` checks the rest."""
    shape = layer.input(2).shape
    for m, n in zip(shape, expected, strict=True):
        got, do = f"updates {show(shape)}", "pass one update for each index"
        need(layer.name, m, Relation.EQ, n, "AR123", got, f"the shape {show(expected)}", do)


def _positions(rows: Value, sizes: tuple[Dim, ...]) -> Value:
    """Rows of indices as flat positions in `sizes`; out of range if an index of the row is."""
    count = rows.shape[0]
    if len(sizes) == 1:
        return reshape(rows, (count,))
    at, inside = scalar(0, _size(1)), None
    for k, n in enumerate(sizes):
        index = cast(reshape(slice_(rows, (0, k), (count, 1), (1, 1)), (count,)), DataType.INT64)
        size, zero = _size(n), scalar(0, _size(1))
        index = map_("select", map_("lt", index, zero), map_("add", index, size), index)
        fits = map_("and", map_("le", zero, index), map_("lt", index, size))
        inside = fits if inside is None else map_("and", inside, fits)
        at = map_("add", map_("mul", at, size), index)
    assert inside is not None, "rows have at least one index"
    return map_("select", inside, at, _size(product(sizes)))


def _size(n: Dim) -> Value:
    return apply(Shape((n,)))


COMBINED: dict[ReduceOperation, Callable[[Array, Array], Array]] = {
    R.NONE: lambda old, new: new,
    R.SUM: np.add,
    R.PROD: np.multiply,
    R.MAX: np.maximum,
    R.MIN: np.minimum,
}


def ref(attrs: ScatterAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The updates in order; those out of range are skipped."""
    out, indices, updates = arrays[0].copy(), arrays[1], arrays[2]
    for i in np.ndindex(indices.shape if attrs.mode is ELEMENT else indices.shape[:-1]):
        place = [int(k) for k in np.atleast_1d(indices[i])]
        if attrs.mode is ELEMENT:
            place = [*i[: attrs.axis], *place, *i[attrs.axis + 1 :]]
        if all(-n <= k < n for k, n in zip(place, out.shape, strict=False)):
            at = tuple(place)
            with np.errstate(all="ignore"):
                out[at] = COMBINED[attrs.reduction](out[at], updates[i])
    return (out,)


def _case(
    attrs: ScatterAttrs, shape: tuple[int, ...], sizes: tuple[int, ...], indices: Array,
    dtype: DataType = DataType.FLOAT, index: DataType = DataType.INT32, updates: Array | None = None,
) -> Case[ScatterAttrs]:  # fmt: skip
    open_ = tuple(range(indices.ndim - (attrs.mode is ND)))  # the length of a row of indices is static
    return Case(
        attrs, (shape, indices.shape, sizes), (dtype, index, dtype), (None, indices, updates),
        dynamic=(tuple(range(len(shape))), open_, tuple(range(len(sizes)))), static_only=not open_,
    )  # fmt: skip


def _indices(shape: tuple[int, ...], size: int) -> Array:
    """Positive and negative positions, some repeated and one out of range."""
    indices = np.arange(int(np.prod(shape))) * 7 % (2 * size) - size
    indices[len(indices) // 2 : len(indices) // 2 + 1] = size
    return indices.reshape(shape)


def cases() -> tuple[Case[ScatterAttrs], ...]:
    """Both modes in all types, along every axis, fewer and more updates than elements, every reduction."""
    a, small = ScatterAttrs, (3, 4, 2)
    tuples = np.array([[[1, 2], [-1, -3]], [[1, 2], [2, 4]], [[-4, 0], [0, 0]]])
    row, wide = _indices((5, 1), 3), np.arange(-20, 20).reshape(5, 4, 2)
    return (
        *(_case(a(ELEMENT, 1), (3, 5), (3, 4), _indices((3, 4), 5), t) for t in sorted(TYPES, key=int)),
        *(_case(a(ND), small, (5, 4, 2), row, t) for t in sorted(TYPES, key=int)),
        *(_case(a(ELEMENT, k), small, small, _indices(small, small[k])) for k in range(3)),
        *(_case(a(ELEMENT, k), (5, 6, 19), (2, 3, 17), _indices((2, 3, 17), 5)) for k in range(3)),
        _case(a(ELEMENT, 1), small, (3, 9, 2), _indices((3, 9, 2), 4), index=DataType.INT64),
        _case(a(ND), small, (3, 2, 2), tuples),
        _case(a(ND), small, (3, 2, 2), tuples, index=DataType.INT64),
        _case(a(ND), small, (7,), _indices((7, 3), 2)),
        _case(a(ND), small, (4, 2), np.array([-1])),
        *(_case(a(ND, 0, r), small, (5, 4, 2), row, t, updates=wide)
          for r in FUNCTIONS for t in (DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT64)),
        *(_case(a(ELEMENT, 0, r), (9,), (40,), _indices((40,), 9)) for r in FUNCTIONS),
        _case(a(ELEMENT), (0, 3), (2, 3), np.zeros((2, 3))),
        _case(a(ELEMENT), (2, 3), (0, 3), np.zeros((0, 3))),
        _case(a(ND), (2, 0), (3, 0), np.zeros((3, 1))),
        _case(a(ND), (2, 3), (0, 3), np.zeros((0, 1))),
        _case(a(ELEMENT, 5), (1, 2, 1, 2, 1, 3, 1, 2), (1, 2, 1, 2, 1, 2, 1, 2), _indices((1, 2) * 4, 3)),
    )  # fmt: skip


def mistakes() -> tuple[Mistake[ScatterAttrs], ...]:
    """Wrong axes, ranks, shapes and types."""
    a, f, i, h = ScatterAttrs, DataType.FLOAT, DataType.INT32, DataType.HALF
    types, two = (f, i, f), (2, 3)
    return (
        Mistake("AR303", "an axis outside the rank", a(ELEMENT, 2), (two, two, two), types),
        Mistake("AR303", "a negative axis", a(ELEMENT, -1), (two, two, two), types),
        Mistake("AR101", "data of rank 0", a(ELEMENT), ((), (), ()), types),
        Mistake("AR122", "indices of a different rank than the data", a(ELEMENT), (two, (2,), two), types),
        Mistake("AR122", "updates of a different rank than the data", a(ELEMENT), (two, two, (2,)), types),
        Mistake("AR123", "more indices than data on another axis", a(ELEMENT), (two, (2, 4), (2, 4)), types),
        Mistake("AR123", "updates of another shape than the indices", a(ELEMENT), (two, two, (1, 3)), types),
        Mistake("AR123", "more indices per row than axes of the data", a(ND), (two, (5, 3), (5,)), types),
        Mistake("AR123", "empty rows of indices", a(ND), (two, (5, 0), (5, 2, 3)), types),
        Mistake("AR122", "updates of a wrong rank in mode ND", a(ND), (two, (5, 1), (5,)), types),
        Mistake("AR123", "updates of a wrong shape in mode ND", a(ND), (two, (5, 1), (5, 2)), types),
        Mistake("AR304", "the reduction AVG", a(ND, 0, R.AVG), (two, (5, 1), (5, 3)), types),
        Mistake("AR202", "a reduction of bool", a(ND, 0, R.SUM), (two, (5, 1), (5, 3)),
                (DataType.BOOL, i, DataType.BOOL)),
        Mistake("AR202", "non-integer indices", a(ELEMENT), (two, two, two), (f, f, f)),
        Mistake("AR202", "an unsupported element type", a(ELEMENT), (two, two, two),
                (DataType.INT4, i, DataType.INT4)),
        Mistake("AR203", "updates of a different type than the data", a(ELEMENT), (two, two, two), (f, i, h)),
        Mistake("AR123", "updates of a wrong size at run time", a(ELEMENT), (two, two, (1, 3)), types,
                dynamic=True),
        Mistake("AR123", "more indices than elements at run time", a(ELEMENT), (two, (2, 4), (2, 4)), types,
                dynamic=True),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.SCATTER,
        cls="IScatterLayer",
        methods=(
            Method(
                "add_scatter",
                ("data", "indices", "updates", "mode"),
                example="first = network.add_constant((1,), np.array([0], np.int32)).get_output(0)\n"
                "last = network.add_constant((1, 1), np.array([[-1]], np.int32)).get_output(0)\n"
                "row = network.add_gather(x, first, 0).get_output(0)\n"
                "layer = network.add_scatter(x, last, row, trt.ScatterMode.ND)",
            ),
        ),
        inputs=(Input("data", TYPES), Input("indices", INTS), Input("updates", TYPES, same_as=0)),
        attrs=ScatterAttrs,
        expand=expand,
        ref=ref,
        doc="Copies the data and writes updates into the copy. ELEMENT: indices and updates have the same "
        "shape, of the data's rank, at most as large as the data except along the axis. Each index is the "
        "position of its update on the axis. ND: the last axis of the indices, of size k, holds positions on "
        "the first k axes of the data; each update is a slice of the data's other axes. Negative indices "
        "count from the end; updates out of range are skipped. If several updates have one position, the "
        "last one is kept; with a reduction, each is combined with the current element in order and rounded "
        "to the type each time. uint8, reductions, and bool and fp8 without a reduction are extensions.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Scatter", "ScatterElements", "ScatterND"),
        source="operator page Scatter; from 8.0",
    ),
)
