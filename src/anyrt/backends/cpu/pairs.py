"""Gathers of neighbours: two adjacent elements at positions that are data are loaded together.

The time of a gather depends on the number of lanes, not on their width: one of pairs, with a shuffle for each
element, takes half as long as two that read `x[v]` and `x[v + 1]`, as in interpolation of images. Both loads
must be in the body of one vector loop, so the pair reads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from anyrt.backends.cpu.transpose import shuffle
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim
from anyrt.core.dims import Expr as DimExpr
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import For, Load, Stmt
from anyrt.ir.statements import expressions
from anyrt.ir.visit import parts

# Types of one element and of two, by the bytes of one. For floats LLVM writes one permute, for integers of 32
# bits several narrowing instructions.
_ONE: Final = {2: "i16", 4: "float"}
_TWO: Final = {2: "i32", 4: "double"}
_SHORT: Final = {2: "i32", 4: "f64"}
SIZES: Final = frozenset(_ONE)


def pairs_of(body: Iterable[Stmt]) -> Mapping[Load, tuple[Load, int]]:
    """For each load adjacent to another one the first of the two, and which of them it is; loads of inner
    loops, which may have no iteration, are excluded."""
    plain = [s for s in body if not isinstance(s, For)]
    lines: dict[tuple[Buffer, Dim], dict[int, Load]] = {}
    for x in parts(expressions(plain)):
        if isinstance(x, Load) and isinstance(x.index, DimExpr) and not x.word:
            fixed = next((c for m, c in x.index.terms if not m), 0)
            lines.setdefault((x.buffer, x.index - fixed), {})[fixed] = x
    pairs: dict[Load, tuple[Load, int]] = {}
    for line in lines.values():
        for at in sorted(line):
            if at + 1 in line and line[at] not in pairs:
                pairs |= {line[at]: (line[at], 0), line[at + 1]: (line[at], 1)}
    return pairs


def gather(w: Writer, scope: Scope, first: Load, where: str, mask: str, width: int) -> str:
    """Both elements in each lane."""
    size = ll.BYTES[first.buffer.stored]
    return gathered(w, scope, f"{width} x {_TWO[size]}", f"v{width}{_SHORT[size]}", (where, size, mask))


def gathered(w: Writer, scope: Scope, lanes: str, suffix: str, read: tuple[str, int, str]) -> str:
    """Elements of a vector, at addresses that are multiples of so many bytes, under a mask."""
    (where, size, mask), width = read, lanes.split(" ", 1)[0]
    args = [(f"<{width} x ptr>", where), ("i32", f"{size}"), (f"<{width} x i1>", mask)]
    args.append((f"<{lanes}>", "zeroinitializer"))
    return w.call(scope, f"<{lanes}>", f"llvm.masked.gather.{suffix}.v{width}p0", args)


def half(w: Writer, scope: Scope, x: Load, pair: str, which: int, width: int) -> str:
    """The first or the second element of each lane; the lower half of a lane is the first in memory."""
    size = ll.BYTES[x.buffer.stored]
    both = w.put(scope, f"bitcast <{width} x {_TWO[size]}> {pair} to <{2 * width} x {_ONE[size]}>")
    picks = [2 * i + which for i in range(width)]
    part = shuffle(w, scope, both, "poison", _ONE[size], 2 * width, picks)
    return w.put(scope, f"bitcast <{width} x {_ONE[size]}> {part} to {ll.vector(x.type, width)}")
