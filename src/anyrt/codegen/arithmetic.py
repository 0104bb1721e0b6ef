"""Arithmetic and conversions as LLVM instructions, for operands that are written, scalar or vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.angle import angle
from anyrt.codegen.bfloat import widened
from anyrt.codegen.remainder import remainder
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar
from anyrt.ir.intervals import interval
from anyrt.ir.kernel import COMPARES, Alu, Cast, Const, Expr, Op

SPLIT: Final = 2.0**27 + 1  # splits a double into two halves (Dekker)


def operation(w: Writer, scope: Scope, x: Alu | Cast, texts: list[str], width: int) -> str:
    """`x` on operands written as `texts`."""
    if isinstance(x, Cast):
        return _cast(w, scope, x.arg, x.type, texts[0], width)
    assert isinstance(x.op, Op), f"{x.op.name} is written by its text"
    return _alu(w, scope, x.op, x.args, texts, x.type, width)


def _alu(
    w: Writer, scope: Scope, op: Op, args: tuple[Expr, ...], texts: list[str], result: Scalar, width: int
) -> str:
    """`op` on operands written as `texts`; the types are those of `args`."""
    type = args[-1].type
    kind = ll.vector(type, width)
    if op in COMPARES:
        whole = ll.UNSIGNED_COMPARES if type is Scalar.U64 else ll.INT_COMPARES
        name = f"fcmp {ll.FLOAT_COMPARES[op]}" if type.is_float else f"icmp {whole[op]}"
        return w.put(scope, f"{name} {kind} {texts[0]}, {texts[1]}")
    if op is Op.SELECT:
        flag = ll.vector(Scalar.BOOL, width)
        return w.put(scope, f"select {flag} {texts[0]}, {kind} {texts[1]}, {kind} {texts[2]}")
    if op is Op.BITCAST:
        return w.put(scope, f"bitcast {kind} {texts[0]} to {ll.vector(result, width)}")
    if op is Op.CODE:
        return w.instructions.code(w, scope, texts, width)
    if type is Scalar.F32 and op in (Op.MIN, Op.MAX):
        known = [isinstance(x, Const) and x.value == x.value for x in args]
        pair = texts if known[0] else texts[::-1]
        return w.instructions.extreme(w, scope, op, pair, width, sure=any(known))
    if type.is_float:
        return _float(w, scope, op, texts, type, width)
    return _integer(w, scope, op, texts, type, width)


def _float(w: Writer, scope: Scope, op: Op, texts: list[str], type: Scalar, width: int) -> str:
    kind = ll.vector(type, width)
    if op in ll.FLOAT_OPS:
        return w.put(scope, f"{ll.FLOAT_OPS[op]} {kind} {texts[0]}, {texts[1]}")
    if op is Op.NEG:
        return w.put(scope, f"fneg {kind} {texts[0]}")
    if op is Op.FMA and not w.instructions.has_fma:
        return (_wide_fma if type is Scalar.F32 else _parted_fma)(w, scope, texts, width)
    if op is Op.REM:
        return remainder(w, scope, texts, type, width)
    if op is Op.ANGLE:
        return angle(w, scope, texts[0], width)
    if op is Op.LDEXP:
        return w.instructions.ldexp(w, scope, texts, width)
    return intrinsic(w, scope, op, texts, type, width)


def intrinsic(w: Writer, scope: Scope, op: Op, texts: Sequence[str], type: Scalar, width: int) -> str:
    """A call of LLVM's intrinsic."""
    assert op in ll.INTRINSICS, f"{op.value} has no floating-point form"
    kind = ll.vector(type, width)
    return w.call(
        scope, kind, f"llvm.{ll.INTRINSICS[op]}.{ll.suffix(type, width)}", [(kind, t) for t in texts]
    )


def _wide_fma(w: Writer, scope: Scope, texts: list[str], width: int) -> str:
    """Without the instruction: the product of two floats is exact in double precision."""
    kind, wide = ll.vector(Scalar.F32, width), ll.vector(Scalar.F64, width)
    a, b, c = (w.put(scope, f"fpext {kind} {t} to {wide}") for t in texts)
    total = w.put(scope, f"fadd {wide} {w.put(scope, f'fmul {wide} {a}, {b}')}, {c}")
    return w.put(scope, f"fptrunc {wide} {total} to {kind}")


def _parted_fma(w: Writer, scope: Scope, texts: list[str], width: int) -> str:
    """For doubles without the instruction: the rounding errors of the product and of the sum are added
    separately (Dekker 1971, Knuth). Infinity and NaN have no such errors."""
    kind = ll.vector(Scalar.F64, width)

    def put(name: str, a: str, b: str) -> str:
        return w.put(scope, f"{name} {kind} {a}, {b}")

    def halves(x: str) -> tuple[str, str]:
        scaled = put("fmul", x, ll.splat(SPLIT, Scalar.F64, width))
        high = put("fsub", scaled, put("fsub", scaled, x))
        return high, put("fsub", x, high)

    a, b, c = texts
    (a0, a1), (b0, b1), product = halves(a), halves(b), put("fmul", a, b)
    lost = put("fsub", put("fmul", a0, b0), product)
    for x, y in ((a0, b1), (a1, b0), (a1, b1)):
        lost = put("fadd", lost, put("fmul", x, y))
    total = put("fadd", product, c)
    part = put("fsub", total, product)
    left = put("fadd", put("fsub", product, put("fsub", total, part)), put("fsub", c, part))
    rest = put("fadd", lost, left)
    none = put("fcmp uno", rest, rest)
    flag, whole = ll.vector(Scalar.BOOL, width), put("fadd", total, rest)
    return w.put(scope, f"select {flag} {none}, {kind} {total}, {kind} {whole}")


def _integer(w: Writer, scope: Scope, op: Op, texts: list[str], type: Scalar, width: int) -> str:
    kind, unsigned = ll.vector(type, width), type is Scalar.U64
    if op in ll.INT_OPS:
        name = "lshr" if unsigned and op is Op.SHR else ll.INT_OPS[op]
        return w.put(scope, f"{name} {kind} {texts[0]}, {texts[1]}")
    if op in ll.INT_INTRINSICS:
        name = (ll.UNSIGNED_INTRINSICS if unsigned else ll.INT_INTRINSICS)[op]
        return w.call(scope, kind, f"llvm.{name}.{ll.suffix(type, width)}", [(kind, t) for t in texts])
    zero, ones = ll.splat(0, type, width), ll.splat(-1 if type is not Scalar.BOOL else True, type, width)
    match op:
        case Op.NEG:
            return w.put(scope, f"sub {kind} {zero}, {texts[0]}")
        case Op.NOT:
            return w.put(scope, f"xor {kind} {texts[0]}, {ones}")
        case Op.ABS if unsigned:
            return texts[0]
        case Op.ABS:
            negative = w.put(scope, f"sub {kind} {zero}, {texts[0]}")
            below = w.put(scope, f"icmp slt {kind} {texts[0]}, {zero}")
            flag = ll.vector(Scalar.BOOL, width)
            return w.put(scope, f"select {flag} {below}, {kind} {negative}, {kind} {texts[0]}")
        case Op.DIV | Op.FLOORDIV | Op.MOD if unsigned:
            return _divide_unsigned(w, scope, op, texts[0], texts[1], width)
        case Op.DIV | Op.FLOORDIV | Op.MOD:
            return _divide(w, scope, op, texts[0], texts[1], type, width)
        case _:
            raise AssertionError(f"{op.value} has no integer form")


def _divide_unsigned(w: Writer, scope: Scope, op: Op, a: str, b: str, width: int) -> str:
    """0 for a zero divisor."""
    kind, flag = ll.vector(Scalar.U64, width), ll.vector(Scalar.BOOL, width)
    zero, one = (ll.splat(v, Scalar.U64, width) for v in (0, 1))
    none = w.put(scope, f"icmp eq {kind} {b}, {zero}")
    safe = w.put(scope, f"select {flag} {none}, {kind} {one}, {kind} {b}")
    result = w.put(scope, f"{'urem' if op is Op.MOD else 'udiv'} {kind} {a}, {safe}")
    return w.put(scope, f"select {flag} {none}, {kind} {zero}, {kind} {result}")


def _divide(w: Writer, scope: Scope, op: Op, a: str, b: str, type: Scalar, width: int) -> str:
    """Integer division that cannot trap: 0 for a zero divisor, and −x instead of x / −1."""
    kind, flag = ll.vector(type, width), ll.vector(Scalar.BOOL, width)
    zero, one, ones = (ll.splat(v, type, width) for v in (0, 1, -1))
    none = w.put(scope, f"icmp eq {kind} {b}, {zero}")
    minus = w.put(scope, f"icmp eq {kind} {b}, {ones}")
    odd = w.put(scope, f"or {flag} {none}, {minus}")
    safe = w.put(scope, f"select {flag} {odd}, {kind} {one}, {kind} {b}")
    quotient = w.put(scope, f"sdiv {kind} {a}, {safe}")
    rest = w.put(scope, f"sub {kind} {a}, {w.put(scope, f'mul {kind} {quotient}, {safe}')}")
    if op is not Op.DIV:
        crossed = w.put(scope, f"icmp slt {kind} {w.put(scope, f'xor {kind} {rest}, {safe}')}, {zero}")
        uneven = w.put(scope, f"icmp ne {kind} {rest}, {zero}")
        fix = w.put(scope, f"and {flag} {crossed}, {uneven}")
        quotient = w.put(
            scope,
            f"select {flag} {fix}, {kind} {w.put(scope, f'sub {kind} {quotient}, {one}')}, {kind} {quotient}",
        )
        rest = w.put(
            scope,
            f"select {flag} {fix}, {kind} {w.put(scope, f'add {kind} {rest}, {safe}')}, {kind} {rest}",
        )
    negated = w.put(scope, f"sub {kind} {zero}, {a}")
    other = zero if op is Op.MOD else negated
    result = w.put(
        scope, f"select {flag} {minus}, {kind} {other}, {kind} {rest if op is Op.MOD else quotient}"
    )
    return w.put(scope, f"select {flag} {none}, {kind} {zero}, {kind} {result}")


def _cast(w: Writer, scope: Scope, arg: Expr, to: Scalar, text: str, width: int) -> str:
    """`text`, of the type of `arg`, converted."""
    source, target = ll.vector(arg.type, width), ll.vector(to, width)
    if arg.type is Scalar.BF16 or to is Scalar.BF16:
        assert Scalar.F32 in (arg.type, to), f"bf16 goes by way of f32, not {arg.type.value} to {to.value}"
        return (widened if to is Scalar.F32 else w.instructions.narrowed)(w, scope, text, width)
    if to is Scalar.BOOL:
        test = "fcmp une" if arg.type.is_float else "icmp ne"
        return w.put(scope, f"{test} {source} {text}, {ll.splat(0, arg.type, width)}")
    if arg.type.is_float and to.is_float:
        name = "fpext" if ll.BYTES[to] > ll.BYTES[arg.type] else "fptrunc"
        return w.put(scope, f"{name} {source} {text} to {target}")
    if arg.type is Scalar.F32 and to in ROOM:
        if _fits(arg, to):
            return w.put(scope, f"fptosi {source} {text} to {target}")
        return _truncated(w, scope, text, to, width)
    if arg.type.is_float:
        sign = "u" if to in (Scalar.U8, Scalar.U64) else "s"
        name = f"llvm.fpto{sign}i.sat.{ll.suffix(to, width)}.{ll.suffix(arg.type, width)}"
        return w.call(scope, target, name, [(source, text)])
    unsigned = arg.type in (Scalar.BOOL, Scalar.U8, Scalar.U64)
    if to.is_float:
        return w.put(scope, f"{'ui' if unsigned else 'si'}tofp {source} {text} to {target}")
    if ll.NAMES[arg.type] == ll.NAMES[to]:
        return text
    narrow = arg.type is not Scalar.BOOL and ll.BYTES[to] < ll.BYTES[arg.type]
    name = "trunc" if narrow else "zext" if unsigned else "sext"
    return w.put(scope, f"{name} {source} {text} to {target}")


# The largest float32 that fits into an integer type.
ROOM = {Scalar.I32: 2.0**31 - 2.0**7, Scalar.I64: 2.0**63 - 2.0**39}


def _fits(x: Expr, to: Scalar) -> bool:
    """True if both bounds of `x` are known and the type represents them. A value limited on one side, as by a
    rectifier, may be any number on the other side."""
    known = interval(x)
    return known is not None and -ROOM[to] <= known[0] and known[1] <= ROOM[to]


def _truncated(w: Writer, scope: Scope, text: str, to: Scalar, width: int) -> str:
    """float32 to integer, saturated, NaN to 0. LLVM's own intrinsic for it is compiled to scalar code."""
    source, target, flag = (ll.vector(t, width) for t in (Scalar.F32, to, Scalar.BOOL))
    top = (1 << (8 * ll.BYTES[to] - 1)) - 1
    low, high, over = (ll.splat(x, Scalar.F32, width) for x in (-float(top + 1), ROOM[to], float(top + 1)))
    above = w.put(scope, f"fcmp ogt {source} {text}, {low}")
    bounded = w.put(scope, f"select {flag} {above}, {source} {text}, {source} {low}")
    below = w.put(scope, f"fcmp olt {source} {bounded}, {high}")
    inside = w.put(scope, f"select {flag} {below}, {source} {bounded}, {source} {high}")
    whole = w.put(scope, f"fptosi {source} {inside} to {target}")
    large = w.put(scope, f"fcmp oge {source} {text}, {over}")
    most = w.put(scope, f"select {flag} {large}, {target} {ll.splat(top, to, width)}, {target} {whole}")
    nan = w.put(scope, f"fcmp uno {source} {text}, {text}")
    return w.put(scope, f"select {flag} {nan}, {target} {ll.splat(0, to, width)}, {target} {most}")
