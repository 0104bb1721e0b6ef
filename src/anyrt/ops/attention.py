"""Attention: sums of values, weighted by the normalised products of queries and keys.

attention = network.add_attention(q, k, v, AttentionNormalizationOp.SOFTMAX, False)      # (B, heads, S, H)
attention.mask = mask
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anyrt.core.dims import Dim, add, mod
from anyrt.core.dtype import numpy_dtype, short_name
from anyrt.core.enums import AttentionIOForm, AttentionNormalizationOp, CausalMaskKind, DataType, LayerType
from anyrt.core.errors import ArgumentError, DTypeError, GraphError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import Requirements, checked, need
from anyrt.ops._lengths import ends_within, lengths_within
from anyrt.ops._record import (
    ABSENT,
    Array,
    Attrs,
    Case,
    Input,
    Kind,
    Layer,
    Method,
    Mistake,
    Op,
    Scope,
    attr,
)
from anyrt.ops._types import FLOATS
from anyrt.prims.build import cast, contract, iota, map_, reduce_, reshape, scalar, slice_, transpose
from anyrt.prims.build import expand as expand_
from anyrt.prims.const import Shape

N, C = AttentionNormalizationOp, CausalMaskKind
PADDED, PACKED = AttentionIOForm.PADDED_BHND, AttentionIOForm.PACKED_NHD
LEAST = -float(np.finfo(np.float32).max)
STEPS = {DataType.INT8: (-128.0, 127.0), DataType.FP8: (-448.0, 448.0)}
MASK, SCALE, QUERY_LENGTHS, KEY_LENGTHS = 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class AttentionAttrs(Attrs):
    """Attributes of Attention."""

    norm_op: AttentionNormalizationOp = attr(
        Kind.ENUM, "the normalisation of the scores of each query", N.SOFTMAX, enum=N
    )
    causal_kind: CausalMaskKind | None = attr(
        Kind.ENUM,
        "UPPER_LEFT: query i sees keys 0 to i; LOWER_RIGHT: the mask ends at the last query and key",
        None,
        enum=C,
        from_attr=("causal", lambda causal: C.UPPER_LEFT if causal else C.NONE),
        clears=("causal",),
    )
    causal: bool | None = attr(
        Kind.BOOL,
        "True is the same as causal_kind UPPER_LEFT",
        None,
        from_attr=("causal_kind", lambda kind: kind not in (None, C.NONE)),
        clears=("causal_kind",),
    )
    decomposable: bool = attr(Kind.BOOL, "whether several kernels may compute it; without effect", False)
    normalization_quantize_to_type: DataType = attr(
        Kind.ENUM,
        "INT8 or FP8: the type that normalised weights are rounded to; FLOAT: no rounding",
        DataType.FLOAT,
        enum=DataType,
    )
    query_form: AttentionIOForm = attr(
        Kind.ENUM,
        "(batch, heads, tokens, head size), or packed tokens of all batches: (tokens, heads, head size)",
        PADDED,
        enum=AttentionIOForm,
    )
    key_value_form: AttentionIOForm = attr(
        Kind.ENUM, "the same for keys and values", PADDED, enum=AttentionIOForm
    )

    @property
    def kind(self) -> CausalMaskKind:
        """The causal kind, from either attribute."""
        return self.causal_kind or (C.UPPER_LEFT if self.causal else C.NONE)


def _tokens_axes(tokens: str, heads: str, form: AttentionIOForm) -> str:
    return f"{tokens} {heads} head_size" if form is PACKED else f"batch {heads} {tokens} head_size"


def _key_axes(layer: Layer[AttentionAttrs]) -> str:
    return _tokens_axes("keys", "key_heads", layer.attrs.key_value_form)


def _of_queries(form: AttentionIOForm, axes: str) -> Callable[[Layer[AttentionAttrs]], str | None]:
    """The axes of an operand for one form of queries; with the other form it is rejected in any case."""
    return lambda layer: axes if layer.attrs.query_form is form else None


OPERANDS = (
    Input("query", FLOATS, axes=lambda layer: _tokens_axes("queries", "heads", layer.attrs.query_form)),
    Input("key", FLOATS, same_as=0, axes=_key_axes),
    Input("value", FLOATS, same_as=0, axes=_key_axes),
    Input(
        "mask",
        FLOATS | {DataType.BOOL},
        required=False,
        is_property=True,
        axes=_of_queries(PADDED, "batch? heads? queries keys"),
    ),
    Input("normalization_quantize_scale", FLOATS, required=False, is_property=True, axes="| 1"),
    Input(
        "query_lengths",
        frozenset({DataType.INT32}),
        required=False,
        is_property=True,
        axes=_of_queries(PACKED, "batch+1"),
    ),
    Input(
        "key_value_lengths",
        frozenset({DataType.INT32}),
        required=False,
        is_property=True,
        axes=lambda layer: "batch+1" if layer.attrs.key_value_form is PACKED else "batch",
    ),
)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Queries, keys or values as (B, heads, S, H). Packed ones have the tokens of all batches; those of a
    batch are from `first` to before `behind`, (B, 1, 1, 1). Padded keys are those before `behind`."""

    tokens: Value
    first: Value | None = None
    behind: Value | None = None

    @property
    def length(self) -> Dim:
        """The number of tokens."""
        return self.tokens.shape[2]

    def for_each(self, batch: Dim) -> _Tokens:
        """Packed tokens repeated for each batch; padded ones as they are."""
        if self.first is None:
            return self
        return replace(self, tokens=expand_(self.tokens, (batch, *self.tokens.shape[1:])))

    def after(self, at: Value, from_end: bool) -> Value:
        """Positions, counted from a batch's first token, or from its end."""
        origin = self.behind if from_end else self.first
        if origin is None and from_end:
            origin = reshape(apply(Shape((self.length,))), (1, 1, 1, 1))
        return at if origin is None else map_("sub", at, _of_rank(origin, at.type.rank))


def expand(layer: Layer[AttentionAttrs]) -> tuple[Value, ...]:
    """`Contract` of queries and keys, summed in float32; masks are selections, causal ones by `Iota`; then
    exp(score − max) / sum in float32, rounded to the type of the values, and `Contract` with the values."""
    _check_settings(layer)
    (q, q_rules), (k, k_rules), (v, _) = (_tokens(layer, i) for i in range(3))
    batch = _batch(layer, q, k)
    q, k, v = (x.for_each(batch) for x in (q, k, v))
    rules, group = _grouped(layer, q.tokens.shape[1], k.tokens.shape[1])
    heads, n = ((k.tokens.shape[1],), "n") if group == 1 else ((k.tokens.shape[1], group), "ng")
    queries = reshape(q.tokens, (batch, *heads, *q.tokens.shape[2:]))
    scores = contract(f"b{n}sh,bnth->b{n}st", queries, k.tokens, DataType.FLOAT)
    seen, mask = _seen(layer, q, k, scores.type.rank), _mask(layer, heads)
    if mask is not None and mask.dtype is DataType.BOOL:
        seen.append(mask)
    elif mask is not None:
        scores = map_("add", scores, cast(mask, DataType.FLOAT))
        seen.append(map_("ne", mask, scalar(-math.inf, mask)))
    sure = layer.attrs.kind is not C.LOWER_RIGHT and len(seen) == (layer.attrs.kind is not C.NONE)
    weights = _normalised(layer, _hidden(layer, scores, seen), sure and mask is None)
    weights = cast(_quantised(layer, weights), v.tokens.dtype)
    hides = bool(seen) or mask is not None
    y = reshape(contract(f"b{n}st,bnth->b{n}sh", weights, v.tokens, hides=hides), q.tokens.shape)
    if q.first is not None:  # the rows of other batches' queries are 0
        y = transpose(reshape(reduce_("sum", y, (0,)), y.shape[1:]), (1, 0, 2))
    return (checked(y, (*rules, *q_rules, *k_rules)),)


def _tokens(layer: Layer[AttentionAttrs], i: int) -> tuple[_Tokens, Requirements]:
    """Operand `i` with its lengths, and the requirements on these."""
    x, at = layer.input(i), KEY_LENGTHS if i else QUERY_LENGTHS
    form, lengths = layer.attrs.key_value_form if i else layer.attrs.query_form, layer.optional(at)
    if lengths is None:
        return _Tokens(x), ()
    if form is PADDED:
        lengths, rules = lengths_within(layer.name, lengths, x.shape[2], "keys", "the key's axis 2")
        return _Tokens(x, behind=_column(lengths, 0, lengths.shape[0])), rules
    lengths, rules = ends_within(layer.name, lengths, x.shape[0], OPERANDS[at].name)
    count = add(lengths.shape[0], -1)
    one = reshape(transpose(x, (1, 0, 2)), (1, x.shape[1], x.shape[0], x.shape[2]))
    return _Tokens(one, _column(lengths, 0, count), _column(lengths, 1, count)), rules


def _column(lengths: Value, start: Dim, count: Dim) -> Value:
    """`count` of the lengths as (B, 1, 1, 1)."""
    return cast(reshape(slice_(lengths, (start,), (count,), (1,)), (count, 1, 1, 1)), DataType.INT64)


def _batch(layer: Layer[AttentionAttrs], q: _Tokens, k: _Tokens) -> Dim:
    """The number of batches, from padded tokens or from lengths."""
    for x in (q, k):
        if x.first is None:
            return x.tokens.shape[0]
    return add(layer.input(QUERY_LENGTHS).shape[0], -1)


def _of_rank(x: Value, rank: int) -> Value:
    """(B, 1, 1, 1) with one more axis of size 1, if heads are in groups."""
    return reshape(x, (x.shape[0],) + (1,) * (rank - 1))


def _seen(layer: Layer[AttentionAttrs], q: _Tokens, k: _Tokens, rank: int) -> list[Value]:
    """The conditions for a query to see a key; they broadcast to the scores."""
    row, column = _positions(q.length, rank, rank - 2), _positions(k.length, rank, rank - 1)
    kind, masks = layer.attrs.kind, list[Value]()
    for x, at in ((q, row), (k, column)):
        if x.first is not None:
            masks.append(map_("le", _of_rank(x.first, rank), at))
        if x.behind is not None:
            masks.append(map_("lt", at, _of_rank(x.behind, rank)))
    if kind is C.NONE:
        return masks
    if masks:
        row, column = q.after(row, kind is C.LOWER_RIGHT), k.after(column, kind is C.LOWER_RIGHT)
    elif kind is C.LOWER_RIGHT and q.length != k.length:
        # Both positions start at the other's length: the difference of the lengths may be negative.
        row = _positions(q.length, rank, rank - 2, k.length)
        column = _positions(k.length, rank, rank - 1, q.length)
    return [*masks, map_("le", column, row)]


def _positions(size: Dim, rank: int, axis: int, start: Dim = 0) -> Value:
    """`start`, `start` + 1, … along one axis."""
    shape: list[Dim] = [1] * rank
    shape[axis] = add(size, start)
    starts = [start if k == axis else 0 for k in range(rank)]
    sizes = [size if k == axis else 1 for k in range(rank)]
    return slice_(iota(tuple(shape), axis, DataType.INT64), starts, sizes, [1] * rank)


def _hidden(layer: Layer[AttentionAttrs], scores: Value, seen: list[Value]) -> Value:
    """The scores, without weight for keys that a query may not see."""
    nothing = scalar(-math.inf if layer.attrs.norm_op is N.SOFTMAX else 0.0, scores)
    for condition in seen:
        scores = map_("select", condition, scores, nothing)
    return scores


def _normalised(layer: Layer[AttentionAttrs], scores: Value, sure: bool) -> Value:
    """Softmax over the keys. `sure`: every query sees a key. Queries that see none get zeros, not the NaN of
    ∞ − ∞ and 0 / 0."""
    if layer.attrs.norm_op is N.NONE:
        return scores
    axis = (scores.type.rank - 1,)
    most = reduce_("max", scores, axis)
    if not sure:
        most = map_("max", most, scalar(LEAST, most))
    powers = map_("exp", map_("sub", scores, most))
    total = reduce_("sum", powers, axis)
    if not sure:  # if a key is seen, the largest score has added 1
        total = map_("max", total, scalar(1.0, total))
    return map_("div", powers, total)


def _quantised(layer: Layer[AttentionAttrs], weights: Value) -> Value:
    """Weights, rounded to multiples of the scale that the narrow type represents."""
    scale, to = layer.optional(SCALE), layer.attrs.normalization_quantize_to_type
    if scale is None:
        return weights
    step = cast(reshape(scale, (1,) * weights.type.rank), DataType.FLOAT)
    low, high = (scalar(x, weights) for x in STEPS[to])
    steps = map_("div", weights, step)
    kept = map_("min", map_("max", map_("round" if to is DataType.INT8 else "to_fp8", steps), low), high)
    return map_("mul", kept, step)


def _mask(layer: Layer[AttentionAttrs], heads: tuple[Dim, ...]) -> Value | None:
    """The mask with the scores' axes."""
    mask = layer.optional(MASK)
    if mask is None:
        return None
    q = layer.input(0)
    if mask.dtype not in (DataType.BOOL, q.dtype):
        got = f"a mask of {short_name(mask.dtype)} for queries of {short_name(q.dtype)}"
        raise DTypeError("AR203", layer.name, got, "bool, or the queries' type", "cast it")
    split = (1,) * len(heads) if mask.shape[1] == 1 else heads
    return reshape(mask, (mask.shape[0], *split, *mask.shape[2:]))


# ---- checks -------------------------------------------------------------------------------------


def _grouped(layer: Layer[AttentionAttrs], many: Dim, few: Dim) -> tuple[Requirements, int]:
    """The requirements on the numbers of heads, and the number of query heads that share a key head."""
    text, do = f"{many} heads of queries, {few} of keys", "repeat heads, or choose a divisor"
    if isinstance(many, int) and isinstance(few, int) and few:
        need(layer.name, mod(many, few), Relation.EQ, 0, "AR118", text, "a multiple", do)
        return (), many // few
    wanted = "equal numbers, as one is dynamic"
    return need(layer.name, many, Relation.EQ, few, "AR123", text, wanted, "make the sizes equal"), 1


def _check_settings(layer: Layer[AttentionAttrs]) -> None:
    """Raises errors for attributes and operands that exclude or require one another."""
    attrs, to = layer.attrs, layer.attrs.normalization_quantize_to_type
    mask, scale, lengths = (layer.optional(i) is not None for i in (MASK, SCALE, QUERY_LENGTHS))
    if mask and attrs.kind is not C.NONE:
        got, do = f"a mask and {attrs.kind.name}", "set causal_kind to NONE, or make it part of the mask"
        raise ArgumentError("AR310", layer.name, got, "a mask or a causal kind", do)
    if mask and attrs.query_form is PACKED:
        raise ArgumentError("AR310", layer.name, "a mask for packed queries", "padded queries", "remove it")
    if lengths and attrs.query_form is PADDED:
        got, do = "query_lengths of padded queries", "set query_form to PACKED_NHD, or remove them"
        raise ArgumentError("AR310", layer.name, got, "packed queries", do)
    for i, form in ((QUERY_LENGTHS, attrs.query_form), (KEY_LENGTHS, attrs.key_value_form)):
        if form is PACKED and layer.optional(i) is None:
            name = OPERANDS[i].name
            got, do = f"PACKED_NHD without {name}", f"set {name} to the start of each batch, and the end"
            raise GraphError("AR406", layer.name, got, "a tensor of B + 1 numbers", do)
    if to is not DataType.FLOAT and to not in STEPS:
        got = f"normalization_quantize_to_type {to.name}"
        raise ArgumentError("AR304", layer.name, got, "INT8 or FP8", "choose one of them")
    if scale != (to in STEPS):
        got = "normalization_quantize_scale without" if scale else "no normalization_quantize_scale for"
        got, do = f"{got} normalization_quantize_to_type", "set both, or none"
        raise ArgumentError("AR306", layer.name, got, "both", do)


def ref(attrs: AttentionAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Batch by batch and row by row, with only the tokens of each batch."""
    padded: list[Any] = [None if x is ABSENT else x.astype(np.float64) for x in arrays]
    padded += [None] * (7 - len(arrays))
    q, k, v, mask, step, q_lengths, k_lengths = padded
    y = np.zeros(q.shape)
    for b in range(len(q) if q_lengths is None else len(q_lengths) - 1):
        rows, out = (_part(x, attrs.query_form, q_lengths, b) for x in (q, y))
        keys, values = (_part(x, attrs.key_value_form, k_lengths, b) for x in (k, v))
        added = np.zeros((len(rows), rows.shape[1], keys.shape[1]))
        seen = np.ones(added.shape, np.bool_)
        if mask is not None:
            own = np.broadcast_to(mask[b % len(mask)], (*added.shape[:2], mask.shape[3]))
            own = own[..., : keys.shape[1]]
            added, seen = (added, own > 0) if arrays[MASK].dtype == bool else (own, own != -np.inf)
        if attrs.kind is not C.NONE:
            beyond = keys.shape[1] - rows.shape[1] if attrs.kind is C.LOWER_RIGHT else 0
            seen = seen & (np.tri(added.shape[1], added.shape[2], beyond) > 0)
        for n, i in np.ndindex(*added.shape[:2]):
            of, see = n * len(keys) // len(rows), seen[n, i]
            weights = np.zeros(len(see))
            weights[see] = _weights(attrs, keys[of][see] @ rows[n, i] + added[n, i][see], step)
            out[n, i] = weights[see] @ values[of][see]
    return (y,)


def _part(x: Any, form: AttentionIOForm, lengths: Any, b: int) -> Any:  # arrays of float64
    """A view of the tokens of one batch, (heads, S, H)."""
    if form is PACKED:
        return x[int(lengths[b]) : int(lengths[b + 1])].transpose(1, 0, 2)
    return x[b] if lengths is None else x[b][:, : int(lengths[b])]


def _weights(attrs: AttentionAttrs, row: Any, step: Any) -> Any:  # arrays of float64
    """The weights of the keys that a query sees, from their scores."""
    weights = row
    if attrs.norm_op is N.SOFTMAX:
        powers = np.exp(row - row.max(initial=-np.inf))  # no score if a query sees no key
        weights = powers / powers.sum()
    to = attrs.normalization_quantize_to_type
    if step is None:
        return weights
    steps = np.clip(weights / step, *STEPS[to])
    return step * (
        np.rint(steps) if to is DataType.INT8 else steps.astype(numpy_dtype(to)).astype(np.float64)
    )


def cases() -> tuple[Case[AttentionAttrs], ...]:
    """Masks, causal kinds, groups, quantised weights, lengths, both forms; queries that see no key."""
    a, f, flag = AttentionAttrs, DataType.FLOAT, DataType.BOOL
    q, k = (2, 4, 5, 8), (2, 4, 7, 8)
    some = np.arange(2 * 4 * 5 * 7).reshape(2, 4, 5, 7) % 3 != 1
    some[1, 2, 3] = some[0, 0] = False
    hidden = np.where(some[:1, :1], 0.5, -np.inf)
    hidden[..., 4, :] = 1.0
    numbers = (*(np.arange(n).reshape(s) % 5 - 2.0 for n, s in ((320, q), (448, k), (448, k))),)
    endless = numbers[1] + np.where(np.arange(7) < 5, 0.0, np.inf)[:, None]  # at keys that no query may see
    unknown = np.where(np.isfinite(endless), numbers[2], np.nan)
    early = some & (np.arange(7) < 5)
    hidden[..., 5:] = -np.inf
    none, upper, lower = a(N.NONE, C.UPPER_LEFT), a(causal=True), a(causal_kind=C.LOWER_RIGHT)
    int8, fp8 = (a(N.NONE, normalization_quantize_to_type=t) for t in (DataType.INT8, DataType.FP8))
    return (
        _case(a(), q, k),
        _case(a(), q, (2, 2, 7, 8)),
        _case(a(), (2, 12, 1, 64), (2, 3, 40, 64)),
        _case(a(), q, k, (2, 4, 5, 7), kinds=(f, f, f, flag), data=(None, None, None, some)),
        _case(a(), q, (2, 2, 7, 8), (1, 4, 5, 7), kinds=(f, f, f, flag)),
        _case(a(), q, k, (1, 1, 5, 7), data=(None, None, None, hidden)),
        _case(a(causal=True), q, k),
        _case(a(causal_kind=C.UPPER_LEFT), (1, 2, 6, 4), (1, 2, 6, 4)),
        _case(lower, q, (2, 2, 7, 8)),
        _case(lower, (1, 2, 7, 8), (1, 2, 5, 8)),
        _case(a(causal_kind=C.NONE), q, (2, 4, 0, 8)),
        _case(none, q, k),
        _case(none, q, k, data=(numbers[0], endless, numbers[2])),
        _case(a(causal_kind=C.UPPER_LEFT), q, k, data=(numbers[0], endless, numbers[2])),
        *(_case(n, q, k, data=(numbers[0], endless, unknown)) for n in (none, upper)),
        *(_case(a(o), q, k, (1, 1, 5, 7), data=(numbers[0], unknown, unknown, hidden))
          for o in (N.SOFTMAX, N.NONE)),
        _case(a(), q, k, (2, 4, 5, 7), kinds=(f, f, f, flag), data=(numbers[0], unknown, endless, early)),
        _case(a(), q, k, None, None, None, (2,),
              data=(numbers[0], endless, unknown, *[None] * 3, np.array([4, 5]))),
        _case(a(N.NONE), q, k, (2, 1, 5, 7), kinds=(f, f, f, flag)),
        _case(int8, q, k, None, (), data=(*numbers, None, np.array(0.5))),
        _case(fp8, q, k, None, (1,), data=(*numbers, None, np.array([0.25]))),
        _case(lower, q, k, None, None, None, (2,), data=(*[None] * 6, np.array([4, 7]))),
        _case(replace(lower, query_form=PACKED, key_value_form=PACKED), (9, 4, 8), (12, 2, 8), None, None,
              (4,), (4,), data=(*[None] * 5, np.array([0, 3, 3, 9]), np.array([0, 5, 6, 12]))),
        _case(replace(none, query_form=PACKED), (9, 2, 8), (3, 2, 7, 8), None, None, (4,), (3,),
              data=(*[None] * 5, np.array([0, 3, 3, 9]), np.array([7, 5, 1]))),
        _case(a(key_value_form=PACKED), (2, 2, 5, 8), (9, 2, 8), None, None, None, (3,),
              data=(*[None] * 6, np.array([0, 5, 9]))),
        _case(a(decomposable=True), q, k, (2, 4, 5, 7), kinds=(DataType.HALF,)),
        _case(a(), q, k, (2, 4, 5, 7), kinds=(DataType.BF16,)),
    )  # fmt: skip


def _case(
    attrs: AttentionAttrs,
    query: tuple[int, ...],
    key: tuple[int, ...],
    *optional: tuple[int, ...] | None,
    kinds: tuple[DataType, ...] = (DataType.FLOAT,),
    data: tuple[Array | None, ...] = (),
) -> Case[AttentionAttrs]:
    """Heads stay static. Half types round each weight, which a value of up to 2 multiplies."""
    shapes = (query, key, key, *optional)
    types = [*kinds, *[kinds[-1]] * (min(len(shapes), 5) - len(kinds)), DataType.INT32, DataType.INT32]
    unit = {DataType.HALF: 2.0**-10, DataType.BF16: 2.0**-7}.get(kinds[0], 0.0)
    padded = (0, 2, 3) if len(query) == 4 else (0,)
    own = (0, 2, 3) if len(key) == 4 else (0,)
    masks = [tuple(k for k, n in enumerate(s) if k > 1 or (k == 0 and n > 1)) if s else () for s in optional]
    return Case(
        attrs,
        shapes,
        tuple(types),
        data=data,
        dynamic=(padded, own, own, *masks[:1], *[()] * len(masks[1:])),
        rtol=1e-5,
        atol=max(2e-5, unit),
    )


def mistakes() -> tuple[Mistake[AttentionAttrs], ...]:
    """Sizes, heads, masks, lengths, and settings that exclude or require one another."""
    a, f, whole = AttentionAttrs, DataType.FLOAT, DataType.INT32
    q, k, h = (2, 4, 5, 8), (2, 4, 7, 8), DataType.HALF
    good, masked = (q, k, k), (q, k, k, (2, 4, 5, 7))
    lengths = (f,) * 5 + (whole,) * 2
    packed, both = a(query_form=PACKED), a(query_form=PACKED, key_value_form=PACKED)
    flat = ((9, 4, 8), (9, 4, 8), (9, 4, 8))
    int8 = a(normalization_quantize_to_type=DataType.INT8)
    return (
        Mistake("AR123", "queries whose rank is not 4", a(), ((4, 5, 8), k, k)),
        Mistake("AR123", "keys of a different batch", a(), (q, (3, 4, 7, 8), (3, 4, 7, 8))),
        Mistake("AR123", "keys of a different head size", a(), (q, (2, 4, 7, 4), (2, 4, 7, 4))),
        Mistake("AR123", "values of a different shape than the keys", a(), (q, k, (2, 4, 6, 8))),
        Mistake("AR118", "query heads that are no multiple of the key heads", a(), (q, *[(2, 3, 7, 8)] * 2)),
        Mistake("AR123", "a mask of the wrong shape", a(), (*good, (2, 4, 7, 5))),
        Mistake("AR123", "a mask whose rank is not 4", a(), (*good, (5, 7))),
        Mistake("AR203", "a mask of a different float type", a(), masked, (f, f, f, h)),
        Mistake("AR310", "a mask and a causal kind together", a(causal=True), masked),
        Mistake("AR310", "a mask for packed queries", packed, ((9, 4, 8), k, k, (2, 4, 5, 7), None, (3,)),
                lengths),
        Mistake("AR310", "query_lengths of padded queries", a(), (*good, None, None, (2,)), lengths),
        Mistake("AR406", "packed queries without query_lengths", packed, ((9, 4, 8), k, k)),
        Mistake("AR406", "packed keys without key_value_lengths", both, (*flat, None, None, (3,)), lengths),
        Mistake("AR123", "lengths of rank 2", a(), (*good, None, None, None, (2, 1)), lengths),
        Mistake("AR123", "more or fewer lengths than batches", a(), (*good, None, None, None, (3,)), lengths),
        Mistake("AR123", "one length for each batch of packed keys", both, (*flat, None, None, (3,), (2,)),
                lengths),
        Mistake("AR306", "a type to quantise to, without a scale", int8, good),
        Mistake("AR306", "a scale, without a type to quantise to", a(), (*good, None, ())),
        Mistake("AR304", "quantising to a type other than INT8 and FP8",
                a(normalization_quantize_to_type=h), (*good, None, ())),
        Mistake("AR123", "a scale of more than one element", int8, (*good, None, (2,))),
        Mistake("AR202", "a type that Attention does not take", a(), good, (whole,)),
        Mistake("AR203", "keys of a different type", a(), good, (f, h, h)),
        Mistake("AR123", "keys of a different batch at run time", a(), (q, (3, 4, 7, 8), (3, 4, 7, 8)),
                dynamic=True),
        Mistake("AR123", "a mask that does not fit at run time", a(), (*good, (2, 4, 7, 5)), dynamic=True),
    )  # fmt: skip


PARAMS = ("query", "key", "value", "norm_op")
OPS = (
    Op(
        layer=LayerType.ATTENTION_INPUT,
        cls="IAttentionInputLayer",
        methods=(
            Method(
                "add_attention",
                (*PARAMS, "causal"),
                example="softmax = trt.AttentionNormalizationOp.SOFTMAX\n"
                "layer = network.add_attention(x, x, x, softmax, False)\n"
                "layer.decomposable = True",
            ),
            Method(
                "add_attention_v2",
                (*PARAMS, "causal_kind"),
                example="softmax = trt.AttentionNormalizationOp.SOFTMAX\n"
                "layer = network.add_attention_v2(x, x, x, softmax, trt.CausalMaskKind.LOWER_RIGHT)",
            ),
        ),
        inputs=OPERANDS,
        attrs=AttentionAttrs,
        expand=expand,
        ref=ref,
        doc="Multiplies queries with keys, normalises these scores over the keys to weights, and returns the "
        "weighted sums of the values. Scores are not scaled: scale the queries. A float mask is added to the "
        "scores, and −∞ hides a key. A bool mask hides a key where it is False. A query that sees no key "
        "gets zeros. Without normalisation, the scores of hidden keys are 0. Hidden keys and values never "
        "affect the result, even if they are infinite or NaN; if anything may be hidden, neither do values "
        "of weight 0. If there are more query heads than key heads, neighbouring query heads share a key "
        "head. Everything between the two products is computed in float32; weights are then rounded to the "
        "type of the values. Lengths of packed tokens must ascend, from 0 to at most the number of tokens; "
        "otherwise AR133 is raised before anything is computed from them.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Attention",),
        source="operator page Attention; from 10.14, packed forms from 11.1",
        scope=Scope(
            "IAttention",
            "IAttentionBoundaryLayer",
            "attention",
            LayerType.ATTENTION_OUTPUT,
            "IAttentionOutputLayer",
        ),
    ),
)
