"""A scalar function of every element; operands of size 1 broadcast along the axes of the others.

>>> from anyrt.core.enums import DataType
>>> x, row = Type((4, 3), DataType.FLOAT), Type((1, 3), DataType.FLOAT)
>>> Map("lt", DataType.BOOL).infer((x, row))
bool[4, 3]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import numpy as np

from anyrt.core.dimbroadcast import broadcast as common_size
from anyrt.core.dims import Dim, add, always_le, beneath, minimum, mul
from anyrt.core.dtype import is_float, is_integer, numpy_dtype, short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.buffer import COMPUTED, Buffer, Scalar, Space
from anyrt.ir.compute import Compute, Elements, Seen
from anyrt.ir.graph import Shape, Type, Value
from anyrt.ir.kernel import Alu, Expr, bitcast, cast, load
from anyrt.ir.kernel import Cast as KernelCast
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.ir.visit import parts
from anyrt.prims._check import check_type, differ, expect, same_types, short_shape, show
from anyrt.prims._convert import convert, convert_array, wrap, wrap_array
from anyrt.prims._sizes import size_function
from anyrt.prims.scalar import SCALARS
from anyrt.prims.scalar.table import Kind, ResultKind

CAST = "cast"
ROUNDING = frozenset({"to_half", "to_bf16"})
# Functions that are NaN if any operand is, and comparisons that are false or true then.
SPREADING = ROUNDING | {CAST, "add", "sub", "mul", "fma", "div", "div_short", "floordiv", "mod", "fmod"}
SPREADING |= {"max", "min", "identity", "neg", "abs", "sign", "square", "ceil", "floor", "round", "trunc"}
SPREADING |= {"sqrt", "rsqrt", "recip", "exp", "expm1", "log", "log1p", "erf", "sigmoid", "sigmoid_short"}
SPREADING |= {"sin", "cos", "tan", "asin", "acos", "atan"}
SPREADING |= {"sinh", "cosh", "tanh", "asinh", "acosh", "atanh"}
DENYING = frozenset({"eq", "lt", "le", "gt", "ge", "isinf"})
AFFIRMING = frozenset({"ne", "isnan"})
# Functions of bools: the operand value that decides, and the result if all have the other one.
DECIDING = {"and": (Seen.NO, Seen.YES), "or": (Seen.YES, Seen.NO)}
NARROW = "narrow"  # the same for float64 to a narrower float, because the network requests it
CASTS = frozenset({CAST, NARROW})
PATTERN = "pattern"  # reinterpret bits between a number and an integer
SELECT = "select"  # the one function whose operands differ in type: the first is bool
# Types of numbers and of the integers with their bits, and the stored type of both.
PATTERNS = {
    DataType.HALF: (DataType.INT16, Scalar.F16, Scalar.I16),
    DataType.FLOAT: (DataType.INT32, Scalar.F32, Scalar.I32),
    DataType.DOUBLE: (DataType.INT64, Scalar.F64, Scalar.I64),
}
# The types in which narrow integers are computed.
WIDENED = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True, slots=True)
class Map(Prim):
    """`fn` (a key of SCALARS, "cast", "narrow" or "pattern") of the operands' elements, as `dtype`."""

    fn: str
    dtype: DataType

    def compute(self) -> Compute:
        """A function of the elements at the same index."""
        return _each(self.fn)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operands' common shape; their types must suit the function."""
        if self.fn in CASTS:
            expect(args, 1, "map")
            return Type(args[0].shape, self.dtype)
        if self.fn == PATTERN:
            expect(args, 1, "map")
            _pattern(args[0].dtype, self.dtype)
            return Type(args[0].shape, self.dtype)
        if self.fn not in SCALARS:
            raise ArgumentError("AR304", "map", got=f"function {self.fn!r}", wanted="a known scalar function")
        expect(args, SCALARS[self.fn].arity, "map")
        self._check_types(tuple(a.dtype for a in args))
        return Type(reduce(broadcast, [a.shape for a in args]), self.dtype)

    @property
    def narrows(self) -> bool:
        """Conversions that the network requests."""
        return self.fn == NARROW

    def _check_types(self, types: tuple[DataType, ...]) -> None:
        fn = SCALARS[self.fn]
        if self.fn == SELECT:
            check_type(types[0], frozenset({DataType.BOOL}), "map")
            types = types[1:]
        same_types(types, "map")
        if kind_of(types[0]) not in fn.kinds:
            wanted = " or ".join(sorted(k.value for k in fn.kinds))
            raise DTypeError("AR202", "map", got=f"{self.fn} of {short_name(types[0])}", wanted=wanted)
        result = DataType.BOOL if fn.result is ResultKind.BOOL else types[0]
        if self.dtype is not result:
            got, wanted = f"{short_name(self.dtype)} as result of {self.fn}", short_name(result)
            raise DTypeError("AR203", "map", got=got, wanted=wanted, do="cast the result")

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Sizes that are equal or 1, if symbols do not decide that."""
        requirements: list[Requirement] = []
        for k, other in enumerate(args[1:], 1):
            sofar = reduce(broadcast, [a.shape for a in args[:k]])
            do = f"make the operands' sizes equal or 1: {show(sofar)} and {show(other.shape)}"
            requirements += [
                Requirement(a, Relation.BROADCAST, b, "AR112", where, do)
                for a, b in zip(sofar, other.shape, strict=True)
                if a != b and 1 not in (a, b)
            ]
        return tuple(requirements)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The function's NumPy definition; narrow integers compute in more bits and wrap."""
        if self.fn in CASTS:
            return convert_array(args[0], self.dtype)
        if self.fn == PATTERN:
            return _bits_of(args[0], self.dtype)
        wide = [a.astype(WIDENED.get(a.dtype.name, a.dtype), copy=False) for a in args]
        with np.errstate(all="ignore"):
            result = SCALARS[self.fn].ref(*(np.broadcast_to(a, out) for a in wide))
        return wrap_array(result, self.dtype)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The function's expansion for the operands' elements."""
        operands = [x.at(_aligned(x.type.shape, out.shape, index)) for x in args]
        if self.fn in CASTS:
            return convert(operands[0], args[0].type.dtype, self.dtype)
        if self.fn == PATTERN:
            source, target = _pattern(args[0].type.dtype, self.dtype)
            return cast(bitcast(cast(operands[0], source), target), COMPUTED[self.dtype])
        return wrap(SCALARS[self.fn].expand(*operands), self.fn, self.dtype)

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The function of sizes, if there is one."""
        fn, known, shape = size_function(self.fn), [a for a in args if a is not None], short_shape(out.shape)
        if fn is None or len(known) < len(args) or shape is None or is_float(self.dtype):
            return None
        result = np.empty(shape, dtype=object)
        operands = [np.broadcast_to(a, shape) for a in known]
        for at in np.ndindex(shape):
            value = fn(self.dtype, *(x[at] for x in operands))
            if value is None:
                return None
            result[at] = value
        return result


def _pattern(source: DataType, target: DataType) -> tuple[Scalar, Scalar]:
    """What lies in memory before and after."""
    for number, (integer, real, whole) in PATTERNS.items():
        if (source, target) == (number, integer):
            return real, whole
        if (source, target) == (integer, number):
            return whole, real
    got = f"the bits of {short_name(source)} as {short_name(target)}"
    pairs = ", ".join(f"{short_name(a)} and {short_name(b)}" for a, (b, _, _) in PATTERNS.items())
    raise DTypeError("AR203", "map", got=got, wanted=pairs, do="cast between integers first")


def _bits_of(x: Array, target: DataType) -> Array:
    """The same for arrays of the interpreter, where numbers are float64."""
    if target in PATTERNS:
        return x.view(numpy_dtype(target)).astype(np.float64)
    (number,) = (a for a, (b, _, _) in PATTERNS.items() if b is target)
    return x.astype(numpy_dtype(number)).view(numpy_dtype(target))


def kind_of(t: DataType) -> Kind:
    """The type as scalar functions name it."""
    if t is DataType.BOOL:
        return Kind.BOOL
    if t is DataType.DOUBLE:
        return Kind.DOUBLE
    return Kind.INT if is_integer(t) else Kind.FLOAT


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of the broadcast of both; an error if there is none."""
    if len(a) != len(b):
        got = f"ranks {len(a)} and {len(b)}"
        raise ShapeError("AR122", "map", got=got, wanted="equal ranks", do="insert unit dimensions")
    return tuple(_common(m, n, a, b) for m, n in zip(a, b, strict=True))


def _common(m: Dim, n: Dim, a: Shape, b: Shape) -> Dim:
    """The size that two sizes broadcast to; for symbols it holds if their requirement does."""
    if m == n or n == 1:
        return m
    if m == 1:
        return n
    if n == beneath(m, 1) or m == beneath(n, 1):  # both are 1, or none is
        return n if n == beneath(m, 1) else m
    if differ(m, n) and differ(m, 1) and differ(n, 1):
        raise ShapeError("AR112", "map", got=f"shapes {show(a)} and {show(b)}", wanted="sizes equal or 1")
    if isinstance(m, int) or isinstance(n, int):
        return m if isinstance(m, int) else n  # not 1, so it is the result
    if differ(m, 1) or differ(n, 1):
        return m if differ(m, 1) else n
    return common_size(m, n)


def fn_of(value: Value) -> str | None:
    """The function of a map; None for other primitives."""
    return value.op.fn if isinstance(value.op, Map) else None


def _aligned(shape: Shape, out: Shape, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The index of an operand: 0 along the axes where it has size 1, computed if that is dynamic."""
    return tuple(_along(d, o, i) for d, o, i in zip(shape, out, index, strict=True))


def _along(size: Dim, out: Dim, i: Dim) -> Dim:
    if size == 1:
        return 0
    if size == out or always_le(2, size):
        return i
    return mul(i, minimum(add(size, -1), 1))


@lru_cache(maxsize=512)
def _each(fn: str) -> Compute:
    cost = partial(instructions, fn)
    return Elements(same=True, cost=cost, of_nan=partial(_of_nan, fn), rounds=fn in ROUNDING)


def _of_nan(fn: str, operands: Sequence[Seen]) -> Seen:
    """What is known of a function's result."""
    if fn == SELECT:
        condition, yes, no = operands
        chosen = {Seen.YES: yes, Seen.NO: no}.get(condition)
        return chosen or (yes if yes is no else Seen.ANY)
    if fn == "not":
        return {Seen.YES: Seen.NO, Seen.NO: Seen.YES}.get(operands[0], Seen.ANY)
    if fn in DECIDING:
        least, most = DECIDING[fn]
        return least if least in operands else most if set(operands) == {most} else Seen.ANY
    if Seen.NAN not in operands:
        return Seen.ANY
    outcomes = (fn in SPREADING, Seen.NAN), (fn in DENYING, Seen.NO), (fn in AFFIRMING, Seen.YES)
    return next((seen for holds, seen in outcomes if holds), Seen.ANY)


@lru_cache(maxsize=512)
def instructions(fn: str, dtype: DataType) -> int:
    """Instructions in the expansion of a scalar function."""
    if fn in {*CASTS, PATTERN, SELECT}:
        return 1
    operands = [load(Buffer(f"w{k}", COMPUTED[dtype], Space.REGISTER), 0) for k in range(SCALARS[fn].arity)]
    return sum(isinstance(x, Alu | KernelCast) for x in parts([SCALARS[fn].expand(*operands)], bound=False))
