"""Intrinsics as the processor's instructions on vectors (intrinsics.py).

A vector of several registers is split and joined again; LLVM removes both if only the parts are used.
"""

from __future__ import annotations

from anyrt.backends.cpu.intrinsics import Instruction
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar


def dot(x: Instruction, lanes: int, w: Writer, scope: Scope, total: str, factors: tuple[str, str], /) -> str:
    """total + the intrinsic of two vectors of words."""
    type, each = x.intrinsic.total, x.words
    kind, word = ll.vector(type, each), ll.vector(Scalar.I32, each)
    registers: list[str] = []
    for first in range(0, lanes, each):
        here = _register(w, scope, total, type, (first, each, lanes))
        words = (_register(w, scope, f, Scalar.I32, (first, each, lanes)) for f in factors)
        args = [(x.terms, w.put(scope, f"bitcast {word} {f} to {x.terms}")) for f in words]
        registers.append(w.call(scope, kind, x.name, [(kind, here), *args]))
    while len(registers) > 1:
        width = lanes // len(registers)
        order = ", ".join(f"i32 {k}" for k in range(2 * width))
        of = ll.vector(type, width)
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [
            w.put(scope, f"shufflevector {of} {a}, {of} {b}, <{2 * width} x i32> <{order}>") for a, b in pairs
        ]
    return registers[0]


def _register(w: Writer, scope: Scope, value: str, type: Scalar, part: tuple[int, int, int]) -> str:
    """The lanes of one register: from the first on, so many."""
    first, count, lanes = part
    if lanes == count:
        return value
    order, of = ", ".join(f"i32 {first + k}" for k in range(count)), ll.vector(type, lanes)
    return w.put(scope, f"shufflevector {of} {value}, {of} poison, <{count} x i32> <{order}>")
