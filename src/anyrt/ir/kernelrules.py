"""The rules of kernels, which all code that creates, transforms or emits them may rely on.

`kernel_faults` returns violations as text: for a parsed kernel they become other errors than for a generated
one (ir/verify.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from anyrt.core.dims import Dim, Sym, add, always_le, symbols
from anyrt.ir.buffer import BITS, FLOATS, Buffer, Scalar, Space
from anyrt.ir.kernel import (
    COMPARES,
    Alloc,
    Alu,
    Barrier,
    Cast,
    Const,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Index,
    Intrinsic,
    Kernel,
    Let,
    Load,
    Loop,
    MultiReduction,
    Op,
    Stmt,
    Store,
    free_symbols,
    index,
)
from anyrt.ir.statements import allocations, expressions
from anyrt.ir.visit import loads, parts, statements

WRITTEN = frozenset({Space.OUTPUT, Space.ARENA, Space.TABLE, Space.SCRATCH, Space.SHARED, Space.REGISTER})
INTEGER_OPS = frozenset({Op.SHL, Op.SHR, Op.LSHR, Op.CODE})
ROUNDING_OPS = frozenset({Op.SQRT, Op.FLOOR, Op.CEIL, Op.RINT, Op.TRUNC})
FLOAT_OPS = ROUNDING_OPS | {Op.LDEXP, Op.REM, Op.ANGLE}
BIT_OPS = frozenset({Op.AND, Op.OR, Op.XOR, Op.NOT})

# The loops that may surround block and thread loops.
AROUND = {
    Loop.BLOCK: (Loop.PARALLEL, Loop.BLOCK),
    Loop.THREAD: (Loop.BLOCK, Loop.THREAD),
}


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names that may be used at a place, and its context."""

    loops: frozenset[Sym]  # and what `Let` names
    registers: frozenset[Buffer] = frozenset()
    folded: frozenset[Buffer] = frozenset()  # registers that no other thread uses
    own: frozenset[Buffer] = frozenset()  # registers that no other lane uses either
    unrolled: frozenset[Sym] = frozenset()
    vector: bool = False
    level: Loop | None = None  # of the enclosing loop, if only such loops enclose it
    blocks: bool = False
    threads: bool = False
    uneven: frozenset[Sym] = frozenset()  # values that differ between the threads of a block
    diverges: bool = False  # not all threads of a block may reach this place


def kernel_faults(kernel: Kernel) -> Iterator[str]:
    """The violations of the rules in `kernel`."""
    if kernel.var.extent is None:
        yield f"variable {kernel.var} has no extent"
        return
    yield from _dim_faults(kernel.var.extent, _Scope(frozenset()), f"extent of {kernel.var}")
    yield from _dim_faults(kernel.work, _Scope(frozenset({kernel.var})), "work")
    yield from _dim_faults(kernel.scratch, _Scope(frozenset()), "scratch")
    yield from _dim_faults(kernel.shared, _Scope(frozenset()), "shared")
    yield from _body_faults(kernel.body, _Scope(frozenset({kernel.var}), level=Loop.PARALLEL))


def _body_faults(body: Iterable[Stmt], scope: _Scope) -> Iterator[str]:
    for stmt in body:
        yield from _stmt_faults(stmt, scope)
        if isinstance(stmt, Alloc):
            new = {stmt.buffer}
            scope = replace(
                scope, registers=scope.registers | new, folded=scope.folded | new, own=scope.own | new
            )
        if isinstance(stmt, Let):
            uneven = {stmt.var} if _differs(index(stmt.value), scope) else set()
            scope = replace(scope, loops=scope.loops | {stmt.var}, uneven=scope.uneven | uneven)


def _stmt_faults(stmt: Stmt, scope: _Scope) -> Iterator[str]:
    match stmt:
        case For():
            yield from _loop_faults(stmt, scope)
        case If():
            yield from _if_faults(stmt, scope)
        case Let(var=var, value=dim):
            yield from _dim_faults(dim, scope, f"value of {var}")
        case Alloc():
            yield from _alloc_faults(stmt, scope)
        case Store():
            yield from _store_faults(stmt, scope)
        case Fold():
            yield from _fold_faults(stmt, scope)
        case MultiReduction():
            yield from _multi_reduction_faults(stmt, scope)
        case Fetch():
            yield from _fetch_faults(stmt, scope)
        case Barrier():
            yield from _barrier_faults(scope)


def _alloc_faults(stmt: Alloc, scope: _Scope) -> Iterator[str]:
    buffer = stmt.buffer
    if buffer.space is not Space.REGISTER:
        yield f"{buffer.name} is allocated in {buffer.space.value}, which is not for registers"
    if not isinstance(buffer.size, int) or buffer.size < 1:
        yield f"register {buffer.name} has {buffer.size} elements"
    yield from _write_faults(buffer, stmt.value, scope)


def _store_faults(stmt: Store, scope: _Scope) -> Iterator[str]:
    yield from _access_faults(stmt.buffer, stmt.index, scope)
    if stmt.buffer in scope.registers - scope.own:
        yield f"lanes or threads store into register {stmt.buffer.name}, which they share"
    if scope.blocks and not scope.threads and stmt.buffer.space is not Space.REGISTER:
        yield f"a store to {stmt.buffer.name} by a block, outside thread loops"
    yield from _write_faults(stmt.buffer, stmt.value, scope)


def _fold_faults(stmt: Fold, scope: _Scope) -> Iterator[str]:
    if stmt.buffer.space is not Space.REGISTER:
        yield f"a fold into {stmt.buffer.name}, which is not a register"
    yield from _access_faults(stmt.buffer, stmt.index, scope)
    yield from _shared_faults(stmt.buffer, scope)
    yield from _write_faults(stmt.buffer, stmt.value, scope)


def _shared_faults(buffer: Buffer, scope: _Scope) -> Iterator[str]:
    if buffer in scope.registers - scope.folded:
        yield f"blocks or threads fold into register {buffer.name}, which they share"


def _multi_reduction_faults(stmt: MultiReduction, scope: _Scope) -> Iterator[str]:
    name = "a fold of " + ", ".join(b.name for b in stmt.buffers)
    counts = {len(x) for x in (stmt.buffers, stmt.step, stmt.neutral, stmt.others, stmt.merge)}
    both = {*stmt.buffers, *stmt.others}
    if len(counts) != 1 or len(both) != 2 * len(stmt.buffers) or not both:
        yield f"{name} has other numbers of steps, starts or partial results, or names one twice"
        return
    for buffer, other, *values in zip(
        stmt.buffers, stmt.others, stmt.step, stmt.neutral, stmt.merge, strict=True
    ):
        yield from _access_faults(buffer, 0, scope)
        yield from _shared_faults(buffer, scope)
        if other in scope.registers or {b.space for b in (buffer, other)} != {Space.REGISTER}:
            yield f"{name}: {buffer.name} is not a register, or {other.name} is not the name of another one"
        if {buffer.stored, other.stored, *(x.type for x in values)} != {buffer.stored} or buffer.size != 1:
            yield f"{name}: {buffer.name} holds one {buffer.stored.value}, and something else is not"
    for x in stmt.step:
        yield from _expr_faults(x, scope)
    for x in stmt.merge:
        yield from _expr_faults(x, _Scope(frozenset(), frozenset(both)))
    for buffer in {x.buffer for x in loads(stmt.merge)} - both:
        yield f"{name} reads {buffer.name} where partial results are merged"
    if not all(isinstance(x, Const) for x in stmt.neutral):
        yield f"{name} does not begin with literals"


def _fetch_faults(stmt: Fetch, scope: _Scope) -> Iterator[str]:
    if not scope.vector:
        yield f"a fetch of {stmt.buffer.name} outside a vector loop"
    yield from _dim_faults(stmt.index, scope, f"index of {stmt.buffer.name}")


def _barrier_faults(scope: _Scope) -> Iterator[str]:
    if not scope.blocks:
        yield "a barrier outside block loops"
    if scope.vector:
        yield "a barrier inside a vector loop"
    if scope.diverges:
        yield "a barrier that some threads of a block may not reach, or not as often"


def _differs(x: Expr, scope: _Scope) -> bool:
    """True if threads of a block may see different values; a loaded value may be any."""
    if not scope.blocks:
        return False
    return bool(free_symbols(x) & scope.uneven) or bool(loads([x]))


def _if_faults(stmt: If, scope: _Scope) -> Iterator[str]:
    if scope.vector:
        yield "an if inside a vector loop"
    if stmt.condition.type is not Scalar.BOOL:
        yield f"an if on {stmt.condition} of type {stmt.condition.type.value}"
    yield from _expr_faults(stmt.condition, scope)
    diverges = scope.diverges or _differs(stmt.condition, scope)
    yield from _body_faults(stmt.body, replace(scope, level=None, diverges=diverges))


def _loop_faults(loop: For, scope: _Scope) -> Iterator[str]:
    if loop.kind is Loop.PARALLEL:
        yield f"loop {loop.var} is parallel inside the kernel's own parallel loop"
    if loop.var in scope.loops:
        yield f"loop {loop.var} inside a loop of the same variable"
    if loop.var.extent is None:
        yield f"loop {loop.var} has no extent"
        return
    yield from _dim_faults(loop.var.extent, scope, f"extent of {loop.var}")
    if loop.kind is Loop.UNROLL and not isinstance(loop.var.extent, int):
        yield f"unrolled loop {loop.var} has no fixed extent"
    if loop.kind is Loop.TILE and len(loop.body) != 1:
        yield f"tile {loop.var} holds {len(loop.body)} statements, not one"
    if loop.registers != 1 and (
        loop.kind is not Loop.VECTOR or loop.registers < 1 or loop.registers & (loop.registers - 1)
    ):
        yield f"{loop.kind.value} loop {loop.var} over vectors of {loop.registers} registers"
    if loop.kind is Loop.VECTOR:
        yield from _lane_faults(loop)
    if loop.kind in AROUND:
        yield from _block_faults(loop, scope)
    yield from _body_faults(loop.body, _inside(loop, scope))


def _lane_faults(loop: For) -> Iterator[str]:
    """A value that lanes fold into is partial until the loop ends: it is folded in one way, and nothing else
    reads it."""
    ways: dict[Buffer, set[object]] = {}
    others: list[Stmt] = []
    for stmt in statements(loop.body):
        match stmt:
            case Fold(buffer=buffer, op=op):
                ways.setdefault(buffer, set()).add(op)
                others.append(stmt)
            case MultiReduction():
                for buffer in stmt.buffers:
                    ways.setdefault(buffer, set()).add((stmt.neutral, stmt.merge))
            case For() | If():
                pass  # their own registers are outside, or rejected
            case _:
                others.append(stmt)
    shared = ways.keys() - {s.buffer for s in allocations(loop.body)}
    read = {x.buffer for x in loads(expressions(others))} if shared else set()
    for buffer in sorted(shared, key=lambda b: b.name):
        if len(ways[buffer]) > 1 or buffer in read:
            yield f"register {buffer.name} is read or folded in another way inside vector loop {loop.var}"


def _inside(loop: For, scope: _Scope) -> _Scope:
    """The names that a loop's body may use."""
    uneven = {loop.var} if loop.kind is Loop.THREAD else set()
    diverges = scope.diverges or _differs(index(loop.var.extent or 0), scope)
    level = loop.kind if loop.kind in AROUND else None
    scope = replace(
        scope, loops=scope.loops | {loop.var}, level=level, diverges=diverges, uneven=scope.uneven | uneven
    )
    match loop.kind:
        case Loop.VECTOR:
            return replace(scope, own=frozenset(), vector=True)
        case Loop.UNROLL | Loop.TILE if isinstance(loop.var.extent, int):
            return replace(scope, unrolled=scope.unrolled | {loop.var})
        case Loop.BLOCK | Loop.THREAD as kind:
            return replace(
                scope, own=frozenset(), folded=frozenset(), blocks=True, threads=kind is Loop.THREAD
            )
        case _:
            return scope


def _block_faults(loop: For, scope: _Scope) -> Iterator[str]:
    kinds = {s.kind for s in loop.body if isinstance(s, For)}
    if scope.level not in AROUND[loop.kind]:
        yield f"{loop.kind.value} loop {loop.var} is not allowed there"
    if loop.kind in kinds and len(kinds) > 1:
        yield f"{loop.kind.value} loop {loop.var} contains another one and other loops"
    if _differs(index(loop.var.extent or 0), scope):
        yield f"{loop.kind.value} loop {loop.var} has different extents for threads"


def _write_faults(buffer: Buffer, value: Expr, scope: _Scope) -> Iterator[str]:
    if buffer.space not in WRITTEN:
        yield f"a write to {buffer.name}, which is in {buffer.space.value}"
    if value.type is not buffer.stored:
        yield f"{buffer.name} holds {buffer.stored.value} and receives {value.type.value}"
    yield from _expr_faults(value, scope)


def _access_faults(buffer: Buffer, at: Dim, scope: _Scope) -> Iterator[str]:
    """The index of a register must be known when code is written: unrolled loops may determine it."""
    yield from _dim_faults(at, scope, f"index of {buffer.name}")
    if buffer.space is Space.SHARED and not scope.threads:
        yield f"{buffer.name} in shared memory is used outside thread loops"
    if buffer.space is Space.SCRATCH and scope.blocks:
        yield f"{buffer.name} in scratch is used inside block loops"
    if buffer.space is not Space.REGISTER:
        return
    if buffer not in scope.registers:
        yield f"register {buffer.name} is used before it is allocated"
    moving = sorted(s.name for s in symbols(at) - scope.unrolled)
    if moving:
        yield f"index of register {buffer.name} moves with {moving[0]}, which is not an unrolled loop"
    elif not (always_le(0, at) and always_le(add(at, 1), buffer.size)):
        yield f"index {at} of register {buffer.name}, which has {buffer.size} elements"


def _dim_faults(x: Dim, scope: _Scope, what: str) -> Iterator[str]:
    """Loop variables must be in scope. Sizes are known everywhere. Opaque symbols (which may have an extent,
    too) require their sources."""
    for sym in sorted(symbols(x), key=lambda s: s.name):
        if sym.extent is not None and sym.source is None and sym not in scope.loops:
            yield f"{what} uses {sym} outside its loop"
        if isinstance(sym.source, Const | Index | Load | Alu | Cast):
            yield from _expr_faults(sym.source, scope)


def _expr_faults(x: Expr, scope: _Scope) -> Iterator[str]:
    for node in parts([x], bound=False):
        match node:
            case Index(dim=dim):
                yield from _dim_faults(dim, scope, "an index")
            case Load(buffer=buffer, index=dim, word=word):
                yield from _access_faults(buffer, dim, scope)
                if word and (buffer.space is Space.REGISTER or BITS[buffer.stored] not in (8, 16)):
                    yield f"a word of {buffer.name}, which holds no bytes or halves of words in memory"
            case Alu():
                yield from _alu_faults(node)
            case _:
                pass


def _alu_faults(node: Alu) -> Iterator[str]:
    fault = operand_fault(node.op, [a.type for a in node.args])
    if fault is not None:
        yield fault
        return
    kind = node.op.total if isinstance(node.op, Intrinsic) else node.args[-1].type
    result = Scalar.BOOL if node.op in COMPARES else node.type if node.op is Op.BITCAST else kind
    result = Scalar.F32 if node.op is Op.CODE else result
    if node.type is not result:
        yield f"{node.op.value} of {kind.value} gives {node.type.value}"


def operand_fault(op: Op | Intrinsic, kinds: Sequence[Scalar]) -> str | None:
    """The type error of operands of these types, if any."""
    names = ", ".join(t.value for t in kinds)
    if isinstance(op, Intrinsic):
        return None if list(kinds) == [Scalar.I32] * 2 else f"{op.name} of ({names}), wanted two words"
    if len(kinds) != ARITY.get(op, 2):
        return f"{op.value} of ({names}), wanted {ARITY.get(op, 2)} operands"
    same = kinds[1:] if op is Op.SELECT else kinds
    floats_only, bits_only = op in FLOAT_OPS, op in INTEGER_OPS | BIT_OPS
    suits = not floats_only if same[0] not in FLOATS else not bits_only
    suits &= op is not Op.ANGLE or same[0] is Scalar.F32
    suits &= op is not Op.CODE or same[0] is Scalar.I32
    if len(set(same)) > 1 or not suits or (op is Op.SELECT and kinds[0] is not Scalar.BOOL):
        return f"{op.value} of ({names})"
    return None


ARITY: dict[Op, int] = {
    **dict.fromkeys(ROUNDING_OPS | {Op.NEG, Op.ABS, Op.NOT, Op.BITCAST, Op.ANGLE}, 1),
    Op.FMA: 3,
    Op.SELECT: 3,
}
