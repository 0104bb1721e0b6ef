"""The exact remainder of a division of floats, however large the quotient: long division, bit by bit.

All lanes of a vector iterate together until the last one is done. Numbers are integers with an exponent,
which is the least one for subnormal numbers, so that these need no special case.
"""

from __future__ import annotations

from typing import Final

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar

FRACTIONS: Final = {Scalar.F32: (Scalar.I32, 23), Scalar.F64: (Scalar.I64, 52)}  # with integers as wide

FUNCTION: Final = """\
define internal {real} @{name}({real} %given, {real} %by) alwaysinline {{
entry:
  %x = freeze {real} %given
  %d = freeze {real} %by
  %xbits = bitcast {real} %x to {whole}
  %dbits = bitcast {real} %d to {whole}
  %xfield = lshr {whole} %xbits, {fraction}
  %dfield = lshr {whole} %dbits, {fraction}
  %xexp = call {whole} @llvm.umax.{suffix}({whole} %xfield, {whole} {one})
  %dexp = call {whole} @llvm.umax.{suffix}({whole} %dfield, {whole} {one})
  %xfrac = and {whole} %xbits, {mask}
  %dfrac = and {whole} %dbits, {mask}
  %xnormal = icmp ne {whole} %xfield, {zero}
  %dnormal = icmp ne {whole} %dfield, {zero}
  %xlead = select {flag} %xnormal, {whole} {lead}, {whole} {zero}
  %dlead = select {flag} %dnormal, {whole} {lead}, {whole} {zero}
  %xwhole = or {whole} %xfrac, %xlead
  %dwhole = or {whole} %dfrac, %dlead
  %ready = shl {whole} %xwhole, {unused}
  %apart = sub {whole} %xexp, %dexp
  %count = add {whole} %apart, {significand}
  %below = fcmp olt {real} %x, %d
  %turns = select {flag} %below, {whole} {zero}, {whole} %count
  br label %turn
turn:
  %left = phi {whole} [ %turns, %entry ], [ %fewer, %next ]
  %waiting = phi {whole} [ %ready, %entry ], [ %shifted, %next ]
  %rest = phi {whole} [ {zero}, %entry ], [ %changed, %next ]
  %more = icmp sgt {whole} %left, {zero}
  {any}
  br i1 %any, label %next, label %done
next:
  %bit = lshr {whole} %waiting, {sign}
  %twice = shl {whole} %rest, {one}
  %longer = or {whole} %twice, %bit
  %taken = sub {whole} %longer, %dwhole
  %kept = call {whole} @llvm.umin.{suffix}({whole} %longer, {whole} %taken)
  %changed = select {flag} %more, {whole} %kept, {whole} %rest
  %shifted = shl {whole} %waiting, {one}
  %fewer = sub {whole} %left, {one}
  br label %turn
done:
  %count.of = sitofp {whole} %rest to {real}
  %power = shl {whole} %dexp, {fraction}
  %scale = bitcast {whole} %power to {real}
  %step = fmul {real} %scale, {unit}
  %product = fmul {real} %count.of, %step
  %result = select {flag} %below, {real} %x, {real} %product
  ret {real} %result
}}"""


def remainder(w: Writer, scope: Scope, texts: list[str], type: Scalar, width: int) -> str:
    """A call of the function for vectors of that many lanes, which LLVM inlines."""
    kind, name = ll.vector(type, width), f"remainder.{ll.suffix(type, width)}"
    w.declared |= _definition(name, type, width)
    return w.put(scope, f"call {kind} @{name}({kind} {texts[0]}, {kind} {texts[1]})")


def _definition(name: str, type: Scalar, width: int) -> set[str]:
    """The function, and the intrinsics that it calls."""
    integer, fraction = FRACTIONS[type]
    bits, suffix = 8 * ll.BYTES[type], ll.suffix(integer, width)
    whole, flag = ll.vector(integer, width), ll.vector(Scalar.BOOL, width)
    numbers = {"zero": 0, "one": 1, "fraction": fraction, "significand": fraction + 1, "sign": bits - 1}
    numbers |= {"mask": (1 << fraction) - 1, "lead": 1 << fraction, "unused": bits - fraction - 1}
    extremes = {f"declare {whole} @llvm.{f}.{suffix}({whole}, {whole})" for f in ("umin", "umax")}
    reduce = f"@llvm.vector.reduce.or.v{width}i1"
    text = FUNCTION.format(
        name=name,
        real=ll.vector(type, width),
        whole=whole,
        flag=flag,
        suffix=suffix,
        any="%any = or i1 %more, false" if width == 1 else f"%any = call i1 {reduce}({flag} %more)",
        unit=ll.splat(2.0**-fraction, type, width),
        **{word: ll.splat(number, integer, width) for word, number in numbers.items()},
    )
    return {text, *extremes, *([f"declare i1 {reduce}({flag})"] if width > 1 else [])}
