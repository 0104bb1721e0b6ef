"""Kernel expressions evaluated with NumPy: the machine semantics of `ir/kernel.py`, node by node.

Tests compare generated code with it, and measure the errors of the scalar functions with it.

    >>> from anyrt.ir.buffer import Buffer, Scalar, Space
    >>> from anyrt.ir.kernel import load
    >>> x = load(Buffer("x", Scalar.F32, Space.INPUT, 3), Sym("i", extent=3).dim)
    >>> evaluate(x * x, {"x": np.float32([1, 2, 3])}, {"i": np.arange(3)})
    array([1., 4., 9.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import EQ, FLOORDIV, MAX, MIN, MOD, SCALE, TDIV, Atom, Dim, Fn, Sym
from anyrt.ir.angle import angle
from anyrt.ir.buffer import BITS, Scalar
from anyrt.ir.intrinsic import text_of
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Index, Intrinsic, Load, Op, operands

Array = NDArray[np.generic]
Ints = NDArray[np.int64]  # or any other width
Floats = NDArray[np.float64]

DTYPES: dict[Scalar, np.dtype[np.generic]] = {
    Scalar.BOOL: np.dtype(np.bool_),
    Scalar.I8: np.dtype(np.int8),
    Scalar.U8: np.dtype(np.uint8),
    Scalar.I16: np.dtype(np.int16),
    Scalar.I32: np.dtype(np.int32),
    Scalar.I64: np.dtype(np.int64),
    Scalar.U64: np.dtype(np.uint64),
    Scalar.F16: np.dtype(np.float16),
    Scalar.BF16: np.dtype(ml_dtypes.bfloat16),
    Scalar.F32: np.dtype(np.float32),
    Scalar.F64: np.dtype(np.float64),
}


def evaluate(x: Expr, buffers: Mapping[str, Array], symbols: Mapping[str, Ints]) -> Array:
    """The value of `x`, for flat arrays by buffer name and integer arrays of one shape by symbol name."""
    with np.errstate(all="ignore"):
        return Evaluation(_Poisoned(buffers), symbols).value(x)


class Memory(Protocol):
    """The source of values of an evaluation; both methods may raise."""

    def read(self, x: Load, at: Ints) -> Array:
        """The elements that `x` loads at these indices."""

    def check(self, sym: Sym, value: Ints) -> None:
        """Bind a symbol to these values."""


@dataclass(frozen=True, slots=True)
class _Poisoned:
    """Arrays that return a value of their own beyond their ends."""

    buffers: Mapping[str, Array]

    def read(self, x: Load, at: Ints) -> Array:
        flat, buffer = self.buffers[x.buffer.name].reshape(-1), x.buffer
        assert flat.dtype.itemsize == DTYPES[buffer.stored].itemsize, f"{buffer.name}: {flat.dtype} elements"
        flat = flat.view(DTYPES[buffer.stored])
        inside = (at >= 0) & (at < flat.size)
        # A select may discard values from outside.
        return np.where(inside, flat[np.where(inside, at, 0)], poison(buffer.stored))

    def check(self, sym: Sym, value: Ints) -> None:
        """No condition on these."""


def fma_once(a: Array, b: Array, c: Array) -> Array:
    """a × b + c rounded once to the type of `a`, float32 or narrower.

    The product is exact in float64; its sum with `c` is rounded to odd, which makes the second rounding
    harmless (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    p: Floats = a.astype(np.float64) * b.astype(np.float64)
    wide: Floats = c.astype(np.float64)
    s = np.asarray(p + wide)
    shadow = s - p
    error = (p - (s - shadow)) + (wide - shadow)
    bits = s.view(np.int64)
    inexact = ((error > 0) | (error < 0)) & (bits & 1 == 0)
    outwards = np.where((error > 0) == (s > 0), 1, -1)
    odd: Floats = (bits + inexact * outwards).view(np.float64)
    return odd.astype(a.dtype)


def poison(type: Scalar) -> Array:
    """The result of a load from an empty buffer, chosen so that using it is noticed: NaN or the smallest
    integer."""
    return np.array(np.nan if type.is_float else _limits(type)[0], DTYPES[type])


@dataclass(slots=True)
class Evaluation:
    """Expressions and indices evaluated together: each is computed once, even if it is shared."""

    memory: Memory
    symbols: Mapping[str, Ints]
    _known: dict[Expr, Array] = field(default_factory=dict)
    _dims: dict[Dim, Ints] = field(default_factory=dict)

    def value(self, x: Expr) -> Array:
        """The value of `x`: operands first, with an explicit stack, since fused expressions are deeper than
        Python recurses."""
        waiting = [x]
        while waiting:
            node = waiting[-1]
            missing = [a for a in operands(node) if a not in self._known]
            if missing:
                waiting.extend(missing)
                continue
            if node not in self._known:
                self._known[node] = self._compute(node)
            waiting.pop()
        return self._known[x]

    def _compute(self, x: Expr) -> Array:
        match x:
            case Const(value=value, type=type):
                return np.array(value, DTYPES[type])
            case Index(dim=dim, type=type):
                return self.dim(dim).astype(DTYPES[type])
            case Load(index=dim, elements=count, word=True):
                each = (self.memory.read(x, self.dim(dim) + k) for k in range(count))
                return np.ascontiguousarray(np.stack(list(each), -1)).view(DTYPES[x.type])[..., 0]
            case Load(index=dim):
                return self.memory.read(x, self.dim(dim))
            case Cast(arg=arg, type=type):
                return _cast(self.value(arg), type)
            case Alu(op=Op.BITCAST, args=(arg,), type=type):
                return self.value(arg).view(DTYPES[type])
            case Alu(op=op, args=args, type=type):
                if isinstance(op, Intrinsic):
                    return self.value(text_of(x))
                return np.asarray(OPS[op](*map(self.value, args))).astype(DTYPES[type], copy=False)

    def dim(self, x: Dim) -> Ints:
        """The value of an index."""
        if x not in self._dims:
            self._dims[x] = self._dim(x)
        return self._dims[x]

    def _dim(self, x: Dim) -> Ints:
        if isinstance(x, int):
            return np.array(x, np.int64)
        total = np.zeros((), np.int64)
        for monomial, coefficient in x.terms:
            product = np.array(coefficient, np.int64)
            for atom in monomial:
                product = np.asarray(product * self._atom(atom))
            total = total + product
        return total

    def _atom(self, atom: Atom) -> Ints:
        match atom:
            case Sym(name=name) if name in self.symbols:
                return np.asarray(self.symbols[name], np.int64)
            case Sym(name=name, source=source):
                assert isinstance(source, Const | Index | Load | Alu | Cast), f"symbol {name} has no value"
                value = np.asarray(self.value(source), np.int64)
                self.memory.check(atom, value)
                return value
            case Fn(op=op, args=args, factor=factor) if op == SCALE:
                scaled = self.dim(args[0]).astype(np.float32) * np.float32(factor)
                return np.asarray(np.floor(scaled), np.int64)
            case Fn(op=op, args=(a, b)):
                return np.asarray(_DIM_OPS[op](self.dim(a), self.dim(b)), np.int64)
        raise AssertionError(f"unknown atom {atom}")


def _cast(x: Array, type: Scalar) -> Array:
    target = DTYPES[type]
    if type is Scalar.BOOL:
        return np.asarray(x != np.zeros((), x.dtype))
    from_float = x.dtype.kind not in "iub"
    if type in (Scalar.F16, Scalar.BF16):
        return x.astype(np.float32).astype(target)
    if type.is_float or not from_float:
        return x.astype(target)
    wide = np.trunc(x.astype(np.float64))
    low, high = _limits(type)
    # high + 1 is a power of two and exact in float64; a 64-bit high is not.
    above, below = wide >= float(high + 1), wide < float(low)
    inside = np.where(above | below | np.isnan(wide), 0.0, wide).astype(target)
    return np.where(above, np.array(high, target), np.where(below, np.array(low, target), inside))


def _limits(type: Scalar) -> tuple[int, int]:
    if type in (Scalar.BOOL, Scalar.U8, Scalar.U64):
        return 0, (1 << BITS[type]) - 1
    return -(1 << (BITS[type] - 1)), (1 << (BITS[type] - 1)) - 1


def _is_integer(x: Array) -> bool:
    return np.issubdtype(x.dtype, np.integer)


def _fma(a: Floats, b: Floats, c: Floats) -> Array:
    if _is_integer(a):
        return np.asarray(a * b + c)
    if a.dtype != np.float64:
        return fma_once(a, b, c)
    # By products of halves, which are exact in 64-bit significands, so the rounding error of a product is
    # exact. One case in 2048 rounds twice; no expansion depends on it.
    (a0, a1), (b0, b1) = _halves(a), _halves(b)
    total = ((c + a0 * b0) + (a0 * b1 + a1 * b0)) + a1 * b1
    return np.where(np.isfinite(total), total, a.astype(np.longdouble) * b + c).astype(np.float64)


def _halves(x: Floats) -> tuple[NDArray[np.longdouble], NDArray[np.longdouble]]:
    """The upper 32 bits of the significand, and the lower 21."""
    upper = (np.ascontiguousarray(x).view(np.int64) & -(1 << 21)).view(np.float64).reshape(x.shape)
    return upper.astype(np.longdouble), (x - upper).astype(np.longdouble)


def _divide(a: Ints, b: Ints) -> Array:
    if not _is_integer(a):
        return np.asarray(np.divide(a, b))
    quotient = a // b  # NumPy gives 0 for a zero divisor, as the kernel IR does
    return np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)))


def _logical_shift(a: Array, n: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.asarray(a.view(unsigned) >> n.astype(unsigned)).view(a.dtype)


def _ldexp(x: Floats, n: Floats) -> Array:
    """`x` with n where it is out of range, discarded or NaN."""
    return np.asarray(np.ldexp(x, np.clip(np.nan_to_num(n), -3000, 3000).astype(np.int32)))


def _code(word: Array, at: Array) -> Array:
    return np.right_shift(np.left_shift(word, np.subtract(28, at)), 28).astype(np.float32)


OPS: dict[Op, Callable[..., Array]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: _divide,
    Op.FLOORDIV: np.floor_divide,
    Op.MOD: np.mod,
    Op.REM: np.fmod,
    Op.ANGLE: angle,
    Op.FMA: _fma,
    Op.NEG: np.negative,
    Op.ABS: np.abs,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
    Op.SQRT: np.sqrt,
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.RINT: np.rint,
    Op.TRUNC: np.trunc,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.NOT: np.invert,
    Op.SHL: np.left_shift,
    Op.SHR: np.right_shift,
    Op.LSHR: _logical_shift,
    Op.LDEXP: _ldexp,
    Op.CODE: _code,
    Op.SELECT: np.where,
}

_DIM_OPS: dict[str, Callable[[Ints, Ints], Array]] = {
    FLOORDIV: np.floor_divide,
    MOD: np.mod,
    TDIV: _divide,
    MIN: np.minimum,
    MAX: np.maximum,
    EQ: np.equal,
}
