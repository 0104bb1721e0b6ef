"""Conversion between bfloat16, which is the upper half of a float32, and float32: half to even, on any
processor."""

from __future__ import annotations

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar


def widened(w: Writer, scope: Scope, text: str, width: int) -> str:
    """bfloat16 as float32."""
    half, full, real = (ll.vector(t, width) for t in (Scalar.I16, Scalar.I32, Scalar.F32))
    wide = w.put(scope, f"zext {half} {text} to {full}")
    moved = w.put(scope, f"shl {full} {wide}, {ll.splat(16, Scalar.I32, width)}")
    return w.put(scope, f"bitcast {full} {moved} to {real}")


def narrowed(w: Writer, scope: Scope, text: str, width: int) -> str:
    """float32 as bfloat16, rounded in the bits: LLVM would call a function that an image cannot link."""
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
