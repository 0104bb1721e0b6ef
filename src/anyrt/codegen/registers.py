"""Accumulators: where they are, and how values are folded into them."""

from __future__ import annotations

from collections.abc import Callable

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Register, Values
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alloc, Alu, Expr, Fold, Intrinsic, Op, Store


def allocate(v: Values, stmt: Alloc, width: int, read: Callable[[Expr], str]) -> None:
    """Initialize accumulators of `lanes` lanes with the value that `read` writes."""
    name, kind, count = stmt.buffer.name, ll.vector(stmt.buffer.stored, width), stmt.buffer.size
    assert isinstance(count, int), f"{name} has an open number of registers"
    pointer, scope = f"%{v.out.scopes.name('r')}", v.out.scopes.inner
    v.allocas.append(f"  {pointer} = alloca [{count} x {kind}], align 64")
    first = read(stmt.value)
    v.registers[name] = Register(pointer, width)
    v.changed(name)
    for n in range(count):
        scope.lines.append(f"  store {kind} {first}, ptr {v.register(scope, stmt.buffer, n)}")


def keep(v: Values, stmt: Store, read: Callable[[Expr], str]) -> None:
    """Store the value that `read` writes to an accumulator."""
    register, scope = v.registers[stmt.buffer.name], v.out.scopes.inner
    kind, value = ll.vector(stmt.buffer.stored, register.lanes), read(stmt.value)
    scope.lines.append(f"  store {kind} {value}, ptr {v.register(scope, stmt.buffer, stmt.index)}")
    v.changed(stmt.buffer.name)


def fold(
    v: Values,
    stmt: Fold,
    read: Callable[[Expr], str],
    kept: Callable[[str, str], str] = lambda new, _: new,
) -> None:
    """Fold the value that `read` writes into an accumulator, which then contains `kept(new, old)`."""
    register, type = v.registers[stmt.buffer.name], stmt.buffer.stored
    scope, kind = v.out.scopes.inner, ll.vector(type, register.lanes)
    where = v.register(scope, stmt.buffer, stmt.index)
    old = v.out.put(scope, f"load {kind}, ptr {where}")
    dotted = _dotted(v, stmt, old, register.lanes, read)
    factors = _factors(stmt) if v.out.instructions.has_fma else ()
    if dotted is not None:
        new = dotted
    elif factors:
        name, texts = f"llvm.fma.{ll.suffix(type, register.lanes)}", [*map(read, factors), old]
        new = v.out.call(scope, kind, name, [(kind, x) for x in texts])
    else:
        new = combine(v.out, scope, stmt.op, type, register.lanes, old, read(stmt.value))
    scope.lines.append(f"  store {kind} {kept(new, old)}, ptr {where}")
    v.changed(stmt.buffer.name)


def _dotted(v: Values, stmt: Fold, old: str, lanes: int, read: Callable[[Expr], str]) -> str | None:
    """An accumulator plus a dot, if one instruction computes both."""
    x = stmt.value
    if not isinstance(x, Alu) or not isinstance(x.op, Intrinsic) or stmt.op is not Op.ADD or lanes == 1:
        return None
    a, b = x.args
    write = v.out.instructions.dot(x.op, lanes)
    return None if write is None else write(v.out, v.out.scopes.inner, old, (read(a), read(b)))


def _factors(stmt: Fold) -> tuple[Expr, ...]:
    """The factors of a term, if one instruction multiplies them and adds the product to the accumulator."""
    match stmt.value:
        case Alu(op=Op.MUL, args=args) if stmt.op is Op.ADD and stmt.buffer.stored is Scalar.F32:
            return args
        case _:
            return ()


def combine(w: Writer, scope: Scope, op: Op, type: Scalar, lanes: int, a: str, b: str) -> str:
    """op(a, b)."""
    kind = ll.vector(type, lanes)
    if type is Scalar.F32 and op in (Op.MIN, Op.MAX):
        return w.instructions.extreme(w, scope, op, (a, b), lanes)
    table = ll.FLOAT_OPS if type.is_float else ll.INT_OPS
    if op in table:
        return w.put(scope, f"{table[op]} {kind} {a}, {b}")
    whole = ll.UNSIGNED_INTRINSICS if type is Scalar.U64 else ll.INT_INTRINSICS
    names = ll.INTRINSICS if type.is_float else whole
    return w.call(scope, kind, f"llvm.{names[op]}.{ll.suffix(type, lanes)}", [(kind, a), (kind, b)])
