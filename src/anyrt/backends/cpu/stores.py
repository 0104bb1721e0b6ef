"""Stores of vector loops, whole vectors, past the caches if that pays, or only some lanes; and prefetches."""

from __future__ import annotations

from anyrt.backends.cpu.transpose import shuffle
from anyrt.backends.cpu.vectors import Lanes, Vectors
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.core.dims import depends, linear
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.kernel import Fetch, Store

LEAST_PAST = 16  # bytes of the smallest vectors that can be stored past the caches


def store(v: Vectors, stmt: Store, lanes: Lanes) -> None:
    """The value in every lane."""
    values, scope = v.values, v.out.scopes.inner
    buffer, type = stmt.buffer, stmt.buffer.stored
    assert stmt.value.type is type, f"storing {stmt.value.type} into {buffer.name}, which holds {type}"
    value = v.value(stmt.value)
    values.changed(buffer.name)
    moved = linear(stmt.index, lanes.var)
    if moved and moved[0] == 1:
        where = v.run(scope, buffer, v.lane_zero(scope, 1, moved[1], lanes), lanes, writes=True)
        store_run(v, buffer, value, where, lanes)
    else:
        _scatter(v, stmt, value, lanes)


def store_run(v: Vectors, buffer: Buffer, value: str, where: str, lanes: Lanes) -> None:
    """Lanes that are contiguous in memory."""
    scope, type = v.out.scopes.inner, buffer.stored
    kind, size = ll.vector(type, lanes.width), ll.BYTES[type]
    nbytes = lanes.width * size
    part = min(v.machine.vector_bits // 8, nbytes & -nbytes)  # a value to fill registers with
    if lanes.mask is None and buffer.nontemporal != 0 and part >= LEAST_PAST:
        _store_past(v, buffer, kind, value, where, part)
    elif lanes.mask is None and nbytes > v.machine.vector_bits // 8 == part:
        _store_parts(v, type, value, where, lanes)
    elif lanes.mask is None:
        scope.lines.append(f"  store {kind} {value}, ptr {where}, align {size}")
    else:
        arguments = [
            (kind, value),
            ("ptr", where),
            ("i32", f"{size}"),
            (f"<{lanes.width} x i1>", f"{lanes.mask}"),
        ]
        v.out.run(scope, f"llvm.masked.store.{ll.suffix(type, lanes.width)}.p0", arguments)


def _store_parts(v: Vectors, type: Scalar, value: str, where: str, lanes: Lanes) -> None:
    """Register by register: LLVM merges several stores to one long integer if it knows that a part of it is
    loaded."""
    scope, name, size = v.out.scopes.inner, ll.NAMES[type], ll.BYTES[type]
    width = v.machine.vector_bits // 8 // size
    for first in range(0, lanes.width, width):
        picks = list(range(first, first + width))
        part = shuffle(v.out, scope, value, "poison", name, lanes.width, picks)
        at = v.out.put(scope, f"getelementptr {name}, ptr {where}, i64 {first}") if first else where
        scope.lines.append(f"  store {ll.vector(type, width)} {part}, ptr {at}, align {size}")


def _store_past(v: Vectors, buffer: Buffer, kind: str, value: str, where: str, part: int) -> None:
    """Past the caches if the address allows it: such stores exist for aligned vectors only."""
    scope = v.out.scopes.inner
    past, plain, done = (v.out.scopes.name(stem) for stem in ("past", "plain", "stored"))
    address = v.out.put(scope, f"ptrtoint ptr {where} to i64")
    odd = v.out.put(scope, f"and i64 {address}, {part - 1}")
    even = v.out.put(scope, f"icmp eq i64 {odd}, 0")
    if buffer.nontemporal != 1:
        large = v.out.put(scope, f"icmp ne i64 {v.values.dim(buffer.nontemporal)}, 0")
        even = v.out.put(scope, f"and i1 {large}, {even}")
    scope.lines += [
        f"  br i1 {even}, label %{past}, label %{plain}",
        f"{past}:",
        f"  store {kind} {value}, ptr {where}, align {part}, !nontemporal !1",
        f"  br label %{done}",
        f"{plain}:",
        f"  store {kind} {value}, ptr {where}, align {ll.BYTES[buffer.stored]}",
        f"  br label %{done}",
        f"{done}:",
    ]


def _scatter(v: Vectors, stmt: Store, value: str, lanes: Lanes) -> None:
    scope, type, width = v.out.scopes.inner, stmt.buffer.stored, lanes.width
    where = v.places(scope, stmt.buffer, stmt.index, lanes, writes=True)
    mask = lanes.mask or ll.splat(True, Scalar.BOOL, width)
    name, kind = f"llvm.masked.scatter.{ll.suffix(type, width)}.v{width}p0", ll.vector(type, width)
    places, flags = (f"<{width} x ptr>", where), (f"<{width} x i1>", mask)
    v.out.run(scope, name, [(kind, value), places, ("i32", f"{ll.BYTES[type]}"), flags])


def fetch(v: Vectors, stmt: Fetch, lanes: Lanes) -> None:
    """Every cache line that the lanes would read, one if it is the same for all; a masked step is not worth
    it."""
    scope = v.out.scopes.inner
    if lanes.mask is None:
        first = v.lane_zero(scope, 1, substitute(stmt.index, {lanes.var: 0}), lanes)
        kind, size = ll.NAMES[stmt.buffer.stored], ll.BYTES[stmt.buffer.stored]
        where = v.out.put(scope, f"getelementptr {kind}, ptr {v.values.pointers[stmt.buffer]}, i64 {first}")
        end = lanes.width * size if depends(stmt.index, lanes.var) else 1
        for line in range(0, end, v.machine.line_bytes):
            prefetch(v.out, scope, where, line, nearest=stmt.nearest)


def prefetch(w: Writer, scope: Scope, where: str, ahead: int, *, nearest: bool = False) -> None:
    """Prefetch the cache line `ahead` bytes behind `where`, to a cache near the core or to the nearest
    one."""
    at = w.put(scope, f"getelementptr i8, ptr {where}, i64 {ahead}")
    how = [("i32", "0"), ("i32", "3" if nearest else "2"), ("i32", "1")]
    w.run(scope, "llvm.prefetch.p0", [("ptr", at), *how])
