"""Float32 angles beyond 2³¹ without whole turns, by the method of `ir/angle.py`; one branch skips the work if
no lane is beyond."""

from __future__ import annotations

from typing import Final

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.angle import FIRST, FRACTION, LARGEST, MASK, UNIT, WORDS
from anyrt.ir.buffer import Scalar

FUNCTION: Final = """\
define internal {real} @{name}({real} %given) alwaysinline {{
entry:
  %x = freeze {real} %given
  %beyond = fcmp ogt {real} %x, {largest}
  {any}
  br i1 %any, label %far, label %done
far:
  %bits = bitcast {real} %x to {whole}
  %field = lshr {whole} %bits, {fraction}
  %offset = sub {whole} %field, {first}
  %by = zext {whole} %offset to {wide}
  %side = and {whole} %offset, {side}
  %upper = icmp ne {whole} %side, {zero}
  %high = select {flag} %upper, {wide} {word1}, {wide} {word0}
  %low = select {flag} %upper, {wide} {word2}, {wide} {word1}
  %window = call {wide} @llvm.fshl.{suffix}({wide} %high, {wide} %low, {wide} %by)
  %lower = and {whole} %bits, {mask}
  %significand = or {whole} %lower, {lead}
  %times = zext {whole} %significand to {wide}
  %product = mul {wide} %times, %window
  %shifted = lshr {wide} %product, {half}
  %quarters = trunc {wide} %shifted to {whole}
  %count = sitofp {whole} %quarters to {double}
  %angle = fmul {double} %count, {unit}
  %turned = fptrunc {double} %angle to {real}
  %finite = fcmp olt {real} %x, {infinity}
  %taken = and {flag} %beyond, %finite
  %rest = select {flag} %taken, {real} %turned, {real} %x
  br label %done
done:
  %result = phi {real} [ %x, %entry ], [ %rest, %far ]
  ret {real} %result
}}"""


def angle(w: Writer, scope: Scope, text: str, width: int) -> str:
    """A call of the function for vectors of that many lanes, which LLVM inlines."""
    real, flag = ll.vector(Scalar.F32, width), ll.vector(Scalar.BOOL, width)
    wide, suffix = ll.vector(Scalar.I64, width), ll.suffix(Scalar.I64, width)
    reduce = f"@llvm.vector.reduce.or.v{width}i1"
    bits = {"fraction": FRACTION, "first": FIRST, "side": 64, "zero": 0, "mask": MASK, "lead": MASK + 1}
    words = {f"word{k}": word - (word >> 63 << 64) for k, word in enumerate(WORDS)}
    name = f"angle.{ll.suffix(Scalar.F32, width)}"
    definition = FUNCTION.format(
        name=name,
        real=real,
        whole=ll.vector(Scalar.I32, width),
        wide=wide,
        double=ll.vector(Scalar.F64, width),
        flag=flag,
        suffix=suffix,
        any="%any = or i1 %beyond, false" if width == 1 else f"%any = call i1 {reduce}({flag} %beyond)",
        largest=ll.splat(LARGEST, Scalar.F32, width),
        infinity=ll.splat(float("inf"), Scalar.F32, width),
        unit=ll.splat(UNIT, Scalar.F64, width),
        **{word: ll.splat(number, Scalar.I32, width) for word, number in bits.items()},
        **{word: ll.splat(number, Scalar.I64, width) for word, number in (words | {"half": 32}).items()},
    )
    w.declared |= {definition, f"declare {wide} @llvm.fshl.{suffix}({wide}, {wide}, {wide})"}
    w.declared |= {f"declare i1 {reduce}({flag})"} if width > 1 else set()
    return w.put(scope, f"call {real} @{name}({real} {text})")
