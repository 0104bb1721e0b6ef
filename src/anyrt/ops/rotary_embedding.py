"""RotaryEmbedding: rotates pairs of elements of each head by an angle that depends on the position.

add_rotary_embedding(x, cos, sin, interleaved=False, rotary_embedding_dim=0)      # x: (B, heads, S, H)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, add, floordiv, mod, mul
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ir.symbolic import known
from anyrt.ops._check import Requirements, checked, need
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS
from anyrt.prims.build import cast, concat, const, gather, map_, reshape, slice_
from anyrt.prims.build import expand as expand_


@dataclass(frozen=True, slots=True)
class RotaryEmbeddingAttrs(Attrs):
    """Attributes of RotaryEmbedding."""

    interleaved: bool = attr(
        Kind.BOOL, "if True, elements 2i and 2i + 1 form a pair; else i and i + half of the rotated part"
    )
    rotary_embedding_dim: int = attr(
        Kind.INT, "even number of elements to rotate, from the start of each head; 0: all"
    )


def expand(layer: Layer[RotaryEmbeddingAttrs]) -> tuple[Value, ...]:
    """x · cos ± partner · sin in float32. The partner is the other element of a pair, read by a reversed
    view; its sign is negative for the first element. Angles of position ids are a `Gather`."""
    x, inner = layer.input(0), 4 if layer.attrs.interleaved else 3
    half, rules = _check(layer, x)
    batch, heads, length, size = x.shape
    turned = mul(half, 2)
    split: tuple[Dim, ...] = (half, 2) if layer.attrs.interleaved else (2, half)
    pairs = reshape(_columns(x, 0, turned), (batch, heads, length, *split))
    wide, flips = cast(pairs, DataType.FLOAT), [0] * 5
    flips[inner] = 1
    partner = slice_(wide, flips, wide.shape, [1 - 2 * f for f in flips])
    angle: tuple[Dim, ...] = (batch, 1, length, *((half, 1) if layer.attrs.interleaved else (1, half)))
    cos, sin = (cast(reshape(_angles(layer, layer.input(i)), angle), DataType.FLOAT) for i in (1, 2))
    sign = const(np.array([-1.0, 1.0]).reshape([2 if k == inner else 1 for k in range(5)]), DataType.FLOAT)
    y = map_("fma", wide, cos, map_("mul", partner, map_("mul", sin, sign)))
    y = cast(reshape(y, (batch, heads, length, turned)), x.dtype)
    if size != turned:
        y = concat((y, _columns(x, turned, add(size, mul(turned, -1)))), 3)
    return (checked(y, rules),)


def _columns(x: Value, start: Dim, count: Dim) -> Value:
    """`count` elements of each head, from `start`."""
    return slice_(x, (0, 0, 0, start), (*x.shape[:3], count), (1, 1, 1, 1))


def _angles(layer: Layer[RotaryEmbeddingAttrs], cache: Value) -> Value:
    """The row of the cache for each position, (B, S, half): the cache itself, or gathered by position ids."""
    ids = layer.optional(3)
    if ids is None:
        return cache
    batch, length = layer.input(0).shape[0], layer.input(0).shape[2]
    rows = reshape(cache, (1, *cache.shape))
    at = expand_(reshape(ids, (*ids.shape, 1)), (batch, length, cache.shape[1]))
    return gather(expand_(rows, (batch, *cache.shape)), at, 1)


def _check(layer: Layer[RotaryEmbeddingAttrs], x: Value) -> tuple[Dim, Requirements]:
    """The number of pairs of each head, and the conditions on shapes."""
    dim, ids = layer.attrs.rotary_embedding_dim, layer.optional(3)
    if dim < 0 or dim % 2:
        got, do = f"rotary_embedding_dim {dim}", "use 0 to rotate the whole head"
        raise ArgumentError("AR304", layer.name, got, "an even number of 0 or more", do)
    size = dim or x.shape[3]
    got, do = f"heads of {x.shape[3]} elements, {size} of them rotated", "set rotary_embedding_dim"
    rules = need(layer.name, mod(size, 2), Relation.EQ, 0, "AR304", got, "an even number", do)
    rules += need(layer.name, size, Relation.LE, x.shape[3], "AR304", got, f"at most {x.shape[3]}", do)
    half = floordiv(size, 2)
    for i, name in ((1, "cos_cache"), (2, "sin_cache")):
        pairs = layer.input(i).shape[-1]
        got, do = f"{pairs} pairs in {name}", "use caches with one column per rotated pair"
        rules += need(layer.name, pairs, Relation.EQ, half, "AR123", got, f"{half}", do)
    if ids is not None:
        _check_ids(layer, ids, layer.input(1).shape[0])
    return half, rules


def _check_ids(layer: Layer[RotaryEmbeddingAttrs], ids: Value, rows: Dim) -> None:
    """Constant positions must lie inside the caches; others are clamped when they are read."""
    elements = known(ids)
    for position in () if elements is None else elements.flat:
        if isinstance(position, int) and isinstance(rows, int) and not 0 <= position < rows:
            got, do = f"position {position} in caches of {rows} rows", "use caches with more rows"
            raise ShapeError("AR114", layer.name, got, f"0 to {rows - 1}", do)


def ref(attrs: RotaryEmbeddingAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Pairs as complex numbers, multiplied by the complex numbers of their angles."""
    x, cos, sin = (a.astype(np.float64) for a in arrays[:3])
    half = (attrs.rotary_embedding_dim or x.shape[3]) // 2
    if len(arrays) > 3 and arrays[3] is not ABSENT:
        rows = np.clip(arrays[3].astype(np.int64), 0, len(cos) - 1)
        cos, sin = cos[rows], sin[rows]
    y = x.copy()
    first = slice(0, 2 * half, 2) if attrs.interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if attrs.interleaved else slice(half, 2 * half)
    product = (x[..., first] + 1j * x[..., second]) * (cos + 1j * sin)[:, None]
    y[..., first], y[..., second] = product.real, product.imag
    return (y,)


def cases() -> tuple[Case[RotaryEmbeddingAttrs], ...]:
    """Both kinds of pairs, whole and partial heads, position ids, all types."""
    r, f, ids = RotaryEmbeddingAttrs, DataType.FLOAT, DataType.INT64
    x, own, rows = (2, 3, 5, 8), (2, 5, 4), (9, 4)
    far = np.array([0, 8, 3, 3, -1, 9, 1 << 40, 7, -(1 << 40), 2])
    out = [
        Case(r(interleaved, 0), (x, own, own), dtypes=(f,), dynamic=((0, 1, 2), (0, 1), (0, 1)))
        for interleaved in (False, True)
    ]
    out += [
        Case(r(True, 4), (x, (9, 2), (9, 2), (2, 5)), (f, f, f, ids), data=(None, None, None, far)),
        Case(r(False, 6), (x, (2, 5, 3), (2, 5, 3)), dynamic=((0, 1, 2), (0, 1), (0, 1))),
        Case(r(False, 0), ((0, 3, 5, 8), (0, 5, 4), (0, 5, 4))),
    ]
    for t in (f, DataType.HALF, DataType.BF16):
        shapes = (x, rows, rows, (2, 5))
        out.append(Case(r(False, 0), shapes, (t, t, t, ids), data=(None, None, None, far), atol=4e-6))
    return tuple(out)


def mistakes() -> tuple[Mistake[RotaryEmbeddingAttrs], ...]:
    """Wrong rotary_embedding_dim, shapes of caches and positions, and types."""
    r, x, own, rows = RotaryEmbeddingAttrs, (2, 3, 5, 8), (2, 5, 4), (9, 4)
    f, h, ids = DataType.FLOAT, DataType.HALF, DataType.INT64
    whole, at = r(False, 0), (f, f, f, ids)
    three = (2, 5, 3)
    return (
        Mistake("AR304", "an odd number of elements to rotate", r(True, 3), (x, own, own)),
        Mistake("AR304", "a negative number of elements to rotate", r(True, -2), (x, own, own)),
        Mistake("AR304", "more elements to rotate than a head has", r(True, 10), (x, (2, 5, 5), (2, 5, 5))),
        Mistake("AR304", "heads of an odd size", whole, ((2, 3, 5, 7), three, three)),
        Mistake("AR123", "an input of a rank other than 4", whole, ((3, 5, 8), own, own)),
        Mistake("AR123", "caches with a wrong number of angles", whole, (x, three, three)),
        Mistake("AR123", "caches of different shapes", whole, (x, own, three)),
        Mistake("AR123", "caches of shape (rows, pairs) without position ids", whole, (x, rows, rows)),
        Mistake("AR123", "caches with a batch axis, and position ids", whole, (x, own, own, (2, 5)), at),
        Mistake("AR123", "position ids of a wrong shape", whole, (x, rows, rows, (2, 4)), at),
        Mistake("AR202", "position ids that are not int64", whole, (x, rows, rows, (2, 5)), (f, f, f, f)),
        Mistake("AR202", "an unsupported element type", whole, (x, own, own),
                (DataType.INT32,)),
        Mistake("AR203", "caches of a different type", whole, (x, own, own), (f, h, h)),
        Mistake("AR123", "caches of a wrong shape at run time", whole, (x, three, three), dynamic=True),
        Mistake("AR304", "an odd size at run time", whole, ((2, 3, 5, 7), three, three), dynamic=True),
        Mistake("AR114", "caches without rows", whole, (x, (0, 4), (0, 4), (2, 5)), at),
        Mistake("AR114", "caches without rows at run time", whole, (x, (0, 4), (0, 4), (2, 5)), at,
                dynamic=True),
    )  # fmt: skip


def _cache_axes(layer: Layer[RotaryEmbeddingAttrs]) -> str:
    return "batch positions pairs" if layer.optional(3) is None else "rows pairs"


OPS = (
    Op(
        layer=LayerType.ROTARY_EMBEDDING,
        cls="IRotaryEmbeddingLayer",
        methods=(
            Method(
                "add_rotary_embedding",
                ("input", "cos_cache", "sin_cache", "interleaved", "rotary_embedding_dim"),
                example="layer = network.add_rotary_embedding(x, cos_cache, sin_cache, False, 0)",
            ),
        ),
        inputs=(
            Input("input", FLOATS, axes="batch heads positions head_size"),
            Input("cos_cache", FLOATS, same_as=0, axes=_cache_axes),
            Input("sin_cache", FLOATS, same_as=0, axes=_cache_axes),
            Input("position_ids", frozenset({DataType.INT64}), required=False, axes="batch positions"),
        ),
        attrs=RotaryEmbeddingAttrs,
        expand=expand,
        ref=ref,
        doc="Rotates each pair: (a, b) becomes (a · cos − b · sin, a · sin + b · cos). The input is (batch, "
        "heads, positions, head size); elements beyond rotary_embedding_dim are copied. Without position "
        "ids, the caches are (batch, positions, pairs). With position ids of shape (batch, positions), the "
        "caches are (rows, pairs), and an id out of range reads the nearest row. The arithmetic is in "
        "float32.",
        cases=cases,
        mistakes=mistakes,
        onnx=("RotaryEmbedding",),
        source="operator page RotaryEmbedding; from 10.15",
    ),
)
