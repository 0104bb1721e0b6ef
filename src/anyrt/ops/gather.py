"""Gather: elements or slices of a tensor, at indices from another tensor.

add_gather(table, words, axis=0)                            # table[words], an embedding lookup
add_gather_v2(x, indices, GatherMode.ELEMENT).axis = 1      # numpy.take_along_axis(x, indices, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anyrt.core.dims import Dim, add, maximum, mul, product
from anyrt.core.enums import DataType, GatherMode, LayerType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Shape, Value
from anyrt.ops._check import Requirements, check_axis, checked, need, show
from anyrt.ops._math import from_end, number
from anyrt.ops._product import repeated
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, STORAGE
from anyrt.prims.build import expand as expand_
from anyrt.prims.build import gather, map_, pad, reshape, scalar, slice_
from anyrt.prims.map import broadcast

G = GatherMode


@dataclass(frozen=True, slots=True)
class GatherAttrs(Attrs):
    """Attributes of Gather."""

    mode: GatherMode = attr(
        Kind.ENUM,
        "DEFAULT: slices along one axis; ELEMENT: one element per index; ND: slices at index tuples",
        G.DEFAULT,
        enum=GatherMode,
    )
    axis: int = attr(Kind.INT, "the axis that is indexed; ND ignores it", 0)
    num_elementwise_dims: int = attr(
        Kind.INT, "number of leading axes that input and indices share: 0 or 1 for DEFAULT, any for ND", 0
    )


@dataclass(frozen=True, slots=True)
class Places:
    """Positions along an axis, and whether each is in range."""

    at: Value
    inside: Value


def expand(layer: Layer[GatherAttrs]) -> tuple[Value, ...]:
    """One `Gather`, and a selection if an index may be out of range. Reshapes, which move no data, merge the
    indexed axes, and those of the indices, before the `Gather` and split the latter after it."""
    match layer.attrs.mode:
        case G.DEFAULT:
            return (_slices(layer),)
        case G.ELEMENT:
            return (_elements(layer),)
        case G.ND:
            return (_points(layer),)


def _slices(layer: Layer[GatherAttrs]) -> Value:
    x, indices, axis = layer.input(0), layer.input(1), _axis(layer)
    shared = _shared(layer, 1)
    if shared and (axis == 0 or indices.type.rank == 0):
        got = f"axis {axis} and indices of shape {show(indices.shape)} with num_elementwise_dims 1"
        raise ArgumentError("AR303", layer.name, got, "axis > 0 and indices of rank >= 1", "set axis")
    batch, rules = _batch(layer, x, indices) if shared else ((), ())
    own = indices.shape[shared:]
    x, indices = _repeated(x, batch), _repeated(indices, batch)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    unit = (1,) * len(before[shared:])
    index = reshape(indices, (*batch, *unit, product(own), *(1 for _ in after)))
    y = _read(x, _places(index, x.shape[axis]), axis)
    return checked(reshape(y, (*before, *own, *after)), rules)


def _elements(layer: Layer[GatherAttrs]) -> Value:
    x, indices, axis = layer.input(0), layer.input(1), _axis(layer)
    _shared(layer, 0)
    if indices.type.rank != x.type.rank:
        got = f"indices of shape {show(indices.shape)} for {show(x.shape)}"
        raise ShapeError("AR122", layer.name, got, "equal ranks", "reshape them with add_shuffle")
    rules, sizes = list[Requirements](), list(x.shape)
    for k, (size, most) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if k != axis:
            sizes[k] = size
            got = f"indices of shape {show(indices.shape)} for {show(x.shape)}"
            wanted, do = f"at most {most} on axis {k}", "shorten the indices on this axis"
            rules.append(need(layer.name, size, Relation.LE, most, "AR123", got, wanted, do))
    x = slice_(x, (0,) * len(sizes), sizes, (1,) * len(sizes))
    y = _read(x, _places(indices, x.shape[axis]), axis)
    return checked(y, (rule for group in rules for rule in group))


def _points(layer: Layer[GatherAttrs]) -> Value:
    x, indices = layer.input(0), layer.input(1)
    shared = _shared(layer, x.type.rank - 1)
    count, rules = _check_points(layer, x, indices, shared)
    batch, rest = x.shape[:shared], x.shape[shared + count :]
    own, lengths = indices.shape[shared:-1], x.shape[shared : shared + count]
    column: Shape = (*batch, product(own), *(1 for _ in rest))
    flat = reshape(indices, (*batch, product(own), count))
    parts = [_places(reshape(_column(flat, k), column), length) for k, length in enumerate(lengths)]
    lines = reshape(x, (*batch, product(lengths), *rest))
    y = _read(lines, _together(parts, lengths), shared)
    return checked(reshape(y, (*batch, *own, *rest)), rules)


def _column(v: Value, k: int) -> Value:
    last = v.type.rank - 1
    return slice_(v, (*(0,) * last, k), (*v.shape[:last], 1), (1,) * (last + 1))


def _together(parts: Sequence[Places], lengths: Shape) -> Places:
    """The flat position for several consecutive axes; in range if all parts are."""
    at, inside = parts[0].at, parts[0].inside
    for part, length in zip(parts[1:], lengths[1:], strict=True):
        at = map_("add", map_("mul", at, number(length, at)), part.at)
        inside = map_("and", inside, part.inside)
    return Places(at, inside)


def _places(index: Value, length: Dim) -> Places:
    """Positions along an axis of this length; negative indices count from its end."""
    at = from_end(index, length)
    return Places(at, map_("and", map_("le", scalar(0, at), at), map_("lt", at, number(length, at))))


def _read(x: Value, places: Places, axis: int) -> Value:
    """`x` at these positions along `axis`, 0 out of range; places have size 1 along axes that broadcast."""
    shape = (*x.shape[:axis], places.at.shape[axis], *x.shape[axis + 1 :])
    missing = maximum(add(1, mul(x.shape[axis], -1)), 0)  # pads an axis that may be empty with a 0
    rank = x.type.rank
    x = pad(x, [0] * rank, [missing if k == axis else 0 for k in range(rank)], 0.0)
    y = gather(x, expand_(places.at, shape), axis)
    return map_("select", places.inside, y, scalar(0, y))


def _axis(layer: Layer[GatherAttrs]) -> int:
    x = layer.input(0)
    if x.type.rank == 0:
        raise ShapeError("AR101", layer.name, "an input of rank 0", "rank >= 1", "add a dimension of size 1")
    check_axis(layer.name, layer.attrs.axis, x.type.rank)
    return layer.attrs.axis


def _shared(layer: Layer[GatherAttrs], most: int) -> int:
    """The number of leading axes that input and indices share."""
    count = layer.attrs.num_elementwise_dims
    if not 0 <= count <= max(most, 0):
        got, wanted = f"num_elementwise_dims {count} in mode {layer.attrs.mode.name}", f"0 to {max(most, 0)}"
        raise ArgumentError("AR304", layer.name, got, wanted, "set num_elementwise_dims")
    return count


def _batch(layer: Layer[GatherAttrs], x: Value, indices: Value) -> tuple[Shape, Requirements]:
    """The broadcast first dimension of both."""
    m, n = x.shape[0], indices.shape[0]
    if m == n or 1 in (m, n):
        return broadcast((m,), (n,)), ()
    do = f"make sizes equal or 1: {m} and {n}"
    return broadcast((m,), (n,)), (Requirement(m, Relation.BROADCAST, n, "AR112", layer.name, do),)


def _repeated(v: Value, batch: Shape) -> Value:
    """`v` with its first axis broadcast to `batch`."""
    if not batch:
        return v
    v, lost = repeated(v, {0: batch[0]})
    return expand_(v, (*batch, *v.shape)) if lost else v


def _check_points(
    layer: Layer[GatherAttrs], x: Value, indices: Value, shared: int
) -> tuple[int, Requirements]:
    """The number of axes that an index tuple addresses, and the requirements."""
    got = f"indices of shape {show(indices.shape)} for {show(x.shape)}"
    if indices.type.rank < shared + 1:
        wanted = f"at least rank {shared + 1}"
        raise ShapeError("AR123", layer.name, got, wanted, "add a last axis for index tuples")
    count = indices.shape[-1]
    if not isinstance(count, int):
        do = "fix the last dimension of the indices"
        raise ShapeError("AR117", layer.name, got, "a static last dimension", do)
    if not 1 <= count <= x.type.rank - shared:
        wanted = f"a last dimension of 1 to {x.type.rank - shared}"
        raise ShapeError("AR123", layer.name, got, wanted, "pass one index per axis, from the first on")
    rules = [
        need(layer.name, m, Relation.EQ, n, "AR123", got, f"{n} on axis {k}", "make shared sizes equal")
        for k, (m, n) in enumerate(zip(indices.shape[:shared], x.shape[:shared], strict=True))
    ]
    return count, tuple(rule for group in rules for rule in group)


def ref(attrs: GatherAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Index by index with NumPy's indexing; zeros out of range."""
    x, indices = arrays
    match attrs.mode:
        case G.DEFAULT if attrs.num_elementwise_dims:
            count = max(len(x), len(indices)) if len(x) and len(indices) else 0
            each = [
                _ref_slices(x[b % len(x)], indices[b % len(indices)], attrs.axis - 1) for b in range(count)
            ]
            shape = (*x.shape[1 : attrs.axis], *indices.shape[1:], *x.shape[attrs.axis + 1 :])
            return (np.stack(each) if each else np.empty((0, *shape), x.dtype),)
        case G.DEFAULT:
            return (_ref_slices(x, indices, attrs.axis),)
        case G.ELEMENT:
            y = np.zeros(indices.shape, x.dtype)
            for at in np.ndindex(indices.shape):
                place = (*at[: attrs.axis], int(indices[at]), *at[attrs.axis + 1 :])
                y[at] = _ref_point(x, place)
            return (y,)
    e, count = attrs.num_elementwise_dims, indices.shape[-1]
    y = np.zeros((*indices.shape[:-1], *x.shape[e + count :]), x.dtype)
    for at in np.ndindex(indices.shape[:-1]):
        y[at] = _ref_point(x, (*at[:e], *map(int, indices[at])))
    return (y,)


def _ref_slices(x: Array, indices: Array, axis: int) -> Array:
    moved = np.moveaxis(x, axis, 0)
    flat = [_ref_point(moved, (int(i),)) for i in indices.reshape(-1)]
    lines = np.stack(flat) if flat else np.empty((0, *moved.shape[1:]), x.dtype)
    lines = np.moveaxis(lines, 0, axis)
    return lines.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _ref_point(x: Array, place: tuple[int, ...]) -> Array:
    inside = all(-n <= i < n for i, n in zip(place, x.shape, strict=False))
    return np.asarray(x[place]) if inside else np.zeros(x.shape[len(place) :], x.dtype)


def cases() -> tuple[Case[GatherAttrs], ...]:
    """Every mode, axis and type; shared axes; negative, out-of-range and no indices."""
    g, f, i32, i64 = GatherAttrs, DataType.FLOAT, DataType.INT32, DataType.INT64
    near, far = np.array([[0, 3], [-1, -4], [2, 2]]), np.array([[4, -5], [1 << 40, 1], [-(1 << 40), -1]])
    out = [Case(g(G.DEFAULT, 1), ((3, 4), (3, 2)), (t, i32), (None, near)) for t in sorted(STORAGE, key=int)]
    out.append(Case(g(G.DEFAULT, 0), ((4, 3), (2,)), (f, i32)))
    out += [
        Case(g(mode, axis, shared), shapes, (f, i64), (None, far if at is None else at))
        for mode, axis, shared, shapes, at in (
            (G.DEFAULT, 0, 0, ((4, 5), (3, 2)), None),
            (G.DEFAULT, 2, 0, ((2, 1, 4, 3), (3, 2)), None),
            (G.DEFAULT, 0, 0, ((4,), ()), np.array(-2)),
            (G.DEFAULT, 0, 0, ((4,), ()), np.array(7)),
            (G.DEFAULT, 0, 0, ((2, 3, 40), (3,)), np.array([1, -2, 2])),
            (G.DEFAULT, 1, 1, ((3, 4, 5), (3, 2)), None),
            (G.DEFAULT, 2, 1, ((1, 3, 4), (3, 2)), None),
            (G.DEFAULT, 1, 1, ((3, 4), (1, 6)), far.reshape(1, 6)),
            (G.DEFAULT, 1, 1, ((3, 4), (3,)), np.array([1, -1, 4])),
            (G.ELEMENT, 0, 0, ((4, 2), (3, 2)), None),
            (G.ELEMENT, 1, 0, ((3, 4), (3, 2)), None),
            (G.ELEMENT, 1, 0, ((5, 4, 2), (3, 2, 1)), far.reshape(3, 2, 1)),
            (G.ND, 0, 0, ((4, 5), (3, 2)), None),
            (G.ND, 0, 0, ((4, 3), (6, 1)), far.reshape(6, 1)),
            (G.ND, 0, 0, ((4, 3, 2), (1, 3, 2)), np.array([[[3, -1], [0, 3], [-4, 0]]])),
            (G.ND, 0, 1, ((3, 4, 5), (3, 2)), None),
            (G.ND, 0, 2, ((3, 2, 4), (3, 2, 1)), far.reshape(3, 2, 1)),
            (G.ND, 0, 1, ((2, 3, 2, 5), (2, 3, 2)), np.array([[[0, 1], [2, -2], [1, 2]], [[-3, 0]] * 3])),
        )
    ]  # fmt: skip
    out += [
        Case(g(mode, axis), shapes, (t, i32), dynamic=dynamic, low=0, high=3)
        for t in (f, DataType.INT8, DataType.INT4)
        for mode, axis, shapes, dynamic in (
            (G.DEFAULT, 0, ((7, 33), (5,)), ()),
            (G.DEFAULT, 1, ((7, 33), (5,)), ()),
            (G.ELEMENT, 1, ((7, 33), (5, 40)), ()),
            (G.ND, 0, ((7, 5, 3), (4, 2)), ((0, 1, 2), (0,))),
        )
    ]
    out += [
        Case(g(mode, axis), shapes, (f, i64), dynamic=dynamic)
        for mode, axis, shapes, dynamic in (
            (G.DEFAULT, 0, ((3, 0), (4,)), ()),
            (G.DEFAULT, 0, ((0, 3), (0,)), ()),
            (G.DEFAULT, 0, ((0, 3), (2,)), ()),
            (G.ELEMENT, 1, ((3, 0), (3, 2)), ()),
            (G.ND, 0, ((0, 4), (3, 1)), ((0, 1), (0,))),
            (G.ND, 0, ((2, 0, 4), (3, 2)), ((0, 1, 2), (0,))),
            (G.ELEMENT, 1, ((3, 4), (3, 0)), ()),
            (G.ELEMENT, 1, ((3, 4), (0, 2)), ()),
            (G.ND, 0, ((0, 4), (0, 2)), ((0, 1), (0,))),
            (G.DEFAULT, 1, ((1, 2, 1, 2, 3, 1, 2, 1), (2,)), ()),
        )
    ]
    out.append(Case(g(G.DEFAULT, 0), ((5, 3), (2,)), (DataType.INT8, i32), low=-9, high=9,
                    int8=((0.5,), 0.25)))  # fmt: skip
    return tuple(_open(case) for case in out)


def _open(case: Case[GatherAttrs]) -> Case[GatherAttrs]:
    """In mode ND, the last dimension of the indices stays static: it is the length of the tuples."""
    if case.attrs.mode is not G.ND or case.dynamic:
        return case
    ranks = [len(shape) for shape in case.shapes if shape is not None]
    return replace(case, dynamic=(tuple(range(ranks[0])), tuple(range(ranks[1] - 1))))


def mistakes() -> tuple[Mistake[GatherAttrs], ...]:
    """Axes, shared axes, shapes of indices, types."""
    g, f, i32 = GatherAttrs, DataType.FLOAT, DataType.INT32
    types, x, at = (f, i32), (3, 4), (2,)
    return (
        Mistake("AR303", "an axis outside the rank", g(G.DEFAULT, 2), (x, at), types),
        Mistake("AR303", "a negative axis", g(G.ELEMENT, -1), (x, (3, 2)), types),
        Mistake("AR303", "the axis that input and indices share", g(G.DEFAULT, 0, 1), (x, (3, 2)), types),
        Mistake("AR303", "a shared axis that the indices lack", g(G.DEFAULT, 1, 1), (x, ()), types),
        Mistake("AR101", "an input of rank 0", g(), ((), at), types),
        Mistake("AR304", "two shared axes in mode DEFAULT", g(G.DEFAULT, 1, 2), (x, (3, 2)), types),
        Mistake("AR304", "a shared axis in mode ELEMENT", g(G.ELEMENT, 1, 1), (x, (3, 2)), types),
        Mistake("AR304", "as many shared axes as the input has axes", g(G.ND, 0, 2), (x, (3, 4, 1)), types),
        Mistake("AR304", "a negative number of shared axes", g(G.ND, 0, -1), (x, (3, 1)), types),
        Mistake("AR112", "shared dimensions that differ", g(G.DEFAULT, 1, 1), (x, (2, 2)), types),
        Mistake("AR112", "shared dimensions that differ at run time", g(G.DEFAULT, 1, 1), (x, (2, 2)), types,
                dynamic=True),
        Mistake("AR122", "indices of a different rank in mode ELEMENT", g(G.ELEMENT, 1), (x, at), types),
        Mistake("AR123", "more indices than elements on another axis", g(G.ELEMENT, 1), (x, (4, 2)), types),
        Mistake("AR123", "more indices than elements on another axis at run time", g(G.ELEMENT, 1),
                (x, (4, 2)), types, dynamic=True),
        Mistake("AR123", "indices for more axes than the input has", g(G.ND), (x, (2, 3)), types),
        Mistake("AR123", "indices for more axes than are unshared", g(G.ND, 0, 1), (x, (3, 2)), types),
        Mistake("AR123", "indices for no axis", g(G.ND), (x, (2, 0)), types),
        Mistake("AR123", "indices of rank 0 in mode ND", g(G.ND), (x, ()), types),
        Mistake("AR123", "shared dimensions that differ in mode ND", g(G.ND, 0, 1), (x, (2, 1)), types),
        Mistake("AR117", "indices with a dynamic last dimension in mode ND", g(G.ND), (x, (2, 1)), types,
                dynamic=True),
        Mistake("AR115", "a result of more than 8 axes", g(), ((2,) * 5, (2,) * 5), types),
        Mistake("AR202", "indices that are not integers", g(), (x, at), (f, f)),
        Mistake("AR202", "a type that Gather does not support", g(), (x, at), (DataType.E8M0, i32)),
    )  # fmt: skip


OPERANDS = (Input("input", STORAGE), Input("indices", INTS))
OPS = (
    Op(
        layer=LayerType.GATHER,
        cls="IGatherLayer",
        methods=(
            Method(
                "add_gather",
                ("input", "indices", "axis"),
                fixed=(("mode", G.DEFAULT),),
                example="layer = network.add_gather(x, indices, 0)",
            ),
            Method(
                "add_gather_v2",
                ("input", "indices", "mode"),
                example="layer = network.add_gather_v2(x, indices, trt.GatherMode.ELEMENT)\nlayer.axis = 1",
            ),
        ),
        inputs=OPERANDS,
        attrs=GatherAttrs,
        expand=expand,
        ref=ref,
        doc="Reads elements of the input at indices. DEFAULT: the axes of the indices replace `axis`. "
        "ELEMENT: the output has the shape of the indices, and each index selects an element along `axis`. "
        "ND: the last axis of the indices holds one index per axis of the input, from the first axis on "
        "that is not shared. Negative indices count from the end, also along dynamic dimensions. An index "
        "out of range yields 0, also along an empty axis. int64 indices are not narrowed. uint8 and 4-bit "
        "floats are extensions.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Gather", "GatherElements", "GatherND"),
        source="operator page Gather; out of range from the C++ header",
    ),
)
