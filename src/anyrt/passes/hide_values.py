"""Masked values contribute nothing: products with the weights of a softmax whose scores are masked.

    softmax(select(seen, s, −inf)) · v     ->     the same, where a weight of 0 hides its value
    softmax(s + mask) · v                  ->     softmax(select(mask = −inf, −inf, s + mask)) · v, likewise
    select(seen, softmax(s), 0) · v        ->     the same, likewise

Layer by layer 0 · NaN is NaN, and so is NaN − inf: a masked value, such as padding that was never written,
would reach every row. Kernels skip masked columns (schedule/reach.py), more or fewer depending on sizes and
vectors. Therefore the graph states what is hidden, and the result is the same at every size. Any number whose
eˣ is 0 may replace −inf, such as −1e9 and the least number of a type, if the weight becomes 0. An added mask
without such numbers hides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.compute import Given, only_moves
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed, with_args
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.map import CAST, SELECT, Map, fn_of
from anyrt.prims.reduce import Reduce

ROUNDING: Final = frozenset({CAST, "identity", "to_half", "to_bf16"})


def hide_values(graph: Graph) -> Graph:
    """The graph in which masked values are hidden."""
    return transformed(graph, lambda old, new: _hiding(new))


def _hiding(value: Value) -> Value:
    op = value.op
    if not isinstance(op, Contract) or op.hides or not is_float(value.dtype):
        return value
    (a, b), turned = value.args, replace(op, left=op.right, right=op.left)
    for weights, other, product in ((a, b, op), (b, a, turned)):
        masks, scores = _Masks(), _scores(weights)
        if scores is not None and (masks.are_in(scores) or _chosen(weights)):
            return apply(replace(product, hides=True), masks.excluding(weights), other)
    return value


def _scores(weights: Value) -> Value | None:
    """The operand of the exponentials of the weights, before its maximum was subtracted."""
    for v in _behind(weights, _scaled):
        if fn_of(v) == "exp":
            (x,) = v.args
            while fn_of(x) in ROUNDING:
                (x,) = x.args
            return x.args[0] if fn_of(x) == "sub" else None
    return None


def _chosen(weights: Value) -> bool:
    """Whether weights are 0 where a mask hides them."""
    return any(fn_of(v) == SELECT and _scaled(v) for v in _behind(weights, _scaled))


def _scaled(v: Value) -> tuple[Value, ...]:
    """Operands whose zeros are zeros of the value: the other operand of a selection of 0."""
    if fn_of(v) == SELECT:
        return tuple(a for a, b in (v.args[1:], v.args[:0:-1]) if number(b) == 0)
    return v.args if only_moves(v.compute) or fn_of(v) in ("mul", "div", *ROUNDING) else ()


@dataclass(slots=True)
class _Masks:
    """The masks of scores: selections, and sums with values that may be −inf."""

    added: dict[Value, Value] = field(default_factory=dict)

    def are_in(self, scores: Value) -> bool:
        """True if a mask excludes elements."""
        inside = list(_behind(scores, _each))
        masks = [(v, mask) for v in inside if fn_of(v) == "add" for mask in _added_to_product(v)]
        self.added |= {v: mask for v, mask in masks if _may_be(mask, -math.inf)}
        chosen = (a for v in inside if fn_of(v) == SELECT for a in v.args[1:])
        return any(_may_be(mask, _most(mask.dtype)) for _, mask in masks) or any(map(_is_least, chosen))

    def excluding(self, weights: Value) -> Value:
        """The same with −inf wherever it is added."""
        done: dict[Value, Value] = {}
        todo = [weights] if self.added else []
        while todo:
            v = todo[-1]
            inside = v.args if isinstance(v.op, Reduce) else _each(v)
            if missing := [a for a in inside if a not in done]:
                todo += missing
                continue
            result = with_args(v, [done[a] for a in inside]) if inside else v
            if v in self.added:
                result = _where_least(build.cast(self.added[v], result.dtype), result)
            done[todo.pop()] = result
        return done.get(weights, weights)


def _where_least(mask: Value, values: Value) -> Value:
    """The same, and −inf where the mask is −inf."""
    least = build.scalar(-math.inf, values)
    return build.map_(SELECT, build.map_("eq", mask, least), least, values)


def _added_to_product(v: Value) -> list[Value]:
    """The value that a sum adds to a product."""
    return [mask for s, mask in (v.args, v.args[::-1]) if _is_product(s)]


def _is_product(v: Value) -> bool:
    return any(isinstance(x.op, Contract) for x in _behind(v, _each))


def _most(dtype: DataType) -> float:
    """The largest number of a type whose eˣ is 0, or nearly so: less than half of the least number."""
    return -746.0 if dtype is DataType.DOUBLE else -104.0


def _is_least(v: Value) -> bool:
    x = number(v)
    return x is not None and x <= _most(v.dtype)


def _behind(v: Value, operands: Callable[[Value], Iterable[Value]]) -> Iterator[Value]:
    """A value and the operands of its chain, each once."""
    todo, seen = [v], set[Value]()
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            yield x
            todo += operands(x)


def _each(v: Value) -> tuple[Value, ...]:
    return v.args if isinstance(v.op, Map) or only_moves(v.compute) else ()


def _may_be(mask: Value, most: float) -> bool:
    """True for an input, or a selection, that is at most that number, or a large multiple, as (1 − seen) ·
    −1e4 is; other computed values are assumed to be finite."""

    def passed(v: Value) -> tuple[Value, ...]:
        if isinstance(v.op, Map):
            return v.args[1:] if v.op.fn == SELECT else v.args if v.op.fn in ("add", *ROUNDING) else ()
        return v.args if only_moves(v.compute) else ()

    return any(_is_data(v, most) for v in _behind(mask, passed) if is_float(v.dtype))


def _is_data(v: Value, most: float) -> bool:
    if isinstance(v.op, Const) and v.op.blob.is_known:
        return bool((v.op.blob.data.astype(np.float64) <= most).any())
    if fn_of(v) == "mul":
        return any(abs(n) >= -most for n in map(number, v.args) if n is not None)
    return isinstance(v.compute, Given)
