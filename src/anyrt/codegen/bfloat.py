"""bfloat16, which is the upper half of a float32, to and from it: half to even, as any processor does it.

One instruction narrows where AVX-512 has it, two registers at a time, but makes 0 of subnormal numbers. Where
a vector holds one, it takes the longer way.
"""

from __future__ import annotations

from typing import Final

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.kernel import Scalar

NARROWED: Final = {8: "cvtneps2bf16.256", 16: "cvtneps2bf16.512", 32: "cvtne2ps2bf16.512"}  # by lanes
REGISTER: Final = 16  # lanes of float32 that fill one
_SUBNORMAL: Final = 0x20  # of either sign, for vfpclassps


def widened(w: Writer, scope: Scope, text: str, width: int) -> str:
    """bfloat16 as float32."""
    half, full, real = (ll.vector(t, width) for t in (Scalar.I16, Scalar.I32, Scalar.F32))
    wide = w.put(scope, f"zext {half} {text} to {full}")
    moved = w.put(scope, f"shl {full} {wide}, {ll.splat(16, Scalar.I32, width)}")
    return w.put(scope, f"bitcast {full} {moved} to {real}")


def narrowed(w: Writer, scope: Scope, text: str, width: int) -> str:
    """float32 as bfloat16."""
    if not w.machine.has_bf16 or width not in NARROWED:
        return _by_integers(w, scope, text, width)
    whole = ll.vector(Scalar.F32, width)
    w.declared.add(_function(w, width))
    return w.put(scope, f"call <{width} x i16> @narrow{width}({whole} {text})")


def _function(w: Writer, width: int) -> str:
    """A function that asks whether a number is subnormal, and narrows in one way or the other."""
    inner = Writer(w.machine)
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
    asked = [*scope.lines, f"  %some = icmp ne i{lanes} {small}, 0"]
    scope.lines.clear()
    slow = _by_integers(inner, scope, "%x", width)
    name, args = f"llvm.x86.avx512bf16.{NARROWED[width]}", ", ".join(f"{part} {x}" for x in registers[::-1])
    w.declared |= {
        f"declare <{lanes} x i1> @{asks}({part}, i32)",
        f"declare <{width} x bfloat> @{name}({', '.join([part] * len(registers))})",
    }
    return "\n".join(
        [
            f"define internal <{width} x i16> @narrow{width}({whole} %x) alwaysinline {{",
            *asked,
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


def _by_integers(w: Writer, scope: Scope, text: str, width: int) -> str:
    """Rounded in the bits; without the instruction LLVM would call a function that is not there."""
    half, full, real = (ll.vector(t, width) for t in (Scalar.I16, Scalar.I32, Scalar.F32))
    sixteen, one = (ll.splat(n, Scalar.I32, width) for n in (16, 1))
    bits = w.put(scope, f"bitcast {real} {text} to {full}")
    even = w.put(scope, f"and {full} {w.put(scope, f'lshr {full} {bits}, {sixteen}')}, {one}")
    bias = w.put(scope, f"add {full} {even}, {ll.splat(0x7FFF, Scalar.I32, width)}")
    rounded = w.put(scope, f"lshr {full} {w.put(scope, f'add {full} {bits}, {bias}')}, {sixteen}")
    nan = w.put(scope, f"fcmp uno {real} {text}, {text}")
    flag, quiet = ll.vector(Scalar.BOOL, width), ll.splat(0x7FC0, Scalar.I32, width)
    kept = w.put(scope, f"select {flag} {nan}, {full} {quiet}, {full} {rounded}")
    return w.put(scope, f"trunc {full} {kept} to {half}")
