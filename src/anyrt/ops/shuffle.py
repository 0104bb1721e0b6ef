"""Shuffle: transpose, reshape, transpose.

layer = add_shuffle(x)                       # x: (1, 224, 224, 3)
layer.first_transpose, layer.reshape_dims = (0, 3, 1, 2), (0, -1)      # (1, 150528)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dimlimits import MAX_RANK
from anyrt.core.dims import Dim, add, always_le, bounds, equal, floordiv, maximum, mul, product, symbols
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError
from anyrt.core.requirement import Relation
from anyrt.core.sizes import choose
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, check_rank, checked, need, show
from anyrt.ops._elements import vector, with_counts
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, PACKED, STORAGE
from anyrt.prims.build import identity, reshape, transpose


@dataclass(frozen=True, slots=True)
class ShuffleAttrs(Attrs):
    """Attributes of Shuffle."""

    first_transpose: tuple[int, ...] | None = attr(
        Kind.PERMUTATION, "applied first; output axis i is input axis perm[i]", None
    )
    reshape_dims: tuple[int, ...] | None = attr(
        Kind.DIMS, "new shape: 0 copies a dimension, -1 is inferred; unset: no reshape", None, drops=1
    )
    second_transpose: tuple[int, ...] | None = attr(Kind.PERMUTATION, "applied last", None)
    zero_is_placeholder: bool = attr(
        Kind.BOOL, "if True, 0 copies a dimension; else it is an empty axis", True
    )


def expand(layer: Layer[ShuffleAttrs]) -> tuple[Value, ...]:
    """Transpose, `Reshape`, transpose."""
    attrs = layer.attrs
    y = transpose(
        layer.input(0), _permutation(layer, "first_transpose", attrs.first_transpose, layer.input(0))
    )
    operand = layer.optional(1)
    if operand is not None:
        y = with_counts(layer, _reshape(layer, y, vector(layer, 1, "the reshape dimensions")), 1)
    elif attrs.reshape_dims is not None:
        y = _reshape(layer, y, attrs.reshape_dims)
    y = transpose(y, _permutation(layer, "second_transpose", attrs.second_transpose, y))
    return (identity(y) if y is layer.input(0) or y == layer.input(0) else y,)


def _permutation(
    layer: Layer[ShuffleAttrs], name: str, permutation: tuple[int, ...] | None, value: Value
) -> tuple[int, ...]:
    rank = value.type.rank
    if permutation is None:
        return tuple(range(rank))
    # A Permutation object always has 8 entries, of which the first `rank` count.
    order = permutation[:rank] if len(permutation) == MAX_RANK else permutation
    if sorted(order) != list(range(rank)):
        got, wanted = (
            f"{name} {show(permutation)}",
            f"each of 0 to {rank - 1} once, for shape {show(value.shape)}",
        )
        raise ArgumentError("AR301", layer.name, got, wanted, "list every axis exactly once")
    return order


def _reshape(layer: Layer[ShuffleAttrs], y: Value, dims: tuple[Dim, ...]) -> Value:
    dims = tuple(low if low == high else d for d, (low, high) in zip(dims, map(bounds, dims), strict=True))
    sizes, rules = _resolve(layer, y, dims)
    check_rank(layer.name, sizes)
    before, after = product(y.shape), product(sizes)
    if -1 in dims:
        got, do = f"reshape_dims {show(dims)} for shape {show(y.shape)}", "change one of the other sizes"
        fits = f"sizes other than -1 whose product divides {before}"
    else:
        is_fixed = all(isinstance(d, int) for d in dims)
        do = "set one of the sizes to -1" if is_fixed else "pass sizes with as many elements"
        got = f"reshape_dims {show(dims)}, {after} elements"
        fits = f"{before} elements, as {show(y.shape)} has"
    volume = need(layer.name, before, Relation.EQ, after, "AR103", got, fits, do)
    # Checked before the reshape, whose own condition knows neither the layer nor the -1.
    return reshape(checked(y, (*rules, *volume)), sizes)


def _resolve(
    layer: Layer[ShuffleAttrs], y: Value, dims: tuple[Dim, ...]
) -> tuple[tuple[Dim, ...], Requirements]:
    """The sizes with 0 and −1 replaced, and the conditions on them.

    A size that is known only at run time may be 0 or −1. It becomes a product of two maxima, one of which
    is 1: a sum would have three times as many terms with every dimension when multiplied."""
    text, rules = f"reshape_dims {show(dims)}", list[Requirements]()
    known: list[Dim] = []
    for i, d in enumerate(dims):
        rules.append(
            need(layer.name, -1, Relation.LE, d, "AR120", text, "sizes, 0 or -1", "pass sizes of 0 or more")
        )
        size, rule = _size_of(layer, y, i, d, text)
        known.append(size)
        rules.append(rule)
    inferred = [_inferred(d) for d in dims]
    others = product(known)
    count: Dim = 0
    for flag in inferred:
        count = add(count, flag)
    rules.append(
        need(layer.name, count, Relation.LE, 1, "AR104", text, "at most one -1", "replace all but one")
    )
    if count != 0:
        do = "pass the size instead of -1"
        rules.append(
            need(layer.name, count, Relation.LE, others, "AR105", f"{text} for {show(y.shape)}",
                 "no 0 in the other dimensions", do)
        )  # fmt: skip
    rest = floordiv(product(y.shape), others) if count != 0 else 0
    sizes = tuple(mul(size, _factor(flag, rest)) for flag, size in zip(inferred, known, strict=True))
    return sizes, tuple(rule for group in rules for rule in group)


def _inferred(d: Dim) -> Dim:
    """1 if the dimension is −1; constant 0 if it never is, by a proof or by its bounds."""
    return 0 if always_le(0, d) else equal(d, -1)


def _factor(inferred: Dim, rest: Dim) -> Dim:
    """`rest` where the dimension is inferred, else 1."""
    if isinstance(inferred, int):
        return rest if inferred else 1
    return maximum(mul(inferred, rest), add(1, mul(inferred, -1)))


def _size_of(layer: Layer[ShuffleAttrs], y: Value, i: int, d: Dim, text: str) -> tuple[Dim, Requirements]:
    """Dimension `i` as passed; 1 for −1, and the dimension of `y` for a 0 that copies."""
    if d == -1:
        return 1, ()
    low, high = bounds(d)
    kept = maximum(d, _inferred(d))
    if not layer.attrs.zero_is_placeholder or low > 0 or high < 0:
        return kept, ()
    if low == 0 and not isinstance(d, int) and symbols(d) <= symbols(product(y.shape)):
        return kept, ()  # computed from the input's dimensions: if it is 0, the input is empty
    if i < y.type.rank:
        copied = choose(equal(d, 0), y.shape[i], d)
        if isinstance(d, int):
            return copied, ()
        # A 0 that copies an empty axis stays 0; a -1 becomes another size.
        return kept if copied == d else maximum(kept, mul(equal(d, 0), y.shape[i])), ()
    got = f"{text} with a 0 at position {i} for shape {show(y.shape)}"
    do = "pass the size, or set zero_is_placeholder to False for an empty axis"
    rule = need(
        layer.name, equal(d, 0), Relation.EQ, 0, "AR106", got, f"0 at positions below {y.type.rank}", do
    )
    return kept, rule


def ref(attrs: ShuffleAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """NumPy's transpose and reshape."""
    x = arrays[0]
    if attrs.first_transpose is not None:
        x = x.transpose(attrs.first_transpose[: x.ndim])
    dims = arrays[1].tolist() if len(arrays) > 1 else attrs.reshape_dims
    if dims is not None:
        if attrs.zero_is_placeholder:
            dims = [x.shape[i] if d == 0 else d for i, d in enumerate(dims)]
        known = int(np.prod([d for d in dims if d != -1], dtype=np.int64))
        x = x.reshape([x.size // known if d == -1 else d for d in dims])
    if attrs.second_transpose is not None:
        x = x.transpose(attrs.second_transpose[: x.ndim])
    return (x,)


def cases() -> tuple[Case[ShuffleAttrs], ...]:
    """Permutations, placeholders, tensors of sizes, every type, ranks 0 to 8, empty tensors."""
    s = ShuffleAttrs
    padded = (2, 0, 1, 3, 4, 5, 6, 7)
    eight = (1, 2, 3, 1, 2, 2, 3, 1)
    swap = (7, 6, 5, 4, 3, 2, 1, 0)
    out = [
        Case(s(), ((2, 3),)),
        Case(s(), ((),)),
        Case(s(reshape_dims=()), ((1, 1),)),
        Case(s(reshape_dims=(1, 1, 1)), ((),)),
        Case(s(first_transpose=(1, 0)), ((15, 17),)),
        Case(s(first_transpose=padded), ((2, 3, 5),)),
        Case(s((0, 3, 1, 2)), ((2, 5, 7, 3),)),
        Case(s(swap), (eight,)),
        Case(s(swap, (6, -1), (1, 0)), (eight,)),
        Case(s((1, 0), (0, 1, -1), (2, 0, 1)), ((3, 4),)),
        Case(s((1, 0, 2), (2, -1, 3)), ((2, 3, 4),)),
        Case(s(reshape_dims=(0, -1)), ((2, 3, 5),)),
        Case(s(reshape_dims=(0, 0, -1)), ((2, 3, 5, 7),)),
        Case(s(reshape_dims=(-1,)), ((31, 33),)),
        Case(s(reshape_dims=(-1, 3)), ((4, 6),)),
        Case(s(reshape_dims=(2, 2, 2, 2, 2, -1)), ((8, 12),)),
        Case(s(reshape_dims=(0, 5)), ((0, 5),)),
        Case(s(reshape_dims=(-1, 5)), ((0, 5),)),
        Case(s(reshape_dims=(0, 7), zero_is_placeholder=False), ((3, 0),)),
        Case(s(second_transpose=(1, 0)), ((3, 5),)),
    ]
    by_tensor: tuple[tuple[tuple[int, ...], tuple[int, ...], DataType], ...] = (
        ((4, 6), (0, -1), DataType.INT32),
        ((4, 6), (-1, 3), DataType.INT64),
        ((4, 6), (4, 6), DataType.INT64),
        ((2, 3, 4, 5), (0, 5, -1, 2), DataType.INT32),
        ((5, 0), (-1, 5, 1), DataType.INT64),
        ((0, 3), (0, -1), DataType.INT32),
        ((0, 3), (-1, 3), DataType.INT32),
        ((3, 0), (3, -1, 3), DataType.INT64),
        (eight, (0, 0, 0, 0, 0, 0, -1, 0), DataType.INT64),
    )
    for shape, dims, t in by_tensor:
        turned = s((1, 0)) if len(shape) == 2 else s()
        out.append(Case(turned, (shape, (len(dims),)), (DataType.FLOAT, t), (None, np.array(dims))))
    out.append(
        Case(s(zero_is_placeholder=False), ((3, 0), (2,)), (DataType.HALF, DataType.INT64),
             (None, np.array([0, 9])))
    )  # fmt: skip
    out += [Case(s((1, 0), (-1, 3), (1, 0)), ((5, 6),), (t,)) for t in sorted(STORAGE, key=int)]
    out += [Case(s((1, 0)), ((3, 5),), (t,)) for t in sorted(PACKED, key=int)]
    out += [
        Case(s((1, 0)), ((3, 5),), (DataType.INT8,), low=-100, high=100, int8=scales)
        for scales in (((0.5,), 0.5), ((0.5,), 0.25))
    ]
    return tuple(out)


def mistakes() -> tuple[Mistake[ShuffleAttrs], ...]:
    """Wrong permutations, numbers of elements and placeholders."""
    s, x = ShuffleAttrs, ((3, 4),)
    types = (DataType.FLOAT, DataType.INT64)
    at_run = [
        ("AR103", "a different number of elements at run time", (2, 5)),
        ("AR104", "two -1 at run time", (-1, -1)),
        ("AR120", "a size below -1 at run time", (-2, 12)),
        ("AR106", "a 0 beyond the rank at run time", (3, 4, 0)),
    ]
    return (
        Mistake("AR301", "a permutation that repeats an axis", s((0, 0)), x),
        Mistake("AR301", "a permutation of a wrong length", s((1, 0, 2)), x),
        Mistake("AR301", "a second permutation of a wrong length", s(None, (12,), (1, 0)), x),
        Mistake("AR103", "a different number of elements", s(reshape_dims=(5, 2)), x),
        Mistake("AR103", "-1 that cannot be inferred", s(reshape_dims=(5, -1)), x),
        Mistake("AR104", "more than one -1", s(reshape_dims=(-1, -1)), x),
        Mistake("AR105", "-1 with a 0 that is an empty axis", s(None, (0, -1), None, False), x),
        Mistake("AR105", "-1 with a copied 0", s(reshape_dims=(0, -1)), ((0, 4),)),
        Mistake("AR106", "a 0 placeholder beyond the rank of the input", s(reshape_dims=(3, 4, 0)), x),
        Mistake("AR120", "a size below -1", s(reshape_dims=(-2, 6)), x),
        Mistake("AR115", "more than 8 dimensions", s(reshape_dims=(3, 4, 1, 1, 1, 1, 1, 1, 1)), x),
        Mistake("AR202", "an unsupported element type", s(), x, (DataType.E8M0,)),
        Mistake("AR123", "a second input that is not a vector", s(), (*x, (1, 2)), types),
        Mistake("AR105", "-1 with a copied 0 at run time", s(reshape_dims=(0, -1)), ((0, 4),), dynamic=True),
        *(Mistake(c, why, s(), (*x, (len(d),)), types, (None, np.array(d)), True) for c, why, d in at_run),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.SHUFFLE,
        cls="IShuffleLayer",
        methods=(
            Method(
                "add_shuffle",
                ("input",),
                example="layer = network.add_shuffle(x)\n"
                "layer.first_transpose, layer.reshape_dims = (0, 2, 3, 1), (0, -1)",
            ),
        ),
        inputs=(
            Input("input", STORAGE),
            Input("reshape_dims", INTS, required=False, shape_values=True, clears=("reshape_dims",)),
        ),
        attrs=ShuffleAttrs,
        expand=expand,
        ref=ref,
        doc="Transposes, reshapes and transposes. Every element type except e8m0 is supported, including "
        "4-bit types. A 0 in reshape_dims copies the dimension at its position after the first transpose. "
        "The second input passes reshape_dims at run time, by the same rules. int64 and fp4 are extensions.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Reshape", "Transpose", "Flatten", "TRT_Shuffle"),
        source="core page Shuffle",
    ),
)
