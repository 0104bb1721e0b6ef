"""KVCacheUpdate: writes new keys or values into a cache, at a start position for each batch.

add_kv_cache_update(cache, update, write_indices, KVCacheMode.LINEAR)      # cache: (B, heads, S_max, H)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, add
from anyrt.core.enums import AttentionIOForm, DataType, KVCacheMode, LayerType
from anyrt.core.errors import ArgumentError, GraphError, ShapeError
from anyrt.core.requirement import FINE, Assertion, Relation
from anyrt.ir.graph import Value, apply
from anyrt.ir.symbolic import known
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._lengths import ends_within
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, gather, iota, map_, reduce_, reshape, scalar, slice_, transpose
from anyrt.prims.build import expand as expand_
from anyrt.prims.const import Shape

PADDED, PACKED = AttentionIOForm.PADDED_BHND, AttentionIOForm.PACKED_NHD
LENGTHS = 3


@dataclass(frozen=True, slots=True)
class KVCacheUpdateAttrs(Attrs):
    """Attributes of KVCacheUpdate."""

    cache_mode: KVCacheMode = attr(Kind.ENUM, "LINEAR: consecutive positions", enum=KVCacheMode)
    update_form: AttentionIOForm = attr(
        Kind.ENUM,
        "PADDED_BHND: an update (batch, heads, tokens, size); PACKED_NHD: (tokens, heads, size)",
        PADDED,
        enum=AttentionIOForm,
    )


def expand(layer: Layer[KVCacheUpdateAttrs]) -> tuple[Value, ...]:
    """Each position of the cache selects the written value, from a `Gather`, or its old value. So nothing is
    written outside the cache, and the result may share its memory. Indices that only an inference knows are
    checked before anything is written."""
    cache, rules = layer.input(0), _check(layer)
    batch, heads, most, size = cache.shape
    assert isinstance(most, int), f"{layer.name} was checked"
    position = iota((1, 1, most, 1), 2, DataType.INT64)
    (tokens, first, count), more = _update(layer, batch)
    at = map_("sub", position, _start(layer, batch, most, count))
    inside = map_("and", map_("le", scalar(0, at), at), map_("lt", at, count))
    at = at if first is None else map_("add", at, first)
    source = expand_(tokens, (batch, heads, tokens.shape[2], size))
    written = gather(source, expand_(at, (batch, heads, most, size)), 2)
    return (checked(map_("select", inside, written, cache), rules + more),)


def _update(
    layer: Layer[KVCacheUpdateAttrs], batch: Dim
) -> tuple[tuple[Value, Value | None, Value], Requirements]:
    """The tokens with the axes of the cache; the first token of each batch, or None for 0; the number of
    tokens of each batch; and the requirements."""
    update = layer.input(1)
    if layer.attrs.update_form is PADDED:
        return (update, None, reshape(apply(Shape((update.shape[2],))), (1, 1, 1, 1))), ()
    lengths, rules = ends_within(layer.name, layer.input(LENGTHS), update.shape[0], "update_lengths")
    first, behind = _column(lengths, 0, batch), _column(lengths, 1, batch)
    tokens = transpose(update, (1, 0, 2))
    return (reshape(tokens, (1, *tokens.shape)), first, map_("sub", behind, first)), rules


def _start(layer: Layer[KVCacheUpdateAttrs], batch: Dim, most: int, count: Value) -> Value:
    """The start position of each batch, (B, 1, 1, 1), checked to fit if the batch has tokens."""
    start = _column(layer.input(2), 0, batch)
    if known(layer.input(2)) is not None:  # checked by `_ends`
        return start
    room = map_("sub", scalar(most, count), count)
    outside = map_("or", map_("lt", start, scalar(0, start)), map_("lt", room, start))
    wrong = map_("and", map_("lt", scalar(0, count), count), outside)
    seen = map_("max", start, scalar(FINE + 1, start))
    number = reduce_("max", map_("select", wrong, seen, scalar(FINE, start)), (0,))
    tokens = layer.input(1).shape[2] if layer.attrs.update_form is PADDED else None
    many = f"{tokens} " if isinstance(tokens, int) else ""
    got, do = f"{many}tokens from position {{}} on", f"write inside the {most} positions of the cache"
    rule = Assertion("AR131", layer.name, got, f"all of them at 0 to {most - 1}", do)
    return apply(Asserted(rule), start, reshape(number, ()))


def _column(numbers: Value, start: Dim, count: Dim) -> Value:
    """`count` numbers from `start` on, as (B, 1, 1, 1)."""
    return cast(reshape(slice_(numbers, (start,), (count,), (1,)), (count, 1, 1, 1)), DataType.INT64)


def _check(layer: Layer[KVCacheUpdateAttrs]) -> Requirements:
    """The requirements: a static number of positions, and space for the update."""
    cache, is_packed = layer.input(0), layer.attrs.update_form is PACKED
    most = cache.shape[2]
    if not isinstance(most, int):
        got, do = f"a cache of shape {show(cache.shape)}", "fix the number of positions in the input"
        raise ShapeError("AR117", layer.name, got, "a static number of positions", do)
    if is_packed and layer.optional(LENGTHS) is None:
        do = "set update_lengths to the first token of each batch, and the end"
        raise GraphError("AR406", layer.name, "PACKED_NHD without update_lengths", "B + 1 numbers", do)
    return () if is_packed else _check_ends(layer, most)


def _check_ends(layer: Layer[KVCacheUpdateAttrs], most: int) -> Requirements:
    """At most as many tokens as positions; known indices leave space for them."""
    if layer.optional(LENGTHS) is not None:
        got, do = "update_lengths of a padded update", "set update_form to PACKED_NHD, or omit them"
        raise ArgumentError("AR310", layer.name, got, "a packed update", do)
    tokens = layer.input(1).shape[2]
    rules = need(
        layer.name, tokens, Relation.LE, most, "AR131", f"{tokens} tokens", f"at most {most}",
        f"write at most {most} tokens at once",
    )  # fmt: skip
    return tuple(rule for group in (rules, *_ends(layer, tokens, most)) for rule in group)


def _ends(layer: Layer[KVCacheUpdateAttrs], tokens: Dim, most: int) -> Iterator[Requirements]:
    indices = known(layer.input(2))
    for index in [] if indices is None else indices.reshape(-1).tolist():
        end, do = add(index, tokens), f"write inside the {most} positions of the cache"
        got = f"{tokens} tokens from position {index} on"
        yield need(layer.name, 0, Relation.LE, index, "AR131", got, "a position of 0 or more", do)
        yield need(layer.name, end, Relation.LE, most, "AR131", got, f"an end at {most} or before", do)


def ref(attrs: KVCacheUpdateAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Token by token; tokens outside the cache are skipped."""
    cache, update, indices = arrays[0].astype(np.float64), arrays[1].astype(np.float64), arrays[2]
    y = cache.copy()
    for b in range(len(cache)):
        new = update[b % max(len(update), 1)]
        if attrs.update_form is PACKED and arrays[LENGTHS] is not ABSENT:
            begin, end = (int(n) for n in arrays[LENGTHS][b : b + 2])
            new = update[begin:end].transpose(1, 0, 2)
        for t in range(new.shape[1]):
            if 0 <= int(indices[b]) + t < cache.shape[2]:
                y[b, :, int(indices[b]) + t] = new[:, t]
    return (y,)


def cases() -> tuple[Case[KVCacheUpdateAttrs], ...]:
    """Both forms, index types, all types; the last positions, and batches without tokens."""
    k, f, i32, i64 = KVCacheUpdateAttrs, DataType.FLOAT, DataType.INT32, DataType.INT64
    cache, update, linear = (3, 2, 9, 4), (3, 2, 2, 4), KVCacheMode.LINEAR
    own = ((0, 1, 3), (0, 1, 2, 3), (0,))
    packed = k(linear, PACKED)
    return (
        Case(k(linear), ((2, 1, 4, 3), (2, 1, 2, 3), (2,)), (f, f, i32), (None, None, np.array([2, 0])), own),
        Case(k(linear), (cache, update, (3,)), (f, f, i32), (None, None, np.array([0, 3, 7])), own),
        Case(k(linear), (cache, update, (3,)), (f, f, i64), (None, None, np.array([7, 1, 0])), own),
        Case(k(linear), ((2, 4, 40, 64), (2, 4, 1, 64), (2,)), (f, f, i32), (None, None, np.array([39, 5])),
             own),
        Case(k(linear), ((0, 2, 9, 4), (0, 2, 9, 4), (0,)), (f, f, i32), dynamic=own),
        Case(packed, (cache, (5, 2, 4), (3,), (4,)), (f, f, i32, i32),
             (None, None, np.array([6, -1, 7]), np.array([0, 3, 3, 5])), ((0, 1, 3), (0, 1, 2), (0,), (0,))),
        *(
            Case(k(linear), (cache, update, (3,)), (t, t, i32), (None, None, np.array([1, 0, 7])), own)
            for t in (DataType.HALF, DataType.BF16)
        ),
    )  # fmt: skip


def mistakes() -> tuple[Mistake[KVCacheUpdateAttrs], ...]:
    """Shapes, too many tokens, lengths, types."""
    k, f, h, i32 = KVCacheUpdateAttrs, DataType.FLOAT, DataType.HALF, DataType.INT32
    cache, update, types = (3, 2, 9, 4), (3, 2, 2, 4), (f, f, i32, i32)
    a, packed = k(KVCacheMode.LINEAR), k(KVCacheMode.LINEAR, PACKED)
    return (
        Mistake("AR123", "a cache of a rank other than 4", a, ((2, 9, 4), update, (3,)), types),
        Mistake("AR123", "an update of a different head size", a, (cache, (3, 2, 2, 5), (3,)), types),
        Mistake("AR123", "an update of a different rank", a, (cache, (2, 2, 4), (3,)), types),
        Mistake("AR123", "more or fewer write_indices than batches", a, (cache, update, (2,)), types),
        Mistake("AR123", "write_indices of rank 2", a, (cache, update, (3, 1)), types),
        Mistake("AR131", "more tokens than the cache has positions", a, (cache, (3, 2, 10, 4), (3,)), types),
        Mistake("AR406", "a packed update without update_lengths", packed, (cache, (5, 2, 4), (3,)), types),
        Mistake("AR310", "update_lengths of a padded update", a, (cache, update, (3,), (4,)), types),
        Mistake("AR123", "the wrong number of update_lengths", packed, (cache, (5, 2, 4), (3,), (3,)), types),
        Mistake("AR202", "write_indices that are not integers", a, (cache, update, (3,)), (f, f, f)),
        Mistake("AR202", "a type that KVCacheUpdate does not support", a, (cache, update, (3,)), (i32,)),
        Mistake("AR203", "update and cache of different types", a, (cache, update, (3,)), (f, h, i32)),
        Mistake("AR117", "a cache with a dynamic number of positions", a, (cache, update, (3,)), types,
                dynamic=True),
    )  # fmt: skip


def _update_axes(layer: Layer[KVCacheUpdateAttrs]) -> str:
    is_packed = layer.attrs.update_form is PACKED
    return "tokens heads head_size" if is_packed else "batch heads tokens head_size"


OPERANDS = (
    Input("cache", FLOATS, axes="batch heads positions head_size"),
    Input("update", FLOATS, same_as=0, axes=_update_axes),
    Input("write_indices", INTS, axes="batch"),
    Input(
        "update_lengths",
        frozenset({DataType.INT32}),
        required=False,
        is_property=True,
        axes=lambda layer: "batch+1" if layer.attrs.update_form is PACKED else None,
    ),
)
OPS = (
    Op(
        layer=LayerType.KV_CACHE_UPDATE,
        cls="IKVCacheUpdateLayer",
        methods=(
            Method(
                "add_kv_cache_update",
                ("cache", "update", "write_indices", "cache_mode"),
                example="linear = trt.KVCacheMode.LINEAR\n"
                "layer = network.add_kv_cache_update(cache, x, write_indices, linear)\n"
                "network.mark_output(layer.get_output(0))",
            ),
        ),
        inputs=OPERANDS,
        attrs=KVCacheUpdateAttrs,
        expand=expand,
        ref=ref,
        doc="Writes token t of each batch to position write_indices + t of the cache. The cache is an input "
        "of the network with a static number of positions. The output is an output of the network, which is "
        "bound to the cache's memory. Other layers read a copy of the cache from before the inference. All "
        "tokens must fit into the cache: the builder checks indices that it knows, and the inference checks "
        "the others before it writes anything (AR131). No other positions are written.",
        cases=cases,
        mistakes=mistakes,
        source="operator page KVCacheUpdate; from 10.15, packed form from 11.1",
        shares=((0, 0),),
    ),
)
