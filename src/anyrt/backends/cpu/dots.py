"""Dots as the processor's instructions: AVX-512 VNNI for bytes, AVX-512 BF16 for bfloat16.

A vector of several registers is taken apart and put together again, which LLVM leaves out where its parts are
used by themselves.
"""

from __future__ import annotations

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Op

LANES = 16  # words of a register
_INTRINSICS = {
    Op.DOT4U: ("llvm.x86.avx512.vpdpbusd.512", "<16 x i32>", "<64 x i8>"),
    Op.DOT2: ("llvm.x86.avx512bf16.dpbf16ps.512", "<16 x float>", "<32 x bfloat>"),
}


def dot(op: Op, lanes: int, w: Writer, scope: Scope, total: str, factors: tuple[str, str], /) -> str:
    """total + dot of two vectors of words."""
    name, kind, parts = _INTRINSICS[op]
    type = Scalar.F32 if op is Op.DOT2 else Scalar.I32
    pieces: list[str] = []
    for first in range(0, lanes, LANES):
        here = _piece(w, scope, total, type, first, lanes)
        words = (_piece(w, scope, x, Scalar.I32, first, lanes) for x in factors)
        args = [(parts, w.put(scope, f"bitcast <16 x i32> {x} to {parts}")) for x in words]
        pieces.append(w.call(scope, kind, name, [(kind, here), *args]))
    while len(pieces) > 1:
        width = lanes // len(pieces)
        order = ", ".join(f"i32 {k}" for k in range(2 * width))
        of = ll.vector(type, width)
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [
            w.put(scope, f"shufflevector {of} {a}, {of} {b}, <{2 * width} x i32> <{order}>") for a, b in pairs
        ]
    return pieces[0]


def _piece(w: Writer, scope: Scope, value: str, type: Scalar, first: int, lanes: int) -> str:
    """The lanes of one register."""
    if lanes == LANES:
        return value
    order, of = ", ".join(f"i32 {first + k}" for k in range(LANES)), ll.vector(type, lanes)
    return w.put(scope, f"shufflevector {of} {value}, {of} poison, <{LANES} x i32> <{order}>")
