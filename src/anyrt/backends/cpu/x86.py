"""Instructions of x86 that no LLVM operation maps to: products with powers of two, and extremes; and the
functions for the executor and the pool (`system.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anyrt.backends.cpu import linux
from anyrt.backends.cpu.transpose import cut, joined, shuffle
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Op

LEAST, MOST = 4, 16  # lanes of a register
AS_USUAL = 4  # the rounding mode of the thread
FLOAT = ll.NAMES[Scalar.F32]
_LARGEST = {4: "sse.{}.ps", 8: "avx.{}.ps.256", 16: "avx512.{}.ps.512"}
_NAMES = {Op.MAX: "max", Op.MIN: "min"}
_ORDER = {Op.MAX: "ogt", Op.MIN: "olt"}

Write = Callable[[Sequence[str], int], str]  # an operation on registers of so many lanes


def ldexp(w: Writer, scope: Scope, texts: Sequence[str], width: int) -> str:
    """By AVX-512."""

    def write(parts: Sequence[str], lanes: int) -> str:
        kind, mask = ll.vector(Scalar.F32, lanes), "i16" if lanes == MOST else "i8"
        args = [*((kind, p) for p in parts), (kind, "zeroinitializer"), (mask, "-1")]
        args += [("i32", f"{AS_USUAL}")] if lanes == MOST else []
        return w.call(scope, kind, f"llvm.x86.avx512.mask.scalef.ps.{32 * lanes}", args)

    return _by_register(w, scope, texts, width, MOST, write)


def extreme(w: Writer, scope: Scope, op: Op, pair: Sequence[str], width: int, most: int, sure: bool) -> str:
    """The larger or smaller one, NaN if either is NaN; `sure`: the first is not NaN. `most`: lanes of a
    register.

    LLVM's own takes six instructions, since it orders zeros. This is one, which returns the second if either
    is NaN, and two more for NaN in the first; written as comparisons, LLVM would merge these with the one.
    """

    def write(parts: Sequence[str], lanes: int) -> str:
        kind = ll.vector(Scalar.F32, lanes)
        args = [*((kind, p) for p in parts), *([("i32", f"{AS_USUAL}")] if lanes == MOST else ())]
        return w.call(scope, kind, f"llvm.x86.{_LARGEST[lanes].format(_NAMES[op])}", args)

    kind, flag, (a, b) = ll.vector(Scalar.F32, width), ll.vector(Scalar.BOOL, width), pair
    if width < LEAST:
        ordered = w.put(scope, f"fcmp {_ORDER[op]} {kind} {a}, {b}")
        larger = w.put(scope, f"select {flag} {ordered}, {kind} {a}, {kind} {b}")
    else:
        larger = _by_register(w, scope, pair, width, most, write)
    if sure:
        return larger
    nan = w.put(scope, f"fcmp uno {kind} {a}, {a}")
    return w.put(scope, f"select {flag} {nan}, {kind} {a}, {kind} {larger}")


def code(w: Writer, scope: Scope, texts: Sequence[str], width: int) -> str:
    """A 4-bit number as float32, which AVX-512 looks up in a register by the last four bits of each lane: one
    instruction, where two shifts and a conversion are three."""
    kind = ll.vector(Scalar.I32, width)
    moved = w.put(scope, f"lshr {kind} {texts[0]}, {texts[1]}")
    if width % MOST:  # a part of a register
        top = ll.splat(28, Scalar.I32, width)
        signed = w.put(scope, f"ashr {kind} {w.put(scope, f'shl {kind} {moved}, {top}')}, {top}")
        return w.put(scope, f"sitofp {kind} {signed} to {ll.vector(Scalar.F32, width)}")
    of = ll.vector(Scalar.F32, MOST)
    table = "<" + ", ".join(f"float {k - 16 * (k > 7)}.0" for k in range(MOST)) + ">"
    places = cut(w, scope, moved, ll.NAMES[Scalar.I32], width, MOST)
    args = ([(of, table), (ll.vector(Scalar.I32, MOST), x)] for x in places)
    registers = [w.call(scope, of, "llvm.x86.avx512.permvar.sf.512", some) for some in args]
    (number,) = joined(w, scope, registers, FLOAT, MOST, width)
    return number


def _by_register(w: Writer, scope: Scope, texts: Sequence[str], width: int, most: int, write: Write) -> str:
    """A register of at most so many lanes at a time; a shorter vector than the least one fills part of it."""
    size = max(LEAST, min(width, most))
    parts = [[_part(w, scope, t, first, width, size) for t in texts] for first in range(0, width, size)]
    registers = [write(some, size) for some in parts]
    if width == 1:
        return w.put(scope, f"extractelement {ll.vector(Scalar.F32, size)} {registers[0]}, i64 0")
    if width < size:
        return shuffle(w, scope, registers[0], "poison", FLOAT, size, list(range(width)))
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [shuffle(w, scope, a, b, FLOAT, size, list(range(2 * size))) for a, b in pairs]
        size *= 2
    return registers[0]


def _part(w: Writer, scope: Scope, value: str, first: int, width: int, size: int) -> str:
    """The lanes of one register."""
    if width == 1:
        return w.spread(scope, value, FLOAT, size)
    if width == size:
        return value
    return shuffle(w, scope, value, "poison", FLOAT, width, [(first + k) % width for k in range(size)])


# MXCSR: rounded to the nearest, subnormal numbers kept, no traps (0x1F80); and the bits that say so (0xFFC0).
CONTROL: Final = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @asked() alwaysinline {
  %place = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %now = load i32, ptr %place
  %asked = zext i32 %now to i64
  ret i64 %asked
}
define internal i1 @usual(i64 %asked) alwaysinline {
  %control = and i64 %asked, 65472
  %usual = icmp eq i64 %control, 8064
  ret i1 %usual
}
define internal void @ask(i64 %asked) alwaysinline {
  %place = alloca i32, align 4
  %word = trunc i64 %asked to i32
  store i32 %word, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""
USUAL: Final = 0x1F80

_SYSTEM: Final = """
declare i64 @llvm.readcyclecounter()

define internal i64 @system(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d) alwaysinline {
  %r = call i64 asm sideeffect "syscall",
    "={rax},{rax},{rdi},{rsi},{rdx},{r10},~{rcx},~{r11},~{memory}"
    (i64 %number, i64 %a, i64 %b, i64 %c, i64 %d)
  ret i64 %r
}
define internal void @pause() alwaysinline {
  call void asm sideeffect "pause", ""()
  ret void
}
define internal i64 @clock(i64 %before) noinline {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
define internal i64 @here() noinline {
  %number = call i64 asm sideeffect "rdtscp", "={rcx},~{rax},~{rdx}"()
  %cpu = and i64 %number, 4095
  ret i64 %cpu
}
"""
LINUX: Final = _SYSTEM + linux.calls(futex=202, yield_=24, setaffinity=203, getaffinity=204)
