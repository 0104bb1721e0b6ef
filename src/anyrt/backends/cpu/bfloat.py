"""float32 to bfloat16 by AVX-512: one instruction narrows two registers at a time, but flushes subnormal
numbers to 0. A vector that has one takes the longer path.

A value that is only rounded to bfloat16, and stays float32, is rounded in its bits: six integer operations of
one cycle each, and no branch between the steps of a layer.
"""

from __future__ import annotations

from typing import Final

from anyrt.codegen import bfloat
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Cast, Expr, Op, alu, bitcast, const, select

NARROWED: Final = {8: "cvtneps2bf16.256", 16: "cvtneps2bf16.512", 32: "cvtne2ps2bf16.512"}  # by lanes
REGISTER: Final = 16  # lanes of float32 that fill one
_SUBNORMAL: Final = 0x20  # of either sign, for vfpclassps


def rounded(x: Expr) -> Expr | None:
    """`x` without the conversions, if it is a float32 rounded to bfloat16: half to even."""
    match x:
        case Cast(type=Scalar.F32, arg=Cast(type=Scalar.BF16, arg=arg)) if arg.type is Scalar.F32:
            bits = bitcast(arg, Scalar.I32)
            odd = alu(Op.LSHR, bits, const(16, Scalar.I32)) & 1
            nearest = bitcast((bits + (odd + 0x7FFF)) & -0x10000, Scalar.F32)
            return select(alu(Op.NE, arg, arg), arg, nearest)
    return None


def narrowed(w: Writer, scope: Scope, text: str, width: int) -> str:
    """float32 as bfloat16."""
    if width not in NARROWED:
        return bfloat.narrowed(w, scope, text, width)
    whole = ll.vector(Scalar.F32, width)
    w.declared.add(_function(w, width))
    return w.put(scope, f"call <{width} x i16> @narrow{width}({whole} {text})")


def _function(w: Writer, width: int) -> str:
    """A function that tests for subnormal numbers, and narrows by one path or the other."""
    inner = Writer(w.instructions)
    scope, lanes = inner.scopes.inner, min(width, REGISTER)
    whole, part = ll.vector(Scalar.F32, width), ll.vector(Scalar.F32, lanes)
    asks = f"llvm.x86.avx512.fpclass.ps.{32 * lanes}"
    registers, small = ["%x"], "0"
    if width > lanes:
        halves = (", ".join(f"i32 {i + first}" for i in range(lanes)) for first in (0, lanes))
        registers = [
            inner.put(scope, f"shufflevector {whole} %x, {whole} poison, <{lanes} x i32> <{half}>")
            for half in halves
        ]
    for x in registers:
        flags = inner.put(scope, f"call <{lanes} x i1> @{asks}({part} {x}, i32 {_SUBNORMAL})")
        bits = inner.put(scope, f"bitcast <{lanes} x i1> {flags} to i{lanes}")
        small = inner.put(scope, f"or i{lanes} {small}, {bits}")
    test = [*scope.lines, f"  %some = icmp ne i{lanes} {small}, 0"]
    scope.lines.clear()
    slow = bfloat.narrowed(inner, scope, "%x", width)
    name, args = f"llvm.x86.avx512bf16.{NARROWED[width]}", ", ".join(f"{part} {x}" for x in registers[::-1])
    w.declared |= {
        f"declare <{lanes} x i1> @{asks}({part}, i32)",
        f"declare <{width} x bfloat> @{name}({', '.join([part] * len(registers))})",
    }
    return "\n".join(
        [
            f"define internal <{width} x i16> @narrow{width}({whole} %x) alwaysinline {{",
            *test,
            "  br i1 %some, label %long, label %short, !prof !2",
            "short:",
            f"  %narrow = call <{width} x bfloat> @{name}({args})",
            f"  %one = bitcast <{width} x bfloat> %narrow to <{width} x i16>",
            f"  ret <{width} x i16> %one",
            "long:",
            *scope.lines,
            f"  ret <{width} x i16> {slow}",
            "}",
        ]
    )
