"""The reference with error bounds: every value in float64, and the largest error of a correct kernel.

Kernels compute in float32 and in another order than the reference, so no single tolerance fits: after a
cancellation all digits may differ, and a comparison of nearly equal numbers may change. Therefore each value
has an error bound for every element, to first order (Higham, "Accuracy and Stability of Numerical
Algorithms", 2002, section 3.3). With u = 2^-24, or 2^-53 for kernels in float64:

* scalar function: the change of its result if each operand moves by its own bound, and a rounding error of
  ulp × 2u × |result|, where `ulp` is the error that its record states for the type;
* sum over n elements: the sum of the elements' bounds, and u (8 + 2√n) times the sum of their magnitudes, for
  rounding errors of either sign in any order;
* sum of products: the same with the bounds of the products, each of which may also be rounded below the
  normal range of float32; dots of bfloat16 may replace products and factors in that range by 0, and round
  each addition to one of its two neighbours, as BFDOT and BFMMLA do;
* weighted sum of taps: also 16u times the magnitudes, since the weights are computed in float32, too, and are
  divided by their sum if taps outside the tensor are excluded;
* update of an existing element: each update rounds to the stored type, with an error of half a unit;
* selection with an uncertain condition: either operand, each with its bound; of two uncertain bools, both
  may be inverted at once;
* move of elements: the bounds move along.

A bound of infinity means "not compared": the result is beyond the range of float32, outside the function's
domain, or the operands' bounds include a point at which the function is not defined. Bounds of bools are 0
or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import cast, is_float, is_integer
from anyrt.core.enums import DataType
from anyrt.ir.counted import computed_sizes, results
from anyrt.ir.graph import Graph, Value, walk
from anyrt.ir.interpret import compute, concrete
from anyrt.ir.kernel import Op
from anyrt.ir.prim import Array, Prim
from anyrt.ir.reference import widen
from anyrt.prims._convert import limits
from anyrt.prims.chosen import Chosen
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.foremost import Foremost
from anyrt.prims.gather import Gather
from anyrt.prims.map import CAST, CASTS, PATTERN, SELECT, Map, kind_of
from anyrt.prims.mended import Mended
from anyrt.prims.nonzero import NonZero
from anyrt.prims.ranked import Ranked
from anyrt.prims.reduce import FOLDS, Reduce
from anyrt.prims.repeated import Repeated
from anyrt.prims.scalar import SCALARS
from anyrt.prims.scan import Scan
from anyrt.prims.scatter import LAST, Scatter
from anyrt.prims.suppressed import Suppressed
from anyrt.prims.taps import Cubic, TapRule, Taps

Errors = NDArray[np.float64]
Run = Callable[[tuple[Array, ...]], Array]  # a value for the arrays of its operands

UNIT: Final = 2.0**-24
LEAST: Final = 2.0**-126  # dots of bfloat16 treat smaller numbers as 0
LARGEST: Final = 3.4e38
HALVES: Final = {DataType.HALF: (2.0**-11, 65504.0), DataType.BF16: (2.0**-8, LARGEST)}
WEIGHED: Final = 16
SAFETY: Final = 2.0
EXACT: Final[Errors] = np.zeros(())
EQUALITIES: Final = ("eq", "ne")
WAVES: Final = ("sin", "cos")
QUOTIENTS: Final = ("div", "div_short", "recip", "floordiv", "mod", "fmod")
ROUNDED: Final = 0.5  # ulp of results that are rounded to nearest
REMAINDERS: Final = ("mod", "fmod")


@dataclass(frozen=True, slots=True)
class Precision:
    """The arithmetic of kernels: half the distance from 1 to the next number, twice the least denormal
    number, and the largest number."""

    unit: float
    tiny: float
    largest: float

    @staticmethod
    def of(dtype: DataType) -> Precision:
        """The arithmetic for elements of a type."""
        return DOUBLE if dtype is DataType.DOUBLE else SINGLE


SINGLE: Final = Precision(UNIT, 2.0**-148, LARGEST)
DOUBLE: Final = Precision(2.0**-53, 2.0**-1073, 1.79e308)


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """An array of the interpreter, and the largest error of a kernel's array (0-d: the same for all
    elements)."""

    array: Array
    error: Errors

    @property
    def exact(self) -> bool:
        """True if a kernel must agree in every element."""
        return not self.error.any()


def exact(array: Array, dtype: DataType) -> Bounded:
    """A stored array of `dtype`."""
    return Bounded(widen(array, dtype), EXACT)


def bounded(value: Value, args: tuple[Bounded, ...], sizes: Mapping[str, int]) -> Bounded:
    """A value with its error bound, computed from its operands."""
    with np.errstate(all="ignore"):

        def run(arrays: tuple[Array, ...]) -> Array:
            return compute(value, arrays, sizes)

        op = concrete(value.op, sizes)
        if isinstance(op, Repeated | Chosen):
            return _of_regions(op, args)[value.index]
        array = run(tuple(a.array for a in args))
        return Bounded(array, _unknown(array, _error(value, op, run, args, array), Precision.of(value.dtype)))


def _error(value: Value, op: Prim, run: Run, args: tuple[Bounded, ...], array: Array) -> Errors:
    """The largest difference between a kernel's result and `array`."""
    p = Precision.of(value.dtype)
    match op:
        case Map():
            narrowed = p is SINGLE and any(a.dtype is DataType.DOUBLE for a in value.args)
            return _mapped(op, run, args, array) + _rounding(op, args, array, p, narrowed=narrowed)
        case Reduce():
            return _reduced(op, args[0], p)
        case Scan():
            return _scanned(op, args, p)
        case Scatter():
            return _scattered(op, args, value.dtype)
        case Contract() | Mended():
            return _summed(op, value, args, p)
        case Gather():
            return _gathered(op, *args)
        case Ranked():
            return _ranked(op, args[0], array)
        case Taps() if op.rule.weighs:
            return _tapped(op, args[0], array)
        case NonZero() | Suppressed() | Foremost():
            return EXACT if all(a.exact for a in args) else np.full(array.shape, np.inf)
        case _:
            return _shaken(run, args, array)


def _of_regions(op: Repeated | Chosen, args: tuple[Bounded, ...]) -> tuple[Bounded, ...]:
    """The results of regions, iteration by iteration; unbounded if it is uncertain which region runs."""
    if isinstance(op, Chosen):
        flag, region = args[0], op.then if np.any(args[0].array) else op.otherwise
        return _of_region(region, args[1:], flag.exact)
    count = len(results(op.body))
    states, others = args[:count], args[count:]
    while np.any(states[0].array):
        states = _of_region(op.body, (*states, *others), states[0].exact)
    return states


def _of_region(region: Graph, args: tuple[Bounded, ...], certain: bool) -> tuple[Bounded, ...]:
    bounds = {value: fed for (_, value), fed in zip(region.inputs, args, strict=True)}
    sizes = dict[str, int]()
    for value in walk(v for _, v in (*computed_sizes(region), *region.outputs)):
        if value not in bounds:
            result = bounded(value, tuple(bounds[a] for a in value.args), sizes)
            if value.op.tells is not None:
                sizes[value.op.tells.name] = int(result.array)
                certain = certain and result.exact
            narrow = is_float(value.dtype) and value.dtype not in (DataType.FLOAT, DataType.DOUBLE)
            bounds[value] = stored(result, value.dtype) if narrow else result  # kernels may store it
    ends = (stored(bounds[v], v.dtype) for _, v in results(region))
    return tuple(x if certain else Bounded(x.array, np.full(x.array.shape, np.inf)) for x in ends)


def stored(value: Bounded, dtype: DataType) -> Bounded:
    """The same value if a kernel may have rounded it to `dtype` and another kernel has loaded it."""
    with np.errstate(all="ignore"):
        low, high = (widen(x, dtype) for x in range_of(value, dtype, 1.0))
        error = np.maximum(_distance(low, value.array), _distance(high, value.array))
        error = np.maximum(error, value.error)
        return Bounded(value.array, np.where(np.isinf(value.error), np.inf, error))


def differing(got: Array, want: Bounded, dtype: DataType) -> NDArray[np.bool_]:
    """The elements of a kernel's result outside their bounds. Rounding is monotone, so comparing with the
    ends of the range suffices. NaN is accepted if every number is, as for a quotient whose divisor may be
    0."""
    with np.errstate(all="ignore"):
        low, high = range_of(want, dtype, SAFETY)
        any_number = np.equal(low, -np.inf) & np.equal(high, np.inf)
        both_nan = np.not_equal(got, got) & np.not_equal(want.array, want.array)
        inside = np.greater_equal(got, low) & np.less_equal(got, high)
        return np.asarray(~(inside | both_nan | any_number | np.isinf(want.error)))


def range_of(x: Bounded, dtype: DataType, factor: float) -> tuple[Array, Array]:
    """The least and the greatest value that a correct kernel may store."""
    low, high = (_moved(x, sign * factor) for sign in (-1.0, 1.0))
    if dtype is DataType.BOOL:
        return np.logical_and(low, high), np.logical_or(low, high)
    if is_integer(dtype):  # 4-bit numbers are held in 8 bits, where they have room to wrap
        low, high = (np.clip(x, *limits(dtype)) for x in (low, high))
    return cast(low, dtype), cast(high, dtype)


def _mapped(op: Map, run: Run, args: tuple[Bounded, ...], result: Array) -> Errors:
    if op.fn == SELECT:
        return _either(args, result)
    # A comparison changes if both operands move towards each other; each is moved alone, and twice as far.
    error = _shaken(run, args, result, 2.0 if op.dtype is DataType.BOOL else 1.0)
    if len(args) == 2 and all(a.array.dtype.kind == "b" for a in args):
        a, b = (_moved(x, 1.0) for x in args)
        error = np.maximum(error, _distance(run((a, b)), result))
    if op.fn in EQUALITIES or (op.fn == CAST and op.dtype is DataType.BOOL):
        return np.maximum(error, _may_be_equal(*args))
    if op.fn in WAVES:  # both ends of a range may lie whole periods apart
        return np.maximum(error, np.minimum(args[0].error, 2.0))
    if op.fn in QUOTIENTS and is_float(op.dtype):
        error = error + _turned(*args) if op.fn in REMAINDERS else error
        return np.where(_may_divide_by_0(args[-1]), np.inf, error)
    if op.fn == "pow":
        return np.where(_may_be_none(*args), np.inf, error)
    return error


def _either(args: tuple[Bounded, ...], result: Array) -> Errors:
    """The bound of the selected operand; for an uncertain condition, the distance to the farther operand."""
    flag, a, b = args
    chosen = np.where(flag.array, a.error, b.error)
    if flag.exact:
        return chosen
    far = np.maximum(*(_distance(x.array, result) + x.error for x in (a, b)))
    return np.where(flag.error > 0, far, chosen)


def _may_divide_by_0(divisor: Bounded) -> Array:
    """True where the divisor may be 0, so that the quotient may be any number."""
    near = np.less_equal(np.abs(divisor.array), SAFETY * divisor.error)
    return np.logical_and(near, divisor.error > 0)


def _may_be_none(base: Bounded, exponent: Bounded) -> Array:
    """True where a power may be a number or NaN: the base may be negative, and the exponent may be a whole
    number or not. A base of NaN with a bound above 0 counts as negative."""
    may_be_negative = np.less(base.array, base.error) | (np.isnan(base.array) & (base.error > 0))
    return np.logical_and(may_be_negative, exponent.error > 0)


def _may_be_equal(a: Bounded, b: Bounded | None = None) -> Errors:
    """1 where operands (or one and 0) may be equal or different: moving one operand past the other would miss
    that."""
    other, error = (0.0, a.error) if b is None else (b.array, a.error + b.error)
    near = np.abs(np.subtract(a.array, other, dtype=np.float64)) <= error
    return np.where((error > 0) & (near | np.isinf(error)), 1.0, 0.0)


def _turned(a: Bounded, b: Bounded) -> Errors:
    """The whole divisor where a remainder may have wrapped: both ends of a range may then lie close together,
    a period apart."""
    period, turns = np.abs(b.array), np.abs(np.divide(a.array, b.array))
    return np.where(a.error + turns * b.error > period / 4, period, 0.0)


def _shaken(run: Run, args: tuple[Bounded, ...], result: Array, factor: float = 1.0) -> Errors:
    """The change of the result if the operands move by their bounds, one after the other."""
    total: Errors = EXACT
    arrays = tuple(a.array for a in args)
    for k, arg in enumerate(args):
        if arg.exact:
            continue
        ends = (_moved(arg, sign * factor) for sign in (-1.0, 1.0))
        moved = (_distance(run((*arrays[:k], end, *arrays[k + 1 :])), result) for end in ends)
        total = total + np.maximum(*moved)
    return total


def _moved(x: Bounded, factor: float) -> Array:
    """Every element at one end of its range; an uncertain bool is inverted at the upper end."""
    error = np.broadcast_to(x.error, x.array.shape)
    if x.array.dtype.kind == "b":
        return np.logical_xor(x.array, error > 0) if factor > 0 else x.array
    if x.array.dtype.kind == "f":  # an element that is not compared may be a number instead of NaN
        open_ = np.isnan(x.array) & np.isinf(error)
        return np.where(open_, np.sign(factor) * LARGEST, np.add(x.array, factor * error))
    limits = np.iinfo(x.array.dtype.name)
    steps = np.sign(factor) * np.ceil(np.minimum(np.abs(factor) * error, 2.0**31))
    if x.array.dtype == np.uint64:
        far = np.minimum(np.abs(steps).astype(np.uint64), x.array if factor < 0 else limits.max - x.array)
        return np.asarray(x.array - far if factor < 0 else x.array + far)
    moved = x.array.astype(np.int64) + steps.astype(np.int64)
    return np.asarray(np.clip(moved, limits.min, limits.max)).astype(x.array.dtype)


def _distance(a: Array, b: Array) -> Errors:
    """|a - b|, 0 for equal infinities and for two NaNs, infinity when one is NaN."""
    wide, other = a.astype(np.float64), b.astype(np.float64)
    distance = np.where((wide == other) | ((wide != wide) & (other != other)), 0.0, np.abs(wide - other))
    return np.where(np.isnan(distance), np.inf, distance)


def _rounding(op: Map, args: tuple[Bounded, ...], result: Array, p: Precision, *, narrowed: bool) -> Errors:
    if not is_float(op.dtype):
        return EXACT
    if op.fn in CASTS:
        rounds = narrowed or args[0].array.dtype.kind != "f"
        return p.unit * _size(result) + p.tiny * narrowed if rounds else EXACT
    if op.fn == PATTERN:
        return EXACT
    ulp, (low, high) = SCALARS[op.fn].error(kind_of(op.dtype))
    if ulp == 0:
        return EXACT
    outside = [np.less(a.array, low) | np.greater(a.array, high) for a in args if a.array.dtype.kind == "f"]
    # NumPy rounds in float64, too, and its functions have an error of at most one unit.
    ulp += 1.0 if p is DOUBLE and ulp > ROUNDED else 0.0
    error: Errors = ulp * 2 * p.unit * _size(result) + p.tiny
    for away in outside:
        error = np.where(away, np.inf, error)
    return error


def _reduced(op: Reduce, x: Bounded, p: Precision) -> Errors:
    instruction = FOLDS[op.fn].op
    error = np.broadcast_to(x.error, x.array.shape)
    if instruction in (Op.MAX, Op.MIN):
        return np.asarray(error.max(axis=op.axes, keepdims=True, initial=0.0))
    total = error.sum(axis=op.axes, keepdims=True)
    if x.array.dtype.kind != "f":
        return np.asarray(total if instruction is Op.ADD else np.where(total > 0, np.inf, 0.0))
    size = _size(x.array)
    unit = p.unit * (8 + 2 * np.sqrt(np.prod([x.array.shape[k] for k in op.axes], dtype=np.float64)))
    if instruction is Op.MUL:
        return _multiplied(op.axes, size, error, unit, p)
    grown = size.sum(axis=op.axes, keepdims=True)
    return np.where(grown > p.largest, np.inf, total + unit * grown)  # a partial sum may have overflowed


def _is_endless(op: Contract, args: tuple[Bounded, ...], part: tuple[int, ...]) -> Array:
    """True where a sum with a matrix of an algorithm (`Const.is_part`), or another sum of its tile, is beyond
    float32. Kernels omit the zeros of such a matrix, and make the whole tile NaN if one of its sums is not
    finite."""
    sums = op.contracted(*(x.array for x in args))
    axes = tuple(k for k, label in enumerate(op.out) if label in part)
    return np.logical_not((np.abs(sums) <= np.finfo(np.float32).max).all(axes, keepdims=True))


def _summed(op: Contract | Mended, value: Value, args: tuple[Bounded, ...], p: Precision) -> Errors:
    """The bound of a sum of products. Where the value is mended, it is that of the sum; elsewhere that of the
    first operand; and where a kernel may have mended it, it covers both."""
    if isinstance(op, Contract):
        errors = _contracted(op, args, p, all(a.dtype is DataType.BF16 for a in value.args))
        parts = [
            labels
            for x, labels in zip(value.args, (op.left, op.right), strict=True)
            if isinstance(x.op, Const) and x.op.is_part
        ]
        return np.where(_is_endless(op, args, parts[0]), np.inf, errors) if parts else errors
    mended, instead = args[0], op.sums(value.dtype)
    sums = _contracted(instead, args[1:], p, bfloat=False)
    either = op.broken(np.where(np.broadcast_to(np.isinf(mended.error), mended.array.shape), np.nan, 0.0))
    away = (
        _distance(mended.array, instead.contracted(*(x.array for x in args[1:]))) if either.any() else EXACT
    )
    errors = np.where(either, np.maximum(mended.error, away + sums), mended.error)
    return np.where(op.broken(mended.array), sums, errors)


def _contracted(op: Contract, args: tuple[Bounded, ...], p: Precision, bfloat: bool) -> Errors:
    """The bound of a sum of products whose factors both have errors; `bfloat`: numbers below the normal range
    may be 0, as products and as factors."""

    def product(a: Errors, b: Errors) -> Errors:
        return op.contracted(a, b).astype(np.float64)

    a, b = (_size(z.array) for z in args)
    x, y = (np.broadcast_to(z.error, z.array.shape) for z in args)
    error = product(x, y + b) + product(a, y)
    if args[0].array.dtype.kind != "f":
        return error
    # A number that may be 0 or have either sign, times infinity or NaN, may be any number.
    unsure, endless = ([_unsure(z, bfloat) for z in args], [~np.isfinite(z.array) for z in args])
    for left, right in ((unsure[0], endless[1]), (endless[0], unsure[1])):
        if left.any() and right.any():
            pairs = product(left.astype(np.float64), right.astype(np.float64))
            error = np.where(pairs > 0, np.inf, error)
    grown, terms = product(a, b), product(np.ones_like(a), np.ones_like(b))
    error = error + p.unit * (8 + 2 * np.sqrt(terms)) * grown + (LEAST if bfloat else p.tiny) * terms
    if bfloat:
        error = error + product(_lost(a, x), b) + product(a, _lost(b, y))
    return np.where(grown > p.largest, np.inf, error)


def _unsure(x: Bounded, bfloat: bool) -> NDArray[np.bool_]:
    """True where a number may be 0 or have either sign, and is not known to be 0."""
    size = np.abs(x.array.astype(np.float64))
    unsure = (size <= x.error) & (x.error > 0)
    lost = unsure | ((size > 0) & (size < LEAST)) if bfloat else unsure
    return np.broadcast_to(lost, x.array.shape)


def _lost(size: Errors, error: Errors) -> Errors:
    """The error of factors that may be below the normal range and become 0."""
    return np.where(size - error < LEAST, size, 0.0)


def _gathered(op: Gather, x: Bounded, at: Bounded) -> Errors:
    """The bounds of the elements read; unbounded if the position is uncertain."""
    error, unsure = np.broadcast_to(x.error, x.array.shape), np.broadcast_to(at.error, at.array.shape) > 0
    return np.where(unsure, np.inf, op.ref((error, at.array), at.array.shape).astype(np.float64))


def _ranked(op: Ranked, x: Bounded, result: Array) -> Errors:
    """0 where an element's rank is certain, since it differs from its neighbours in order by more than both
    errors; otherwise unbounded."""
    if x.exact:
        return EXACT
    order = op.ordered(x.array)
    size, last = order.shape[op.axis], result.shape[op.axis]
    ranks = np.argsort(order, axis=op.axis, kind="stable")
    sorted_ = np.take_along_axis(order, ranks, op.axis).astype(np.float64)
    off = np.take_along_axis(np.broadcast_to(x.error, order.shape), ranks, op.axis)
    most = off.max(axis=op.axis, keepdims=True, initial=0.0)
    distinct = np.diff(sorted_, axis=op.axis) > 2 * most
    edge = np.ones_like(sorted_.take(range(min(size, 1)), op.axis), dtype=np.bool_)
    sure = np.concatenate((edge, distinct), op.axis) & np.concatenate((distinct, edge), op.axis)
    return np.where(sure.take(range(last), op.axis) | (most == 0), 0.0, np.inf)


def _scanned(op: Scan, args: tuple[Bounded, ...], p: Precision) -> Errors:
    """The bound of a fold at every position; the initial value of a row counts as one more element."""
    x, *first = args
    if not first:
        return _folded_so_far(op, x, p)
    parts = (x, *first) if op.reverse else (*first, x)
    error = np.concatenate([np.broadcast_to(a.error, a.array.shape) for a in parts], op.axis)
    whole = Bounded(np.concatenate([a.array for a in parts], op.axis), error)
    folds = np.broadcast_to(_folded_so_far(replace(op, exclusive=False), whole, p), whole.array.shape)
    begin = int(op.exclusive == op.reverse)
    return folds.take(range(begin, begin + x.array.shape[op.axis]), op.axis)


def _folded_so_far(op: Scan, x: Bounded, p: Precision) -> Errors:
    error, size = np.broadcast_to(x.error, x.array.shape), _size(x.array)
    if op.fn in ("max", "min"):
        return op.scanned(np.maximum.accumulate, error).astype(np.float64)
    is_sum, accumulate = op.fn == "sum", np.add.accumulate if op.fn == "sum" else np.multiply.accumulate
    grown = op.scanned(accumulate, size + error).astype(np.float64)
    total = op.scanned(accumulate, error if is_sum else size).astype(np.float64)
    if x.array.dtype.kind != "f":
        wrong = total if is_sum else np.where(grown != total, np.inf, 0.0)
        return np.asarray(wrong)
    terms = op.scanned(np.add.accumulate, np.ones_like(size)).astype(np.float64)
    rounding = p.unit * (8 + 2 * np.sqrt(terms)) * grown
    least = op.scanned(np.minimum.accumulate, np.where(size > 0, total, 1.0)).astype(np.float64)
    unknown = (grown > p.largest) | (not is_sum and (least < 1 / p.largest))
    return np.where(unknown, np.inf, (total if is_sum else grown - total + p.tiny) + rounding)


def _scattered(op: Scatter, args: tuple[Bounded, ...], dtype: DataType) -> Errors:
    """The bound of folds that round to `dtype` each time; all elements are unbounded if a position is
    uncertain."""
    x, at, updates = args
    shape, extent = x.array.shape, at.array.shape

    def put(fn: str, a: Array, b: Array) -> Errors:
        both = np.broadcast_to(a, shape), at.array, np.broadcast_to(b, extent)
        return replace(op, fn=fn).ref(both, shape).astype(np.float64)

    if np.any(at.error > 0):
        return np.full(shape, np.inf)
    if op.fn in (LAST, "max", "min"):
        return put(LAST if op.fn == LAST else "max", x.error, updates.error)
    a, b = _size(x.array), _size(updates.array)
    grown = put(op.fn, a + x.error, b + updates.error)
    error = put("sum", x.error, updates.error) if op.fn == "sum" else grown - put("prod", a, b)
    if x.array.dtype.kind != "f":
        return error if op.fn == "sum" else np.where(error != 0, np.inf, 0.0)
    p = Precision.of(dtype)
    unit, largest = HALVES.get(dtype, (p.unit, p.largest))
    most, least = (
        put("prod", np.maximum(a, 1.0), np.maximum(b, 1.0)),
        np.where(b > 0, np.minimum(b, 1.0), 1.0),
    )
    least = put("prod", np.where(a > 0, np.minimum(a, 1.0), 1.0), least)
    unknown = grown > largest if op.fn == "sum" else (most > largest) | (least < 1 / largest)
    return np.where(unknown, np.inf, error + 2 * unit * put("sum", np.zeros(()), np.ones(())) * grown)


def _multiplied(axes: tuple[int, ...], size: Errors, error: Errors, unit: float, p: Precision) -> Errors:
    """The bound of a product; infinity if a partial product may leave the range."""
    grown = (size + error).prod(axis=axes, keepdims=True)
    bound = grown - size.prod(axis=axes, keepdims=True) + unit * grown + p.tiny
    most = np.maximum(size + error, 1.0).prod(axis=axes, keepdims=True)
    least = np.where(size > 0, np.minimum(size, 1.0), 1.0).prod(axis=axes, keepdims=True)
    return np.where((most > p.largest) | (least < 1 / p.largest), np.inf, bound)


def _tapped(op: Taps, x: Bounded, result: Array) -> Errors:
    sizes = x.array.shape[op.axis], result.shape[op.axis]
    positions, weights = op.rule.table(*sizes)
    along = [-1 if k == op.axis else 1 for k in range(x.array.ndim)]
    error, size = np.broadcast_to(x.error, x.array.shape), _size(x.array)
    unit = (WEIGHED * UNIT / _divisor(op.rule, sizes, weights)).reshape(along)
    total = np.full(result.shape, SINGLE.tiny)  # a sum of zeros may have either sign
    for t in range(op.rule.count):
        here, weight = positions[:, t], np.abs(weights[:, t]).reshape(along)
        moved = np.take(error, here, axis=op.axis) * weight + np.take(size, here, axis=op.axis) * unit
        # A weight near 0 may be 0 or have the other sign in a kernel; a weight of 0 is exact.
        endless = np.isinf(np.take(x.array, here, axis=op.axis)) & (weight < WEIGHED * UNIT)
        total += np.where(weight == 0, 0.0, np.where(endless, np.inf, moved))
    return total


def _divisor(rule: TapRule, sizes: tuple[int, int], weights: Errors) -> Errors:
    """The divisor of the weights of each output, at most 1, since only a smaller one enlarges their
    errors."""
    match rule:
        case Cubic(exclude_outside=True):
            _, whole = replace(rule, exclude_outside=False).table(*sizes)
            return np.asarray(np.minimum(1.0, np.abs(np.where(weights != 0, whole, 0.0).sum(axis=1))))
    return np.ones(len(weights))


def _size(x: Array) -> Errors:
    """The magnitudes that rounding errors are relative to: infinities and NaN are not rounded."""
    return np.where(np.isfinite(x), np.abs(x.astype(np.float64)), 0.0)


def _unknown(array: Array, error: Errors, p: Precision) -> Errors:
    """Infinity where a kernel cannot represent the number, or where the bound is NaN."""
    unknown = np.isnan(error)
    if array.dtype.kind == "f":
        unknown = unknown | (np.isfinite(array) & (np.abs(array) > p.largest))
    return np.where(unknown, np.inf, error) if unknown.any() else error
