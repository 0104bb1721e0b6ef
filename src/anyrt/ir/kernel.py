"""The kernel IR: loops over buffers with scalar expressions; the output of fusing and the input of code
generation.

Two kinds of expression: indices are `Dim`s (core/dims.py), whose algebra knows ranges and strides; values are
`Expr`s of this file, typed and interned (equal expressions are one object, so sharing costs nothing).
`Index(dim)` turns an index into a value; `bound(expr)` turns a value into a symbol that indices may use (a
table of taps, say).

There are no vector nodes: `For(kind=VECTOR)` is widened by codegen.

    >>> from anyrt.ir.buffer import Space
    >>> x = Buffer("x", Scalar.F32, Space.INPUT, 8)
    >>> i = Sym("i", extent=8)
    >>> load(x, i.dim) + const(1.0, Scalar.F32)
    add(x[i], 1.0)
"""

from __future__ import annotations

import enum
import weakref
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeAlias

from anyrt.core.dims import Dim, Sym, symbols
from anyrt.ir.buffer import BITS, Buffer, Scalar

BRIEF: Final = 48  # maximum length of an expression in a name


class Op(enum.Enum):
    """Scalar instructions. Integer ADD, SUB, MUL wrap; DIV truncates and, like MOD (floor), gives 0 for a
    zero divisor."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOORDIV = "floordiv"
    MOD = "mod"
    REM = "rem"  # of floats 0 ≤ a < ∞ and b > 0: a − b × floor(a / b), exact; otherwise undefined
    ANGLE = "angle"  # of float32: a > 2³¹ without whole turns, in −π … π to 2⁻²²; else a itself (ir/angle.py)
    FMA = "fma"
    NEG = "neg"
    ABS = "abs"
    MIN = "min"  # of floats: NaN when either is NaN
    MAX = "max"
    SQRT = "sqrt"
    FLOOR = "floor"
    CEIL = "ceil"
    RINT = "rint"  # half to even
    TRUNC = "trunc"
    LT = "lt"
    LE = "le"
    EQ = "eq"
    NE = "ne"  # of floats: unordered, true for NaN
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    SHL = "shl"
    SHR = "shr"  # arithmetic, of U64 logical
    LSHR = "lshr"  # logical
    LDEXP = (
        "ldexp"  # a × 2ᵇ, b a whole number of −252 … 254, or of −2044 … 2046; of normal results rounded once
    )
    CODE = "code"  # of int32: the signed number in the 4 bits of a from bit b on, as float32
    SELECT = "select"
    BITCAST = "bitcast"  # same width


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An instruction of some targets that kernels name: the sum `total` of the products of the terms of two
    words, of the types `first` and `second`. Its text (ir/intrinsic.py) defines the result: the interpreter
    executes it, and a target without the instruction compiles it."""

    name: str
    first: Scalar
    second: Scalar
    total: Scalar

    @property
    def parts(self) -> int:
        """Terms of a word."""
        return BITS[Scalar.I32] // BITS[self.first]

    @property
    def value(self) -> str:
        """Its name in texts, as an Op has one."""
        return self.name


HALVES: Final = frozenset({Scalar.F16, Scalar.BF16})
COMPARES = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})


def neutral(op: Op, type: Scalar) -> float | int | bool:
    """The neutral element of a fold."""
    if op is Op.ADD:
        return -0.0 if type.is_float else 0  # −0 + 0 is not −0
    if op is Op.OR:
        return 0
    if op is Op.MUL:
        return 1
    if type.is_float:
        return float("inf") if op is Op.MIN else float("-inf")
    if type is Scalar.BOOL:
        return op is Op.AND
    if type is Scalar.U64:
        return (1 << BITS[type]) - 1 if op in (Op.MIN, Op.AND) else 0
    top = (1 << (BITS[type] - 1)) - 1
    return top if op is Op.MIN else -top - 1


class Arithmetic:
    """Operators on expressions, so that scalar functions read like formulas; Python numbers become
    literals."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Expr:
        return _binary(Op.ADD, self, other)

    def __radd__(self, other: float) -> Expr:
        return _binary(Op.ADD, self, other)

    def __sub__(self, other: Operand) -> Expr:
        return _binary(Op.SUB, self, other)

    def __rsub__(self, other: float) -> Expr:
        return _binary(Op.SUB, self, other, swapped=True)

    def __mul__(self, other: Operand) -> Expr:
        return _binary(Op.MUL, self, other)

    def __rmul__(self, other: float) -> Expr:
        return _binary(Op.MUL, self, other)

    def __truediv__(self, other: Operand) -> Expr:
        return _binary(Op.DIV, self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return _binary(Op.DIV, self, other, swapped=True)

    def __neg__(self) -> Expr:
        return alu(Op.NEG, _expr(self))

    def __and__(self, other: Operand) -> Expr:
        return _binary(Op.AND, self, other)

    def __or__(self, other: Operand) -> Expr:
        return _binary(Op.OR, self, other)

    def __xor__(self, other: Operand) -> Expr:
        return _binary(Op.XOR, self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return _binary(Op.SHL, self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return _binary(Op.SHR, self, other)

    def __lt__(self, other: Operand) -> Expr:
        return _binary(Op.LT, self, other)

    def __le__(self, other: Operand) -> Expr:
        return _binary(Op.LE, self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _binary(Op.LT, self, other, swapped=True)

    def __ge__(self, other: Operand) -> Expr:
        return _binary(Op.LE, self, other, swapped=True)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Const(Arithmetic):
    """A literal of machine type `type`."""

    value: float | int | bool
    type: Scalar

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Index(Arithmetic):
    """An index as a 64-bit value."""

    dim: Dim
    type: Scalar = Scalar.I64

    def __repr__(self) -> str:
        return f"index({self.dim!r})"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Load(Arithmetic):
    """One stored element of `buffer`, as its machine type; `word`: all elements that fill 32 bits from there
    on, the first one in the lowest bits. Element 0 of an empty buffer may be read if a condition discards it;
    its value is undefined."""

    buffer: Buffer
    index: Dim
    word: bool = False

    @property
    def type(self) -> Scalar:
        """The stored machine type, or a word's."""
        return Scalar.I32 if self.word else self.buffer.stored

    @property
    def elements(self) -> int:
        """The number of elements that are read."""
        return BITS[Scalar.I32] // BITS[self.buffer.stored] if self.word else 1

    def __repr__(self) -> str:
        element = f"{self.buffer.name}[{self.index!r}]"
        return f"word({element})" if self.word else element


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Alu(Arithmetic):
    """`op` applied to arguments of one type (SELECT: bool, then two of the result's type; intrinsics:
    words)."""

    op: Op | Intrinsic
    args: tuple[Expr, ...]
    type: Scalar

    def __repr__(self) -> str:
        name = f"bitcast.{self.type.value}" if self.op is Op.BITCAST else self.op.value
        return f"{name}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Cast(Arithmetic):
    """Conversion: float → int truncates and saturates (NaN gives 0); int → int wraps; → bool is x ≠ 0."""

    arg: Expr
    type: Scalar

    def __repr__(self) -> str:
        return f"{self.type.value}({self.arg!r})"


Expr: TypeAlias = Const | Index | Load | Alu | Cast
Operand: TypeAlias = Const | Index | Load | Alu | Cast | float | int
_INTERNED: weakref.WeakValueDictionary[tuple[object, ...], Expr] = weakref.WeakValueDictionary()


def _intern(node: Expr, *key: object) -> Expr:
    return _INTERNED.setdefault((type(node), *key), node)


def const(value: float | int | bool, type: Scalar) -> Expr:
    """A literal; its value is converted to the kind of `type`."""
    number: float | int | bool = (
        float(value) if type.is_float else bool(value) if type is Scalar.BOOL else int(value)
    )
    if type is Scalar.U64:
        number = int(number) % (1 << BITS[type])
    return _intern(Const(number, type), repr(number), type)


def index(dim: Dim) -> Expr:
    """An index as a 64-bit value."""
    return const(dim, Scalar.I64) if isinstance(dim, int) else _intern(Index(dim), dim)


def load(buffer: Buffer, at: Dim, word: bool = False) -> Expr:
    """One element as its stored machine type, or a word of them."""
    return _intern(Load(buffer, at, word), buffer, at, word)


def _expr(x: Arithmetic) -> Expr:
    assert isinstance(x, Const | Index | Load | Alu | Cast), f"{type(x).__name__} is no expression"
    return x


def _binary(op: Op, a: Arithmetic, b: Operand, swapped: bool = False) -> Expr:
    left = _expr(a)
    right = const(b, left.type) if isinstance(b, float | int) else b
    return alu(op, right, left) if swapped else alu(op, left, right)


def fma(a: Expr, b: Operand, c: Operand) -> Expr:
    """a × b + c, rounded once (floats)."""
    return alu(Op.FMA, a, *(const(x, a.type) if isinstance(x, float | int) else x for x in (b, c)))


def select(condition: Expr, then: Operand, otherwise: Operand) -> Expr:
    """`then` if `condition` holds, else `otherwise`; at most one of them is a Python number."""
    kind = next(x.type for x in (then, otherwise) if not isinstance(x, float | int))
    both = (const(x, kind) if isinstance(x, float | int) else x for x in (then, otherwise))
    return alu(Op.SELECT, condition, *both)


def alu(op: Op | Intrinsic, *args: Expr) -> Expr:
    """`op` on arguments; the result type follows from them. A select with a known condition is its
    operand."""
    if isinstance(op, Intrinsic):
        return _intern(Alu(op, args, op.total), op, args)
    result = Scalar.BOOL if op in COMPARES else Scalar.F32 if op is Op.CODE else args[-1].type
    typed = args[1:] if op is Op.SELECT else args
    assert all(a.type is typed[0].type for a in typed), (
        f"{op.value}: argument types differ: {[a.type for a in args]}"
    )
    if op is Op.SELECT and (args[1] is args[2] or isinstance(args[0], Const)):
        return args[1] if not isinstance(args[0], Const) or args[0].value else args[2]
    return _intern(Alu(op, args, result), op, args)


def bitcast(x: Expr, type: Scalar) -> Expr:
    """The same bits as another type of the same width."""
    assert BITS[x.type] == BITS[type], f"bitcast from {x.type} to {type}"
    return _intern(Alu(Op.BITCAST, (x,), type), Op.BITCAST, x, type)


def cast(x: Expr, type: Scalar) -> Expr:
    """`x` converted; `x` itself if it has the type already, as a half that was only widened."""
    if isinstance(x, Cast) and x.arg.type is type and type in HALVES and x.type is Scalar.F32:
        return x.arg
    return x if x.type is type else _intern(Cast(x, type), x, type)


def operands(x: Expr) -> tuple[Expr, ...]:
    """The operands of an instruction or a conversion."""
    match x:
        case Alu(args=args):
            return args
        case Cast(arg=arg):
            return (arg,)
        case _:
            return ()


def bound(x: Expr, lo: int, hi: int, name: str = "v", extent: Dim | None = None) -> Dim:
    """A value as an index symbol known to lie in lo … hi, and below `extent` (the kernel is undefined when it
    does not)."""
    needs = tuple(sorted(free_symbols(x), key=lambda s: s.name))
    return Sym(f"{name}{{{_brief(x)}}}", lo, hi, extent, x, needs).dim


@lru_cache(maxsize=1 << 12)
def _brief(x: Expr) -> str:
    """The text of `x`, or a digest if it is long. Names order the terms of indices, so they must be the same
    in every run; the text of an expression with shared parts can have any length."""
    match x:
        case Const(value=value):
            text = f"{value!r}:{x.type.value}"
        case Alu(op=op, args=args):
            text = f"{op.value}.{x.type.value}({', '.join(map(_brief, args))})"
        case Cast(arg=arg):
            text = f"{x.type.value}({_brief(arg)})"
        case _:
            text = repr(x)
    return text if len(text) <= BRIEF else f"#{blake2b(text.encode(), digest_size=8).hexdigest()}"


@lru_cache(maxsize=1 << 16)
def free_symbols(x: Expr) -> frozenset[Sym]:
    """Loop variables, sizes and bound values that `x` reads."""
    match x:
        case Index(dim=dim) | Load(index=dim):
            return symbols(dim)
        case _:
            return frozenset().union(*map(free_symbols, operands(x)))


# ---- statements ---------------------------------------------------------------------------------


class Loop(enum.Enum):
    """How a loop is executed."""

    SERIAL = "serial"
    UNROLL = "unroll"
    VECTOR = "vector"
    TILE = "tile"  # unrolled inside a vector loop; loads contiguous along it are transposed in registers
    PARALLEL = "parallel"  # the outermost loop of a kernel; its iterations are claimed by threads
    BLOCK = "block"  # outermost inside a kernel; iterations in any order, each with its own shared memory
    THREAD = "thread"  # directly inside block loops; iterations run concurrently and meet only at barriers


@dataclass(frozen=True, slots=True)
class For:
    """`var` from 0 to var.extent − 1; `registers`: registers per vector of a vector loop, and accumulators
    per fold (1: code generation decides). `intrinsic`: the name of an instruction of the target for the whole
    loop; the body defines it for all other targets."""

    var: Sym
    kind: Loop
    body: tuple[Stmt, ...]
    registers: int = 1
    intrinsic: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """`body` where `condition` holds (never inside a vector loop)."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Alloc:
    """`buffer` (a REGISTER) is initialized with `value` in each element."""

    buffer: Buffer
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """buffer[index] = value, whose type is the buffer's stored type."""

    buffer: Buffer
    index: Dim
    value: Expr


@dataclass(frozen=True, slots=True)
class Fold:
    """register[index] = op(register[index], value), in an order fixed by the loop's extent: across a vector
    loop lanes fold first, then one another."""

    buffer: Buffer
    op: Op
    value: Expr
    index: Dim = 0


@dataclass(frozen=True, slots=True)
class MultiReduction:
    """Several registers fold at once: each becomes its expression in `step`, which may read all old values.
    In a vector loop every lane begins with `neutral`; then partial results are combined by `merge`, which
    reads only the one in `buffers` and the other one in `others` (names used only for it)."""

    buffers: tuple[Buffer, ...]
    step: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    others: tuple[Buffer, ...]
    merge: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Prefetches what the lanes of a vector loop would read from `index` on to the second cache, or with
    `nearest` to the first one. It has no other effect, even if the index is outside."""

    buffer: Buffer
    index: Dim
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of a block arrive here before any continues, and see the stores of the others."""


@dataclass(frozen=True, slots=True)
class Let:
    """`var` has the value `value` in the following statements; its range is that of the symbol."""

    var: Sym
    value: Dim


Stmt: TypeAlias = For | If | Let | Alloc | Store | Fold | MultiReduction | Fetch | Barrier


@dataclass(frozen=True, slots=True)
class Kernel:
    """One parallel region: `body` runs for each value of `var`, in any order, on any thread; `work` estimates
    the nanoseconds of one iteration; `scratch` is the bytes per thread, `shared` those per block of its block
    loops."""

    name: str
    var: Sym
    body: tuple[Stmt, ...]
    work: Dim = 1000
    scratch: Dim = 0
    shared: Dim = 0
    # The result of `statements.buffers_in_order`, cached since each call of a kernel needs it.
    touched: tuple[Buffer, ...] | None = field(init=False, repr=False, compare=False, default=None)
