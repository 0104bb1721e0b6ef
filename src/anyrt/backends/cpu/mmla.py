"""Sums of dots in tiles of 2 × 2, each tile in one register of NEON (SMMLA, BFMMLA).

The first operand of the instruction has two words of each of two rows, the second one two words of each of
two lanes, and each of the four sums in the third one receives the products of a row and a lane:

    [a0 a1]   [s00 s01]      s00 += dot(a0, b0) + dot(a1, b1), of the words of row 0 and of lane 0,
    [c0 c1] → [s10 s11]      s01 of row 0 and lane 1, s10 and s11 of row 1

Rows are loaded if words of one row are contiguous, lanes if those of one word are: two words of four lanes
are two operands after interleaving. The sums are reordered as they are stored to scratch.

BFMMLA treats float32 like BFDOT, twice: without FEAT_EBF16, or if a program does not enable it, it flushes
denormal factors, products and sums to 0, and rounds a sum of two products, and the sum of that and the
accumulator, to odd. Each addition therefore has an error of less than 2⁻²³ of its result, with mean zero.
(Arm Architecture Reference Manual, shared/functions/float/bfloat, BFDotAdd and BFMatMulAdd)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyrt.backends.cpu.intrinsics import BYTES, MMLA, PAIRS
from anyrt.backends.cpu.matrix import WORD, MatrixProduct, matrix_product, moved, places
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values
from anyrt.core.machine import Machine
from anyrt.ir.kernel import For
from anyrt.ir.rewrite import Fail

FOUR: Final = 4  # words in a register
TERMS: Final = {BYTES: "<16 x i8>", PAIRS: "<8 x bfloat>"}
LOWER, UPPER = "i32 0, i32 4, i32 1, i32 5", "i32 2, i32 6, i32 3, i32 7"  # lanes of two words, interleaved
ROWS: Final = ("i32 0, i32 1, i32 4, i32 5", "i32 2, i32 3, i32 6, i32 7")  # of two tiles of 2 × 2 sums


def mmla_product(loop: For) -> MatrixProduct | Fail:
    """The product of a loop that equals the definition."""
    p = matrix_product(loop, MMLA)
    one = isinstance(p, Fail) or len(p.seconds) == 1
    return p if one else Fail("it sums words of two parts")


def intrinsic(loop: For) -> str | Fail:
    """The name of the instruction that computes a loop."""
    p = mmla_product(loop)
    return p if isinstance(p, Fail) else p.by.loop


def has(name: str, machine: Machine) -> bool:
    """Whether a machine has the instruction of a marked loop."""
    return any(x.loop == name and x.has(machine) for x in MMLA)


def write(v: Values, p: MatrixProduct) -> None:
    """The sums initialized, the loop over two words at a time, and the stores."""
    scope, out, kind = v.out.scopes.inner, v.out, ll.vector(p.by.intrinsic.total, FOUR)
    first, (second,), target = places(v, scope, p)
    pitch, step = (
        out.put(scope, f"mul i64 {v.dim(by)}, {ll.BYTES[x.buffer.stored]}")
        for by, x in ((p.pitch, p.first), (p.step, p.seconds[0]))
    )
    count, rows = v.dim(p.count), [_row(v, scope, first, pitch, row) for row in range(p.rows)]
    names = [f"%{out.scopes.name('sum')}" for _ in range(p.rows * p.lanes // FOUR)]
    at, after = (f"%{out.scopes.name('k')}" for _ in "ka")
    before, head, done = (out.scopes.name(n) for n in ("pre", "dots", "done"))
    scope.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
    begin = len(scope.lines)
    sums = _products(v, scope, p, names, _operands(v, scope, rows, (second, step, p.lanes), at))
    scope.lines.append(f"  {after} = add nuw nsw i64 {at}, {p.by.grid.deep}")
    again = out.put(scope, f"icmp slt i64 {after}, {count}")
    scope.lines += [f"  br i1 {again}, label %{head}, label %{done}", f"{done}:"]
    turns = (
        (at, "i64", "0", after),
        *((n, kind, "zeroinitializer", s) for n, s in zip(names, sums, strict=True)),
    )
    phis = [f"  {x} = phi {of} [{none}, %{before}], [{then}, %{head}]" for x, of, none, then in turns]
    scope.lines[begin:begin] = phis
    _store(v, scope, p, target, sums)
    v.changed(p.target.buffer.name)


def _row(v: Values, scope: Scope, first: str, pitch: str, row: int) -> str:
    """The start of a row's words."""
    by = moved(v, scope, first, v.out.put(scope, f"mul i64 {pitch}, {row}"))
    return v.out.put(scope, f"getelementptr i8, ptr {first}, i64 {by}")


def _operands(
    v: Values, scope: Scope, rows: Sequence[str], lanes: tuple[str, str, int], at: str
) -> tuple[list[str], list[str]]:
    """The registers of two words each, from the word `at` on: of each two rows, of each two lanes. `lanes`:
    the address of their words, the bytes from one to the next, and their number."""
    (second, step, count), out = lanes, v.out
    along = out.put(scope, f"mul i64 {at}, {WORD}")
    halves = [_load(v, scope, "i64", row, along) for row in rows]
    firsts = []
    for a, b in zip(halves[::2], halves[1::2], strict=True):
        one = out.put(scope, f"insertelement <2 x i64> poison, i64 {a}, i64 0")
        firsts.append(out.put(scope, f"insertelement <2 x i64> {one}, i64 {b}, i64 1"))
    start = out.put(scope, f"mul i64 {at}, {step}")
    behind = out.put(scope, f"add i64 {start}, {step}")
    seconds = []
    for lane in range(0, count, FOUR):
        places = (out.put(scope, f"add i64 {x}, {lane * WORD}") for x in (start, behind))
        a, b = (_load(v, scope, "<4 x i32>", second, x) for x in places)
        seconds += [_shuffled(v, scope, "<4 x i32>", a, b, order) for order in (LOWER, UPPER)]
    return firsts, seconds


def _products(
    v: Values, scope: Scope, p: MatrixProduct, sums: Sequence[str], operands: tuple[list[str], list[str]]
) -> list[str]:
    """The sums, row by row of 2 × 2 tiles, with the products of these operands."""
    terms, kind = TERMS[p.by.intrinsic], ll.vector(p.by.intrinsic.total, FOUR)
    firsts, seconds = (
        [v.out.put(scope, f"bitcast {of} {x} to {terms}") for x in some]
        for some, of in zip(operands, ("<2 x i64>", "<4 x i32>"), strict=True)
    )
    pairs = ((a, b) for a in firsts for b in seconds)
    return [
        v.out.call(scope, kind, p.by.name, [(kind, total), (terms, a), (terms, b)])
        for total, (a, b) in zip(sums, pairs, strict=True)
    ]


def _store(v: Values, scope: Scope, p: MatrixProduct, target: str, sums: Sequence[str]) -> None:
    """The sums of each two rows as two lines."""
    kind, across = ll.vector(p.by.intrinsic.total, FOUR), p.lanes // 2
    for row in range(p.rows):
        own = sums[row // 2 * across :][:across]
        for lane, (a, b) in enumerate(zip(own[::2], own[1::2], strict=True)):
            value = _shuffled(v, scope, kind, a, b, ROWS[row % 2])
            by = moved(v, scope, target, str((row * p.lanes + lane * FOUR) * WORD))
            place = v.out.put(scope, f"getelementptr i8, ptr {target}, i64 {by}")
            scope.lines.append(f"  store {kind} {value}, ptr {place}, align {WORD}")


def _load(v: Values, scope: Scope, kind: str, start: str, by: str) -> str:
    place = v.out.put(scope, f"getelementptr i8, ptr {start}, i64 {moved(v, scope, start, by)}")
    return v.out.put(scope, f"load {kind}, ptr {place}, align 1")


def _shuffled(v: Values, scope: Scope, kind: str, a: str, b: str, order: str) -> str:
    return v.out.put(scope, f"shufflevector {kind} {a}, {kind} {b}, <4 x i32> <{order}>")
