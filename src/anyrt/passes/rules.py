"""The rewrite rules of `simplify`: operations that can be removed or joined without changing a bit of the
result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, mul
from anyrt.core.dtype import bits, is_float, is_signed
from anyrt.core.enums import (
    DataType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from anyrt.ir.graph import Shape, Value, apply
from anyrt.ir.rewrite import Bind, Fail, Pattern, Rule, named, op
from anyrt.passes.examples import EVERY, FLOATS, NUMBERS, Below, operand
from anyrt.passes.exponentials import EXPONENTIALS
from anyrt.passes.facts import number
from anyrt.passes.known_positions import KNOWN_POSITIONS
from anyrt.passes.late_division import LATE_DIVISION
from anyrt.passes.powers import POWERS
from anyrt.passes.scaled_factors import SCALED_FACTORS
from anyrt.passes.statistics import STATISTICS
from anyrt.prims import build
from anyrt.prims.checked import Checked
from anyrt.prims.concat import Concat
from anyrt.prims.map import CAST, SELECT, Map, fn_of
from anyrt.prims.pad import Pad
from anyrt.prims.reshape import Reshape
from anyrt.prims.taps import Border, Cubic, Linear, Nearest, TapRule, Taps, grows
from anyrt.prims.view import FILLED, Axis, View, is_turned, moving

# Bits of the significand, least and greatest exponent: the values that a float type represents.
_FLOATS: Final = {
    DataType.FLOAT: (24, -149, 127),
    DataType.HALF: (11, -24, 15),
    DataType.BF16: (8, -133, 127),
    DataType.FP8: (4, -9, 8),
    DataType.FP4: (2, -1, 2),
    DataType.DOUBLE: (53, -1074, 1023),
    DataType.FP8E5M2: (3, -16, 15),
    DataType.FP8E4M3FNUZ: (4, -10, 7),
    DataType.FP8E5M2FNUZ: (3, -17, 15),
}
UNSIGNED_ZERO: Final = frozenset({DataType.FP8E4M3FNUZ, DataType.FP8E5M2FNUZ})
ROUNDINGS: Final = ("to_half", "to_bf16", "to_fp8", "to_fp4", "to_e8m0")
NARROWING: Final = (CAST, *ROUNDINGS)
IDEMPOTENT: Final = ("abs", "floor", "ceil", "round", "trunc", "sign", *ROUNDINGS)


def holds(wide: DataType, narrow: DataType) -> bool:
    """True if casting any value of `narrow` to `wide` keeps it, infinities and NaN too.

    >>> holds(DataType.FLOAT, DataType.HALF), holds(DataType.FLOAT, DataType.INT32)
    (True, False)
    """
    if narrow is DataType.BOOL or wide is narrow:
        return True
    if DataType.BOOL is wide or DataType.E8M0 in (wide, narrow):
        return False
    if is_float(narrow):
        return is_float(wide) and _covers(wide, narrow)
    needed = bits(narrow) - is_signed(narrow)
    if is_float(wide):
        return needed <= min(_FLOATS[wide][0], _FLOATS[wide][2])
    return is_signed(wide) >= is_signed(narrow) and bits(wide) - is_signed(wide) >= needed


def _covers(wide: DataType, narrow: DataType) -> bool:
    """True if one float type represents all digits and exponents of another one, and -0."""
    (digits, low, high), (need_digits, need_low, need_high) = _FLOATS[wide], _FLOATS[narrow]
    covers = digits >= need_digits and low <= need_low and high >= need_high
    return covers and wide not in UNSIGNED_ZERO


def _without_middle(x: Value, middle: Value, dtype: DataType) -> Value | Fail:
    if not holds(middle.dtype, x.dtype):
        return Fail(f"{middle.dtype.name} does not hold every {x.dtype.name}")
    if _limits(x.dtype, middle.dtype, dtype):
        return Fail("floats saturate where integers wrap")
    return build.cast(x, dtype)


def _limits(first: DataType, middle: DataType, last: DataType) -> bool:
    """True if integers converted through a float are clamped at limits where they would otherwise wrap."""
    return is_float(middle) and not (is_float(first) or is_float(last) or holds(last, first))


def _joined(x: Value, inner: tuple[Axis, ...], shape: Shape, axes: tuple[Axis, ...]) -> Value:
    """in = start + step × middle and middle = start' + step' × out, composed."""
    both = (_after(a, axes) for a in inner)
    return apply(View(shape, tuple(both)), x)


def _after(first: Axis, axes: tuple[Axis, ...]) -> Axis:
    start, steps = first.start, dict[int, Dim]()
    for middle, step in first.terms:
        then = axes[middle]
        start = add(start, mul(step, then.start))
        for out, inner in then.terms:
            steps[out] = add(steps.get(out, 0), mul(step, inner))
    return moving(start, steps.items())


def _same_shape(x: Value, out: Value) -> Fail | None:
    return None if x.type == out.type else Fail(f"{x.type} becomes {out.type}")


def _unmoved(x: Value, out: Value, axes: tuple[Axis, ...]) -> Fail | None:
    in_place = ((Axis(0, k), Axis(0, None)) if d == 1 else (Axis(0, k),) for k, d in enumerate(x.shape))
    moved = next((k for k, (a, own) in enumerate(zip(axes, in_place, strict=True)) if a not in own), None)
    return _same_shape(x, out) if moved is None else Fail(f"axis {moved} is read elsewhere")


def _once(view: Value, axes: tuple[Axis, ...]) -> Value:
    """`view` with size 1 along the axes that it repeats."""
    read = {out for a in axes for out, _ in a.terms}
    shape = tuple(d if k in read else 1 for k, d in enumerate(view.shape))
    return apply(View(shape, axes), *view.args)


def _repeats_anyway(x: Value, view: Value, out: Value, axes: tuple[Axis, ...]) -> Fail | None:
    same = out.op.infer((x.type, _once(view, axes).type)) == out.type
    return None if same else Fail("the result has its shape from there")


def _crosses_what_grows(x: Value, out: Value, taps: Value, axis: int, axes: tuple[Axis, ...]) -> Fail | None:
    """Transpose the few elements first; then the resize grows along a contiguous axis."""
    last = len(axes) - 1
    if sorted((a.out for a in axes if a == Axis(0, a.out)), key=str) != [*range(len(out.shape))]:
        return Fail("it is no permutation")
    if not is_turned(out) or axes[axis].out == last:
        return Fail("the last axis stays, is short, or would be the one that grows")
    if not grows(taps):
        return Fail("it does not grow by half")
    return None


def _crosses_what_narrows(x: Value, out: Value, fn: str, axes: tuple[Axis, ...]) -> Fail | None:
    if fn not in NARROWING:
        return Fail("it computes")
    while fn_of(x) in NARROWING:
        (x,) = x.args
    if not isinstance(x.op, Taps):
        return Fail("no taps have grown it")
    return _crosses_what_grows(x.args[0], out, x, x.op.axis, axes)


def _crossed(x: Value, out: Value, axis: int, rule: TapRule, axes: tuple[Axis, ...]) -> Value:
    target = axes[axis].out
    assert target is not None, "a permutation reads every axis"
    shape = (*out.shape[:target], x.shape[axis], *out.shape[target + 1 :])
    return apply(Taps(target, out.shape[target], rule), apply(View(shape, axes), x))


def _nothing_added(lo: Shape, hi: Shape) -> Fail | None:
    return Fail("there is a border") if any(d != 0 for d in (*lo, *hi)) else None


def _reads_in_place(x: Value, out: Value, rule: TapRule) -> Fail | None:
    """Positions are their own index, and neighbours have weight 0."""
    match rule:
        case Nearest() | Linear() | Cubic() | Border(start=0, step=1):
            return _same_shape(x, out)
    return Fail("the border begins elsewhere, or turns back")


def _all_are(constant: float) -> Callable[..., Fail | None]:
    """A guard: `c` is `constant` everywhere, with its sign, and `x` has the result's type."""

    def guard(x: Value, c: Value, out: Value) -> Fail | None:
        held = number(c)
        if held is None or held != constant or np.signbit(held) != np.signbit(constant):
            return Fail(f"not all are {constant}")
        return _same_shape(x, out)

    return guard


def _neutral(fn: str, neutral: float) -> Rule:
    """`fn` with a constant on its right that has no effect."""

    def example(draw: Below) -> Value:
        x = operand(draw, *NUMBERS)
        return build.map_(fn, x, build.const(np.full((1, x.shape[1]), neutral), x.dtype))

    return Rule(
        f"{fn} by {neutral:g}",
        find=lambda x, c: op(Map, x, c, fn=fn),
        make=lambda x: x,
        guard=_all_are(neutral),
        example=example,
    )


def _chosen(which: str, condition: int) -> Rule:
    """A selection whose condition is constant, at build time."""

    def guard(c: Value, x: Value, out: Value) -> Fail | None:
        return _same_shape(x, out) if number(c) == condition else Fail(f"not all choose {which}")

    def example(draw: Below) -> Value:
        x = operand(draw, *EVERY)
        y, c = build.param("y", (1, x.shape[1]), x.dtype), build.const([[condition]], DataType.BOOL)
        return build.map_(SELECT, c, *((x, y) if condition else (y, x)))

    return Rule(
        f"select always {which}",
        find=(
            (lambda c, x, y: op(Map, c, x, y, fn=SELECT))
            if condition
            else (lambda c, x, y: op(Map, c, y, x, fn=SELECT))
        ),
        make=lambda x: x,
        guard=guard,
        example=example,
    )


def _twice(fn: str, once: bool, *types: DataType) -> Rule:
    """`fn` of `fn`: equal to one application, or to none."""
    return Rule(
        f"{fn} twice",
        find=lambda x: op(Map, named("inner", op(Map, x, fn=fn)), fn=fn),
        make=(lambda inner: inner) if once else (lambda x: x),
        example=lambda draw: build.map_(fn, build.map_(fn, operand(draw, *types))),
    )


def _signed_again() -> Rule:
    """Signed codes that become unsigned, which products require unsigned: these wrap alike."""

    def guard(x: Value, c: Value, d: Value, out: Value) -> Fail | None:
        held = number(c)
        if x.dtype is not out.dtype or held is None or held != number(d):
            return Fail("other codes come back")
        return _same_shape(x, out)

    def example(draw: Below) -> Value:
        x = operand(draw, DataType.INT8)
        wide, moved = build.cast(x, DataType.INT32), (128, 100, -128)[draw(3)]
        bare = build.cast(build.map_("add", wide, build.scalar(moved, wide)), DataType.UINT8)
        steps = build.cast(bare, DataType.INT32)
        return build.cast(build.map_("sub", steps, build.scalar(moved, steps)), DataType.INT8)

    def bare(x: Pattern, c: Pattern) -> Pattern:
        wide = op(Map, x, fn=CAST, dtype=DataType.INT32)
        return op(Map, op(Map, wide, c, fn="add"), fn=CAST, dtype=DataType.UINT8)

    return Rule(
        "signs taken from codes and given back",
        find=lambda x, c, d: op(
            Map,
            op(Map, op(Map, bare(x, c), fn=CAST, dtype=DataType.INT32), d, fn="sub"),
            fn=CAST,
            dtype=DataType.INT8,
        ),
        make=lambda x: x,
        guard=guard,
        example=example,
    )


def _cast_example(draw: Below) -> Value:
    while True:
        x, middle, last = operand(draw, *EVERY), EVERY[draw(len(EVERY))], EVERY[draw(len(EVERY))]
        if middle is not x.dtype and holds(middle, x.dtype) and not _limits(x.dtype, middle, last):
            return apply(Map(CAST, last), build.cast(x, middle))


def _slice_example(draw: Below) -> Value:
    """Every second element backwards, then transposed, from the second row on."""
    x = build.param("x", (3 + draw(3), 5), EVERY[draw(len(EVERY))])
    back = build.slice_(x, (0, 4), (3, 3), (1, -2))
    return build.slice_(build.transpose(back, (1, 0)), (1, 0), (2, 1 + draw(3)), (1, 1))


def _repeated_example(draw: Below) -> Value:
    x = build.param("x", (2 + draw(3), 2 + draw(3)), NUMBERS[draw(len(NUMBERS))])
    row = build.param("row", ((1, 1), (1, x.shape[1]), (x.shape[0], 1))[draw(3)], x.dtype)
    return build.map_(("add", "max", "lt")[draw(3)], x, build.expand(row, x.shape))


def _growing_example(draw: Below, dtype: DataType | None = None) -> Value:
    """Rows or planes resized to at least three halves, as `dtype`, then moved away from the last axis."""
    shape, axis = (FILLED + draw(3), 1 + draw(4), 1 + draw(4)), 1 + draw(2)
    rule = Linear(ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA)
    x = build.param("x", shape, FLOATS[draw(len(FLOATS))])
    grown = build.taps(x, axis, 2 * shape[axis] + draw(3), rule)
    if dtype is not None:
        grown = build.cast(build.map_("to_half", grown) if draw(2) else grown, dtype)
    return build.transpose(grown, ((1, 2, 0), (2, 1, 0))[draw(2)])


def _taps_example(draw: Below) -> Value:
    x = operand(draw, *EVERY)
    size, axis = x.shape[1], 1
    if draw(2):
        return build.taps(x, axis, size, Border(SampleMode.WRAP, 0, 1))
    how, selector = tuple(ResizeCoordinateTransformation)[draw(3)], tuple(ResizeSelector)[draw(2)]
    if x.dtype in FLOATS and draw(3):
        weighed = (Linear(how, selector), Cubic(how, selector, -0.75, bool(draw(2))))
        return build.taps(x, axis, size, weighed[draw(2)])
    return build.taps(x, axis, size, Nearest(how, selector, tuple(ResizeRoundMode)[draw(4)]))


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "cast to the same type",
        find=lambda x: op(Map, x, fn=CAST),
        make=lambda x: x,
        guard=_same_shape,
        example=lambda draw: (lambda x: apply(Map(CAST, x.dtype), x))(operand(draw, *EVERY)),
    ),
    Rule(
        "cast of a cast that keeps every value",
        find=lambda x: op(Map, named("middle", op(Map, x, fn=CAST)), fn=CAST, dtype=Bind("dtype")),
        make=_without_middle,
        example=_cast_example,
    ),
    Rule(
        "identity",
        find=lambda x: op(Map, x, fn="identity"),
        make=lambda x: x,
        example=lambda draw: build.identity(operand(draw, *EVERY)),
    ),
    Rule(
        "conditions that are collected elsewhere",
        find=lambda x: op(Checked, x),
        make=lambda x: x,
        example=lambda draw: apply(Checked(()), operand(draw, *EVERY)),
    ),
    Rule(
        "ties to sizes that the graph tells as outputs",
        find=lambda x, number: op(Checked, x, number),
        make=lambda x: x,
        example=lambda draw: apply(Checked(()), operand(draw, *EVERY), build.const(1, DataType.INT64)),
    ),
    _twice("neg", False, *NUMBERS),
    _twice("not", False, DataType.BOOL),
    *(_twice(fn, True, *FLOATS) for fn in IDEMPOTENT),
    _signed_again(),
    _neutral("mul", 1.0),
    _neutral("div", 1.0),
    _neutral("sub", 0.0),
    Rule(
        "select between equals",
        find=lambda c, x: op(Map, c, x, x, fn=SELECT),
        make=lambda x: x,
        guard=_same_shape,
        example=lambda draw: (lambda x: build.map_(SELECT, build.cast(x, DataType.BOOL), x, x))(
            operand(draw, *EVERY)
        ),
    ),
    _chosen("then", 1),
    _chosen("else", 0),
    Rule(
        "reshape of a reshape",
        find=lambda x: op(Reshape, op(Reshape, x), shape=Bind("shape")),
        make=lambda x, shape: build.reshape(x, shape),
        example=lambda draw: build.reshape(
            build.reshape(build.param("x", (4, 6), DataType.INT32), (3, 8)), ((12, 2), (24,), (4, 6))[draw(3)]
        ),
    ),
    Rule(
        "reshape to the same shape",
        find=lambda x: op(Reshape, x),
        make=lambda x: x,
        guard=_same_shape,
        example=lambda draw: (lambda x: apply(Reshape(x.shape), x))(operand(draw, *EVERY)),
    ),
    Rule(
        "view of a view",
        find=lambda x: op(View, op(View, x, axes=Bind("inner")), shape=Bind("shape"), axes=Bind("axes")),
        make=_joined,
        example=_slice_example,
    ),
    Rule(
        "transposing what taps have grown",
        find=lambda x: op(
            View, named("taps", op(Taps, x, axis=Bind("axis"), rule=Bind("rule"))), axes=Bind("axes")
        ),
        make=_crossed,
        guard=_crosses_what_grows,
        example=_growing_example,
    ),
    Rule(
        "transposing what taps have grown and a cast has narrowed",
        find=lambda x: op(View, named("narrow", op(Map, x, fn=Bind("fn"))), axes=Bind("axes")),
        make=lambda x, out, narrow, axes: apply(narrow.op, apply(View(out.shape, axes), x)),
        guard=_crosses_what_narrows,
        example=lambda draw: _growing_example(draw, DataType.INT32),
    ),
    Rule(
        "view of everything",
        find=lambda x: op(View, x, axes=Bind("axes")),
        make=lambda x: x,
        guard=_unmoved,
        example=lambda draw: (
            lambda x: apply(View(x.shape, (Axis(0, 0), Axis(0, 1 if x.shape[1] != 1 else None))), x)
        )(operand(draw, *EVERY)),
    ),
    Rule(
        "repeating what a function repeats anyway",
        find=lambda x, y: op(Map, x, named("view", op(View, y, axes=Bind("axes"))), fn=Bind("fn")),
        make=lambda x, view, fn, axes: build.map_(fn, x, _once(view, axes)),
        guard=_repeats_anyway,
        example=_repeated_example,
    ),
    Rule(
        "concatenation of one",
        find=lambda x: op(Concat, x),
        make=lambda x: x,
        example=lambda draw: apply(Concat(draw(2)), operand(draw, *EVERY)),
    ),
    Rule(
        "padding with nothing",
        find=lambda x: op(Pad, x, lo=Bind("lo"), hi=Bind("hi")),
        make=lambda x: x,
        guard=_nothing_added,
        example=lambda draw: apply(Pad((0, 0), (0, 0), 1.0), operand(draw, *EVERY)),
    ),
    Rule(
        "taps that read every position in place",
        find=lambda x: op(Taps, x, rule=Bind("rule")),
        make=lambda x: x,
        guard=_reads_in_place,
        example=_taps_example,
    ),
    *POWERS,
    *STATISTICS,
    *EXPONENTIALS,
    LATE_DIVISION,
    SCALED_FACTORS,
    KNOWN_POSITIONS,
)
