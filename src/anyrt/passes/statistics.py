"""Rules for spellings of a mean, and of a division by a root followed by scale and shift.

All become the expansion of Normalization, and get its kernels. With r for recip(sqrt(v)), c and b constant:

    sum * (1 / n)                      sum / n
    x / sqrt(v), 1 / s                 x * r, recip(s)
    (x * r) * c, (x * c) * r           x * (r * c)
    x * (r * c) + b, x * c + b         fma(x, r * c, b), fma(x, c, b)

In half types, means, r, c and b are float32, as there. A variance from the mean of squares is neither
replaced nor introduced: it has fewer digits than the squares around the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from anyrt.core.dims import product
from anyrt.core.dtype import cast, is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.ir.rewrite import Bind, Fail, Hole, Op, Rule, named, op
from anyrt.passes.examples import FLOATS, HALVES, NUMBERS, UNIT, Below, like, operand
from anyrt.passes.facts import constant, is_constant, is_reciprocal_root, number, root_of, source
from anyrt.prims import build
from anyrt.prims.map import CAST, Map, fn_of
from anyrt.prims.reduce import Reduce
from anyrt.prims.reshape import Reshape

# Reciprocals of roots are in 2⁻⁶⁵ … 2⁷⁵: times constants in this range they are normal numbers.
_LEAST, _MOST = 2.0**-60, 2.0**52


def _length(total: Value) -> int | None:
    """The number of elements of a sum, if its type represents that number."""
    while isinstance(total.op, Reshape):
        (total,) = total.args
    if not isinstance(total.op, Reduce) or total.op.fn != "sum":
        return None
    count = product(total.args[0].shape[k] for k in total.op.axes)
    if not isinstance(count, int) or count == 0 or cast(np.array(float(count)), total.dtype) != count:
        return None
    return count


def _is_reciprocal_length(total: Value, c: Value, out: Value) -> Fail | None:
    length = _length(total)
    if length is None or number(c) != float(np.float32(1 / length)):
        return Fail("no sum, or not 1 / its length as float32 has it")
    return None if total.type == out.type else Fail(f"{total.type} becomes {out.type}")


def _mean(total: Value) -> Value:
    length = _length(total)
    assert length is not None, "the guard knows it"
    return build.map_("div", total, like(total, float(length)))


def _is_narrow_mean(mean: Value, out: Value) -> Fail | None:
    narrowed = mean.dtype is DataType.FLOAT and out.dtype in HALVES and _is_mean(mean)
    return None if narrowed else Fail("no mean that becomes a half type")


def _is_mean(x: Value) -> bool:
    return fn_of(x) == "div" and isinstance(source(x.args[0]).op, Reduce)


def _is_one(c: Value, x: Value, out: Value) -> Fail | None:
    if number(c) != 1.0 or not is_float(x.dtype):
        return Fail("no reciprocal of real numbers")
    return None if x.type == out.type else Fail(f"{x.type} becomes {out.type}")


def _is_shared_root(s: Value, out: Value) -> Fail | None:
    root = root_of(s)
    if root is None:
        return Fail("the reciprocal of what is no root may overflow or lose digits")
    if out.dtype is DataType.DOUBLE:
        return Fail("float64 is asked for where digits count")
    if product(root.shape) == product(out.shape):
        return Fail("every element has a root of its own")
    return None


def _times_reciprocal(x: Value, s: Value) -> Value:
    """In float32: a small float16 has no reciprocal."""
    return _in_float("mul", x, build.map_("recip", build.cast(s, DataType.FLOAT)), x.dtype)


def _in_float(fn: str, a: Value, b: Value, dtype: DataType) -> Value:
    wide = (build.cast(v, DataType.FLOAT) for v in (a, b))
    return build.cast(build.map_(fn, *wide), dtype)


def _place(x: Value) -> int:
    """Of two operands the constant comes last, otherwise the reciprocal of a root."""
    return 2 if is_constant(x) else int(_is_scaled_root(x))


def _is_scaled_root(x: Value) -> bool:
    origin = source(x)
    scaled = fn_of(origin) == "mul" and is_constant(origin.args[1])
    return is_reciprocal_root(origin.args[0] if scaled else origin)


def _is_divided(x: Value) -> bool:
    return fn_of(x) == "mul" and _is_scaled_root(x.args[1])


def _belongs_last(first: Value, x: Value) -> Fail | None:
    return None if _place(first) > _place(x) else Fail("they are in order")


def _narrows(r: Value, out: Value) -> Fail | None:
    fits = out.dtype in HALVES and _is_scaled_root(r)
    return None if fits else Fail("no division by a root in a half type")


def _is_narrow_affine(y: Value, c: Value, half: Value, fn: str) -> Fail | None:
    if fn not in ("mul", "add") or not is_constant(c):
        return Fail("no scale or shift by a constant")
    narrowed = y.dtype is DataType.FLOAT and half.dtype in HALVES and (_is_divided(y) or _is_mean(y))
    return None if narrowed else Fail("no mean or quotient by a root that becomes a half type")


def _joins(r: Value, c: Value, out: Value) -> Fail | None:
    """A guard: r · c can be computed first, for any other factor; 0 · ∞ is NaN in any order."""
    blob, _ = constant(c)
    if blob is None or not blob.is_known or not is_reciprocal_root(r) or out.dtype is not DataType.FLOAT:
        return Fail("no reciprocal of a root, or no constant of float32")
    size = np.abs(blob.array.astype(np.float64))
    if not np.all((size == 0) | ((size >= _LEAST) & (size <= _MOST))):
        return Fail("a product of the two may leave the range of float32")
    return None


def _is_affine(factor: Value, shift: Value, out: Value) -> Fail | None:
    """A guard: the operands of the product are not further away than the product."""
    if not is_constant(shift) or not (is_constant(factor) or _is_scaled_root(factor)):
        return Fail("factor or shift is no constant")
    has = is_float(out.dtype) and out.dtype is not DataType.DOUBLE
    return None if has else Fail("integers and float64 have no multiply-add")


def _last(fn: str) -> Rule:
    return Rule(
        f"{fn} with a constant first",
        find=lambda first, x: op(Map, first, x, fn=fn),
        make=lambda first, x: build.map_(fn, x, first),
        guard=_belongs_last,
        example=lambda draw: (lambda x: build.map_(fn, like(x, 3.0), x))(operand(draw, *NUMBERS)),
    )


def _joined(name: str, find: Callable[[Hole, Hole, Hole], Op], scaled_first: bool) -> Rule:
    """For all elements that share r and c, r · c is computed once."""

    def example(draw: Below) -> Value:
        x, roots = _rows_and_roots(draw, DataType.FLOAT)
        r, c = build.map_("recip", roots), like(x, (0.0, -0.0, 0.25, -3.0, 1e15)[draw(5)])
        first, second = (c, r) if scaled_first else (r, c)
        return build.map_("mul", build.map_("mul", x, first), second)

    return Rule(
        name,
        find=find,
        make=lambda x, r, c: build.map_("mul", x, build.map_("mul", r, c)),
        guard=_joins,
        example=example,
        tolerance=4 * UNIT,
    )


def _rows_and_roots(draw: Below, *types: DataType) -> tuple[Value, Value]:
    """Rows, and a root for each, which may be repeated."""
    x = build.param("x", (2 + draw(3), 2 + draw(3)), types[draw(len(types))])
    roots = build.map_("sqrt", build.param("v", (x.shape[0], 1), x.dtype))
    return x, build.expand(roots, x.shape) if draw(2) else roots


def _mean_example(draw: Below) -> Value:
    """1 / length as float32; other types represent it if it is a power of two."""
    dtype = FLOATS[draw(len(FLOATS))]
    shape = (1 + draw(4), 1 + draw(9) if dtype is DataType.FLOAT else 4)
    total = build.reduce_("sum", build.param("x", shape, dtype), (1,))
    total = build.reshape(total, (1, shape[0])) if draw(2) else total
    return build.map_("mul", total, like(total, 1 / shape[1]))


def _difference_example(draw: Below) -> Value:
    x = operand(draw, *HALVES)
    total = build.reduce_("sum", build.cast(x, DataType.FLOAT), (draw(2),))
    return build.map_("sub", x, build.cast(build.map_("div", total, like(total, 3.0)), x.dtype))


def _divided_example(draw: Below, *types: DataType) -> Value:
    x, roots = _rows_and_roots(draw, *types)
    return build.map_("mul", x, build.map_("recip", roots))


def _narrow_example(draw: Below) -> Value:
    half = build.cast(_divided_example(draw, DataType.FLOAT), HALVES[draw(2)])
    return build.map_(("mul", "add")[draw(2)], half, like(half, 1.5))


def _affine_example(draw: Below) -> Value:
    x, roots = _rows_and_roots(draw, *FLOATS)
    r, c = build.map_("recip", roots), build.const(np.arange(4.0).reshape(4, 1)[: x.shape[0]], x.dtype)
    factor = (c, r, build.map_("mul", r, c))[draw(3)]
    return build.map_("add", build.map_("mul", x, factor), like(x, -1.25))


STATISTICS: Final[tuple[Rule, ...]] = (
    *map(_last, ("mul", "add")),
    Rule(
        "a sum times the reciprocal of its length",
        find=lambda total, c: op(Map, total, c, fn="mul"),
        make=_mean,
        guard=_is_reciprocal_length,
        example=_mean_example,
        tolerance=3 * UNIT,
    ),
    Rule(
        "the difference from a mean, in a half type",
        find=lambda x, mean: op(Map, x, op(Map, mean, fn=CAST), fn="sub"),
        make=lambda x, mean: _in_float("sub", x, mean, x.dtype),
        guard=_is_narrow_mean,
        example=_difference_example,
    ),
    Rule(
        "1 divided by something",
        find=lambda c, x: op(Map, c, x, fn="div"),
        make=lambda x: build.map_("recip", x),
        guard=_is_one,
        example=lambda draw: (lambda x: build.map_("div", like(x, 1.0), x))(operand(draw, *FLOATS)),
    ),
    Rule(
        "division by a root that several elements share",
        find=lambda x, s: op(Map, x, s, fn="div"),
        make=_times_reciprocal,
        guard=_is_shared_root,
        example=lambda draw: build.map_("div", *_rows_and_roots(draw, *FLOATS)),
        tolerance=3 * UNIT,
    ),
    Rule(
        "times the reciprocal of a root, in a half type",
        find=lambda x, r: op(Map, x, r, fn="mul"),
        make=lambda x, r: _in_float("mul", x, r, x.dtype),
        guard=_narrows,
        example=lambda draw: _divided_example(draw, *HALVES),
    ),
    Rule(
        "scaled or shifted in a half type",
        find=lambda y, c: op(Map, named("half", op(Map, y, fn=CAST)), c, fn=Bind("fn")),
        make=lambda y, c, half, fn: _in_float(fn, y, c, half.dtype),
        guard=_is_narrow_affine,
        example=_narrow_example,
    ),
    _joined(
        "divided by a root and scaled",
        lambda x, r, c: op(Map, op(Map, x, r, fn="mul"), c, fn="mul"),
        scaled_first=False,
    ),
    _joined(
        "scaled and divided by a root",
        lambda x, r, c: op(Map, op(Map, x, c, fn="mul"), r, fn="mul"),
        scaled_first=True,
    ),
    Rule(
        "scaled and shifted by constants",
        find=lambda x, factor, shift: op(Map, op(Map, x, factor, fn="mul"), shift, fn="add"),
        make=lambda x, factor, shift: build.map_("fma", x, factor, shift),
        guard=_is_affine,
        example=_affine_example,
    ),
)
