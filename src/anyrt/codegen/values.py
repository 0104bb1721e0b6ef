"""Kernel expressions and indices to scalar LLVM instructions.

Each object of a kernel is written once, in the outermost scope in which its operands are defined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from anyrt.codegen import arithmetic
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.checks import Checks
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim, Fn, Monomial, Sym, polynomial, product, symbols
from anyrt.core.dims import Expr as DimExpr
from anyrt.core.dimvalues import rebuild
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Index, Load, cast, free_symbols, operands

LOCAL: Final = frozenset({Space.SCRATCH, Space.SHARED})  # memory that the kernel's caller does not provide
REGISTERS: Final = frozenset({Space.REGISTER})
MEMORY: Final = frozenset(Space) - REGISTERS


@dataclass(slots=True)
class Register:
    """The stack slot of an accumulator, or of an array of them (LLVM promotes it), and the lanes of each;
    whether these become one number in the end."""

    pointer: str
    lanes: int
    joined: bool = False


@dataclass(slots=True)
class Values:
    """Writes expressions into the scopes of one function."""

    out: Writer
    slots: dict[Dim, int]
    pointers: dict[Buffer, str] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    allocas: list[str] = field(default_factory=list)
    # Names of other buffers that the function reads and writes.
    own: frozenset[str] = frozenset()
    # Writes so far, of each register, each buffer in scratch or shared memory, and each of those.
    state: dict[str, int] = field(default_factory=dict)
    checks: Checks | None = None  # where every access is checked

    def changed(self, name: str) -> None:
        """The register or buffer `name` was written: cached values that depend on it are invalid."""
        self.state[name] = self.state.get(name, 0) + 1

    # ---- indices ------------------------------------------------------------------------------

    def dim(self, x: Dim) -> str:
        """An index that no lane changes, as i64."""
        if isinstance(x, int):
            return str(x)
        loops = self.loop_symbols(x)
        if not loops:
            return self._slot(x)
        scope = self._scope(loops)
        if x not in scope.known:
            scope.known[x] = self._sum(x, loops)
        return scope.known[x]

    def _scope(self, loops: frozenset[Sym]) -> Scope:
        """Where an index that depends on these is written: where the registers and the memory that it reads
        change, too."""
        sources = (s.source for s in loops)
        read = (registers_of(x) | self.local(x) for x in sources if isinstance(x, Index | Load | Alu | Cast))
        return self.out.scopes.home(loops, frozenset().union(*read))

    def loop_symbols(self, x: Dim | Sym | Fn) -> frozenset[Sym]:
        """The symbols that `x` reads, without sizes."""
        return frozenset(
            s
            for s in symbols(x)
            if s.extent is not None or s.source is not None or self.out.scopes.value_of(s)
        )

    def _slot(self, x: DimExpr) -> str:
        """A value that depends on sizes only: `prepare` has computed it."""
        entry = self.out.scopes.stack[0]
        if x not in entry.known:
            at = self.slots.setdefault(x, len(self.slots))
            where = self.out.put(entry, f"getelementptr i64, ptr %slots, i64 {at}")
            entry.known[x] = self.out.put(entry, f"load i64, ptr {where}, !invariant.load !0", "n")
        return entry.known[x]

    def _sum(self, x: DimExpr, loops: frozenset[Sym]) -> str:
        """Loop-variable products times size-only coefficients, outermost first, so that partial sums leave
        inner loops."""
        groups: dict[Monomial, dict[Monomial, int]] = {}
        for m, c in x.terms:
            moving = tuple(a for a in m if self.loop_symbols(a))
            still = tuple(a for a in m if a not in moving)
            groups.setdefault(moving, {})[still] = c
        total: Dim = 0
        text = ""
        for moving in sorted(groups, key=self._depth):
            coefficient = polynomial(groups[moving])
            part = product([coefficient, *(single(a) for a in moving)])
            total = total + part
            scope = (
                self._scope(self.loop_symbols(total))
                if isinstance(total, DimExpr)
                else self.out.scopes.stack[0]
            )
            value = self._product(scope, coefficient, moving)
            text = value if not text else self.out.put(scope, f"add i64 {text}, {value}", "i")
        return text

    def _depth(self, moving: Monomial) -> tuple[int, str]:
        needs = frozenset().union(*map(self.loop_symbols, moving)) if moving else frozenset()
        scope = self._scope(needs)
        return self.out.scopes.stack.index(scope), repr(moving)

    def _product(self, scope: Scope, coefficient: Dim, moving: Monomial) -> str:
        text = "" if coefficient == 1 and moving else self.dim(coefficient)
        for a in moving:
            value = self._atom(a)
            text = value if not text else self.out.put(scope, f"mul i64 {text}, {value}", "i")
        return text

    def _atom(self, atom: Sym | Fn) -> str:
        if isinstance(atom, Fn):
            return self._function(atom)
        if atom.source is not None:
            return self._bound(atom)
        value = self.out.scopes.value_of(atom)
        assert value is not None, f"symbol {atom} is used outside its loop"
        return value

    def _bound(self, sym: Sym) -> str:
        scope = self._scope(self.loop_symbols(sym))
        if sym not in scope.known:
            source = sym.source
            assert isinstance(source, Const | Index | Load | Alu | Cast)
            scope.known[sym] = self.scalar(cast(source, Scalar.I64))
        return scope.known[sym]

    def _function(self, fn: Fn) -> str:
        scope = self._scope(self.loop_symbols(fn))
        if fn not in scope.known:
            scope.known[fn] = self._function_text(scope, fn)
        return scope.known[fn]

    def _function_text(self, scope: Scope, fn: Fn) -> str:
        a, *rest = (self.dim(x) for x in fn.args)
        b = rest[0] if rest else ""
        match fn.op:
            case "min" | "max":
                return self.out.call(scope, "i64", f"llvm.s{fn.op}.i64", [("i64", a), ("i64", b)])
            case "eq":
                return self.out.put(scope, f"zext i1 {self.out.put(scope, f'icmp eq i64 {a}, {b}')} to i64")
            case "scale":
                x = self.out.put(scope, f"sitofp i64 {a} to float")
                y = self.out.put(scope, f"fmul float {x}, {ll.literal(fn.factor, Scalar.F32)}")
                floor = self.out.call(scope, "float", "llvm.floor.f32", [("float", y)])
                return self.out.put(scope, f"fptosi float {floor} to i64")
            case _:
                return self._division(scope, fn.op, a, b)

    def _division(self, scope: Scope, op: str, a: str, b: str) -> str:
        """Rounded down (or towards zero: tdiv), 0 where the divisor is 0."""
        none = self.out.put(scope, f"icmp eq i64 {b}, 0")
        safe = self.out.put(scope, f"select i1 {none}, i64 1, i64 {b}")
        quotient = self.out.put(scope, f"sdiv i64 {a}, {safe}")
        if op == "tdiv":
            return self.out.put(scope, f"select i1 {none}, i64 0, i64 {quotient}")
        rest = self.out.put(scope, f"srem i64 {a}, {safe}")
        below = self.out.put(scope, f"icmp slt i64 {self.out.put(scope, f'xor i64 {rest}, {safe}')}, 0")
        uneven = self.out.put(scope, f"icmp ne i64 {rest}, 0")
        fix = self.out.put(scope, f"and i1 {below}, {uneven}")
        if op == "floordiv":
            lower = self.out.put(scope, f"sub i64 {quotient}, {self.out.put(scope, f'zext i1 {fix} to i64')}")
            return self.out.put(scope, f"select i1 {none}, i64 0, i64 {lower}")
        wrapped = self.out.put(scope, f"select i1 {fix}, i64 {safe}, i64 0")
        return self.out.put(
            scope, f"select i1 {none}, i64 0, i64 {self.out.put(scope, f'add i64 {rest}, {wrapped}')}"
        )

    # ---- values -------------------------------------------------------------------------------

    def scalar(self, x: Expr) -> str:
        """`x` as a scalar, written in the outermost scope in which its operands are defined."""
        if isinstance(x, Const):
            return ll.literal(x.value, x.type)
        scope = self.home(x, self.out.scopes.home)
        return self.known(scope, (x, 1), x, lambda: self._write(scope, x))

    def home(self, x: Expr, find: Callable[[frozenset[Sym], frozenset[str]], Scope]) -> Scope:
        """The scope in which `x` is written: the result of `find` for the symbols and registers that it
        needs. An expression that reads changing memory stays in the current scope: its index may be in range
        only there."""
        if self.local(x):
            return self.out.scopes.inner
        return find(frozenset(s for s in free_symbols(x) if s.source is None), registers_of(x))

    def local(self, x: Expr) -> frozenset[str]:
        """Names of the buffers that `x` reads and that the function changes."""
        return local_of(x) | (memory_of(x) & self.own if self.own else frozenset())

    def known(self, scope: Scope, key: object, x: Expr, write: Callable[[], str]) -> str:
        """The value that `write` returned for `key` in `scope` before, unless memory that `x` reads has
        changed since."""
        state = tuple(self.state.get(name, 0) for name in (*registers_of(x), *sorted(self.local(x))))
        entry = scope.values.get(key)
        if entry is None or entry[1] != state:
            entry = scope.values[key] = (write(), state)
        return entry[0]

    def _write(self, scope: Scope, x: Index | Load | Alu | Cast) -> str:
        legal = self.out.instructions.replacement(x)
        if legal is not None:
            return self.scalar(legal)
        match x:
            case Index(dim=dim):
                return self.dim(dim)
            case Load():
                return self._load(scope, x)
            case Cast() | Alu():
                texts = [self.scalar(a) for a in operands(x)]
                return arithmetic.operation(self.out, scope, x, texts, 1)

    # ---- loads --------------------------------------------------------------------------------

    def address(self, scope: Scope, buffer: Buffer, at: str) -> str:
        """A pointer to element `at` of `buffer`."""
        return self.out.put(
            scope,
            f"getelementptr inbounds {ll.NAMES[buffer.stored]}, ptr {self.pointers[buffer]}, i64 {at}",
            "p",
        )

    def place(
        self,
        scope: Scope,
        buffer: Buffer,
        at: str,
        span: tuple[str, int] = ("1", 1),
        *,
        writes: bool = False,
    ) -> str:
        """A pointer to the elements from `at` on; `span`: their number, and its upper bound."""
        pointer = self.address(scope, buffer, at)
        if self.checks is None:
            return pointer
        return self.checks.run(scope, buffer, pointer, at, span, writes=writes)

    def register(self, scope: Scope, buffer: Buffer, at: Dim) -> str:
        """A pointer to an accumulator."""
        held = self.registers[buffer.name]
        kind, checks = ll.vector(buffer.stored, held.lanes), self.checks
        if at == 0:
            return held.pointer
        text = self.dim(at)
        pointer = self.out.put(scope, f"getelementptr inbounds {kind}, ptr {held.pointer}, i64 {text}")
        known, size = self._constant(at), buffer.size
        assert isinstance(size, int), f"{buffer.name} has an open number of registers"
        if checks is None or (isinstance(known, int) and 0 <= known < size):
            return pointer
        checks.limit(buffer, size)
        # The caller may write to the address, too.
        return checks.run(scope, buffer, pointer, text, ("1", held.lanes), writes=True)

    def _constant(self, at: Dim) -> Dim:
        """An index with the iterations of unrolled loops in place of their variables."""

        def turn(sym: Sym) -> Dim:
            value = self.out.scopes.value_of(sym)
            return int(value) if value is not None and value.isdecimal() else sym.dim

        return rebuild(at, turn)

    def _load(self, scope: Scope, x: Load) -> str:
        kind = ll.NAMES[x.type]
        if x.buffer.space is Space.REGISTER:
            return self.out.put(scope, f"load {kind}, ptr {self.register(scope, x.buffer, x.index)}")
        where = self.place(scope, x.buffer, self.dim(x.index), (str(x.elements), x.elements))
        return self.out.put(scope, f"load {kind}, ptr {where}, align {ll.BYTES[x.buffer.stored]}")


def single(atom: Sym | Fn) -> Dim:
    """An atom as an index."""
    return DimExpr((((atom,), 1),))


@lru_cache(maxsize=1 << 16)
def registers_of(x: Expr) -> frozenset[str]:
    """Names of the accumulators that `x` reads."""
    return _named(x, REGISTERS)


@lru_cache(maxsize=1 << 16)
def local_of(x: Expr) -> frozenset[str]:
    """Names of the buffers in scratch and shared memory that `x` reads."""
    return _named(x, LOCAL)


@lru_cache(maxsize=1 << 16)
def memory_of(x: Expr) -> frozenset[str]:
    """Names of all buffers that `x` reads, but for accumulators."""
    return _named(x, MEMORY)


@lru_cache(maxsize=1 << 17)
def _named(x: Expr, spaces: frozenset[Space]) -> frozenset[str]:
    match x:
        case Load(buffer=b):
            return frozenset({b.name}) if b.space in spaces else frozenset()
        case Alu(args=args):
            return frozenset().union(*(_named(a, spaces) for a in args))
        case Cast(arg=arg):
            return _named(arg, spaces)
        case _:
            return frozenset()
