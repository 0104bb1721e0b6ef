"""bfloat16, which is the upper half of a float32, to and from it: half to even, as any processor does it.

One instruction narrows where AVX-512 has it, but makes 0 of subnormal numbers. A vector that holds one takes
the longer way.
"""

from __future__ import annotations

from typing import Final

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.kernel import Scalar

NARROWED: Final = (8, 16)  # lanes that the instruction takes
_SUBNORMAL: Final = 0x90  # of either sign, for llvm.is.fpclass
_DECLARED: Final = (
    "declare <{n} x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.{bits}(<{n} x float>)",
    "declare <{n} x i1> @llvm.is.fpclass.v{n}f32(<{n} x float>, i32)",
    "declare i1 @llvm.vector.reduce.or.v{n}i1(<{n} x i1>)",
)
_NARROW: Final = """define internal <{n} x i16> @narrow{n}(<{n} x float> %x) alwaysinline {{
  %small = call <{n} x i1> @llvm.is.fpclass.v{n}f32(<{n} x float> %x, i32 {subnormal})
  %some = call i1 @llvm.vector.reduce.or.v{n}i1(<{n} x i1> %small)
  br i1 %some, label %long, label %short, !prof !2
short:
  %narrow = call <{n} x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.{bits}(<{n} x float> %x)
  %one = bitcast <{n} x bfloat> %narrow to <{n} x i16>
  ret <{n} x i16> %one
long:
{long}
  ret <{n} x i16> {result}
}}"""


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
    inner = Writer(w.machine)
    result = _by_integers(inner, inner.scopes.inner, "%x", width)
    long = "\n".join(inner.scopes.inner.lines)
    w.declared |= {x.format(n=width, bits=32 * width) for x in _DECLARED}
    w.declared.add(_NARROW.format(n=width, bits=32 * width, subnormal=_SUBNORMAL, long=long, result=result))
    return w.put(scope, f"call <{width} x i16> @narrow{width}(<{width} x float> {text})")


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
