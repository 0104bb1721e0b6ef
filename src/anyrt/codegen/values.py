"""Kernel expressions to LLVM instructions, scalar or widened over the lanes of the open vector loop.

An expression that does not depend on the vector loop's variable is computed once as a scalar and broadcast; a
load becomes a plain vector load, a strided one or a gather by how its index moves with that variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from anyrt.codegen import arithmetic, permute
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.legal import replacement
from anyrt.codegen.scope import Lanes, Scope
from anyrt.codegen.transpose import shuffle
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim, Fn, Monomial, Sym, linear, mul, product, symbols
from anyrt.core.dims import Expr as DimExpr
from anyrt.ir.kernel import (
    LANES,
    Alu,
    Buffer,
    Cast,
    Const,
    Expr,
    Index,
    Load,
    Places,
    Scalar,
    Space,
    cast,
    free_symbols,
)

# Indices within a vector loop are computed in 32 bits: no tensor has more than 2³¹ elements.
STRIDED = 4  # strides up to here are loaded whole and shuffled


@dataclass(slots=True)
class Register:
    """An accumulator's stack slot (LLVM promotes it) and its lanes."""

    pointer: str
    lanes: int


@dataclass(slots=True)
class Values:
    """Writes expressions into the scopes of one function."""

    out: Writer
    slots: dict[Dim, int]
    pointers: dict[Buffer, str] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    allocas: list[str] = field(default_factory=list)
    state: dict[str, int] = field(default_factory=dict)  # writes so far, of each register and scratch buffer

    def changed(self, name: str) -> None:
        """The register or scratch buffer `name` was written: what was computed from it is out of date."""
        self.state[name] = self.state.get(name, 0) + 1

    # ---- indices ------------------------------------------------------------------------------

    def dim(self, x: Dim) -> str:
        """An index that no lane changes, as i64."""
        if isinstance(x, int):
            return str(x)
        loops = self._loop_symbols(x)
        if not loops:
            return self._slot(x)
        scope = self.out.scopes.home(loops)
        if x not in scope.known:
            scope.known[x] = self._sum(x, loops)
        return scope.known[x]

    def _loop_symbols(self, x: Dim | Sym | Fn) -> frozenset[Sym]:
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
            moving = tuple(a for a in m if self._loop_symbols(a))
            still = tuple(a for a in m if a not in moving)
            groups.setdefault(moving, {})[still] = c
        total: Dim = 0
        text = ""
        for moving in sorted(groups, key=self._depth):
            coefficient = _poly(groups[moving])
            part = product([coefficient, *(_single(a) for a in moving)])
            total = total + part
            scope = (
                self.out.scopes.home(self._loop_symbols(total))
                if isinstance(total, DimExpr)
                else self.out.scopes.stack[0]
            )
            value = self._product(scope, coefficient, moving)
            text = value if not text else self.out.put(scope, f"add i64 {text}, {value}", "i")
        return text

    def _depth(self, moving: Monomial) -> tuple[int, str]:
        needs = frozenset().union(*map(self._loop_symbols, moving)) if moving else frozenset()
        scope = self.out.scopes.home(needs)
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
        scope = self.out.scopes.home(self._loop_symbols(sym) - {sym})
        if sym not in scope.known:
            source = sym.source
            assert isinstance(source, Const | Index | Load | Alu | Cast)
            scope.known[sym] = self.scalar(cast(source, Scalar.I64))
        return scope.known[sym]

    def _function(self, fn: Fn) -> str:
        scope = self.out.scopes.home(self._loop_symbols(fn))
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

    def lane_dim(self, x: Dim, lanes: Lanes) -> str:
        """An index that differs by lane, as a vector of i32."""
        scope = self.out.scopes.lane_home(self._loop_symbols(x))
        key = ("lanes", x)
        if key in scope.known:
            return scope.known[key]
        kind = f"<{lanes.width} x i32>"
        total = ""
        for m, c in x.terms if isinstance(x, DimExpr) else (((), x),):
            still = tuple(a for a in m if lanes.var not in symbols(a))
            uniform = self.dim(product([c, *map(_single, still)]))
            part = self.out.spread(scope, self._narrow(scope, uniform), "i32", lanes.width)
            for a in m:
                if a not in still:
                    part = self.out.put(scope, f"mul {kind} {part}, {self._lane_atom(a, lanes)}")
            total = part if not total else self.out.put(scope, f"add {kind} {total}, {part}")
        scope.known[key] = total
        return total

    def _narrow(self, scope: Scope, value: str) -> str:
        return self.out.put(scope, f"trunc i64 {value} to i32")

    def _lane_atom(self, atom: Sym | Fn, lanes: Lanes) -> str:
        scope = self.out.scopes.lane_home(self._loop_symbols(atom))
        key = ("lane", atom)
        if key not in scope.known:
            scope.known[key] = self._lane_text(scope, atom, lanes)
        return scope.known[key]

    def _lane_text(self, scope: Scope, atom: Sym | Fn, lanes: Lanes) -> str:
        width = lanes.width
        if atom == lanes.var:
            first = self.out.spread(
                scope, self.out.put(scope, f"trunc i64 {lanes.first} to i32"), "i32", width
            )
            steps = "<" + ", ".join(f"i32 {i}" for i in range(width)) + ">"
            return self.out.put(scope, f"add <{width} x i32> {first}, {steps}")
        if isinstance(atom, Sym):
            source = atom.source
            assert isinstance(source, Const | Index | Load | Alu | Cast), f"{atom} is used outside its loop"
            return self.value(cast(source, Scalar.I32))
        return self._lane_function(scope, atom, lanes)

    def _lane_function(self, scope: Scope, fn: Fn, lanes: Lanes) -> str:
        """Functions of an index in a vector loop: written as a value expression over lane indices."""
        a, b = (self.lane_dim(x, lanes) for x in (fn.args * 2)[:2])
        kind = f"<{lanes.width} x i32>"
        match fn.op:
            case "min" | "max":
                return self.out.call(scope, kind, f"llvm.s{fn.op}.v{lanes.width}i32", [(kind, a), (kind, b)])
            case "eq":
                same = self.out.put(scope, f"icmp eq {kind} {a}, {b}")
                return self.out.put(scope, f"zext <{lanes.width} x i1> {same} to {kind}")
            case "floordiv" | "mod":
                divisor = self.out.call(
                    scope,
                    kind,
                    f"llvm.smax.v{lanes.width}i32",
                    [(kind, b), (kind, ll.splat(1, Scalar.I32, lanes.width))],
                )
                rest = self.out.put(scope, f"srem {kind} {a}, {divisor}")
                negative = self.out.put(scope, f"ashr {kind} {rest}, {ll.splat(31, Scalar.I32, lanes.width)}")
                up = self.out.put(scope, f"and {kind} {negative}, {divisor}")
                left = self.out.put(scope, f"add {kind} {rest}, {up}")
                if fn.op == "mod":
                    return left
                return self.out.put(
                    scope, f"sdiv {kind} {self.out.put(scope, f'sub {kind} {a}, {left}')}, {divisor}"
                )
            case _:
                raise AssertionError(f"{fn.op} of a vector loop's variable")

    # ---- values -------------------------------------------------------------------------------

    def value(self, x: Expr) -> str:
        """`x` as the open vector loop needs it: a vector inside one, else a scalar."""
        lanes = self.out.scopes.lanes
        if lanes is None:
            return self.scalar(x)
        if self.varies(x, lanes):
            return self._known(self._home(x, self.out.scopes.lane_home), x, lanes.width)
        if isinstance(x, Const):
            return ll.splat(x.value, x.type, lanes.width)
        scope, key, state = self._home(x, self.out.scopes.home), ("splat", x, lanes.width), self._state(x)
        found = scope.values.get(key)
        if found is None or found[1] != state:
            text = self.out.spread(scope, self.scalar(x), ll.NAMES[x.type], lanes.width)
            found = scope.values[key] = (text, state)
        return found[0]

    def scalar(self, x: Expr) -> str:
        """`x` as a scalar, written in the outermost scope that has what it needs."""
        if isinstance(x, Const):
            return ll.literal(x.value, x.type)
        return self._known(self._home(x, self.out.scopes.home), x, 1)

    def varies(self, x: Expr, lanes: Lanes) -> bool:
        """True when lanes may see different values of `x`."""
        return lanes.var in free_symbols(x) or any(self.registers[r].lanes > 1 for r in registers_of(x))

    def _home(self, x: Expr, find: Callable[[frozenset[Sym], frozenset[str]], Scope]) -> Scope:
        """Where `x` is written. What reads scratch stays where it stands: an index that its loop keeps in
        range need not be in range before the loop."""
        if scratch_of(x):
            return self.out.scopes.inner
        return find(frozenset(s for s in free_symbols(x) if s.source is None), registers_of(x))

    def _state(self, x: Expr) -> tuple[int, ...]:
        return tuple(self.state.get(name, 0) for name in (*registers_of(x), *scratch_of(x)))

    def _known(self, scope: Scope, x: Expr, width: int) -> str:
        """`x` as it was written in `scope` before, unless what it reads has changed since."""
        key, state = (x, width), self._state(x)
        found = scope.values.get(key)
        if found is None or found[1] != state:
            found = scope.values[key] = (self._write(scope, x, width), state)
        return found[0]

    def _write(self, scope: Scope, x: Expr, width: int) -> str:
        legal = None if self.out.machine.has_rounding else replacement(x)
        if legal is not None:
            return self._operand(legal, width)
        match x:
            case Const(value=v):
                return ll.splat(v, x.type, width)
            case Index(dim=dim) if width == 1:
                return self.dim(dim)
            case Index(dim=dim):
                lanes = self._open()
                return self.out.put(
                    scope, f"sext <{width} x i32> {self.lane_dim(dim, lanes)} to <{width} x i64>"
                )
            case Load():
                return self._load(scope, x) if width == 1 else self._load_lanes(scope, x, self._open())
            case Cast(arg=arg):
                return arithmetic.cast(self.out, scope, arg, x.type, self._operand(arg, width), width)
            case Alu(op=op, args=args):
                return arithmetic.alu(
                    self.out, scope, op, args, [self._operand(a, width) for a in args], x.type, width
                )

    def _open(self) -> Lanes:
        lanes = self.out.scopes.lanes
        assert lanes is not None, "no vector loop is open"
        return lanes

    def _operand(self, x: Expr, width: int) -> str:
        return self.scalar(x) if width == 1 else self.value(x)

    # ---- loads --------------------------------------------------------------------------------

    def address(self, scope: Scope, buffer: Buffer, at: str) -> str:
        """Pointer to element `at` of `buffer`."""
        return self.out.put(
            scope,
            f"getelementptr inbounds {ll.NAMES[buffer.stored]}, ptr {self.pointers[buffer]}, i64 {at}",
            "p",
        )

    def _load(self, scope: Scope, x: Load) -> str:
        kind = ll.NAMES[x.type]
        if x.buffer.space is Space.REGISTER:
            return self.out.put(scope, f"load {kind}, ptr {self.registers[x.buffer.name].pointer}")
        where = self.address(scope, x.buffer, self.dim(x.index))
        return self.out.put(scope, f"load {kind}, ptr {where}, align {ll.BYTES[x.type]}")

    def _load_lanes(self, scope: Scope, x: Load, lanes: Lanes) -> str:
        kind = ll.vector(x.type, lanes.width)
        if x.buffer.space is Space.REGISTER:
            return self.out.put(scope, f"load {kind}, ptr {self.registers[x.buffer.name].pointer}")
        moved = linear(x.index, lanes.var)
        stride = moved[0] if moved else None
        if moved and isinstance(stride, int) and 1 <= stride <= STRIDED:
            where = self.address(scope, x.buffer, self.lane_zero(scope, stride, moved[1], lanes))
            if stride == 1:
                return self._contiguous(scope, x.type, where, lanes)
            if lanes.mask is None:
                return self._strided(scope, x.type, where, stride, lanes.width)
        followed = self._followed(x, lanes)
        return self._gather(scope, x, lanes) if followed is None else self._pick(scope, x, *followed, lanes)

    def _followed(self, x: Load, lanes: Lanes) -> tuple[Sym, Load, int] | None:
        """(position, its table's entry, elements a position) when lanes read near positions of a table and
        the processor can permute that."""
        for sym in sorted(symbols(x.index), key=lambda s: s.name):
            entry, moved = sym.source, linear(x.index, sym)
            if not isinstance(entry, Load) or not entry.buffer.near or moved is None:
                continue
            step, along, size = moved[0], linear(entry.index, lanes.var), ll.BYTES[x.type]
            if not isinstance(step, int) or along is None or along[0] != 1 or lanes.var in symbols(moved[1]):
                continue
            count = permute.registers(entry.buffer, step, lanes.width, size)
            if step > 0 and size in self.out.machine.permutes and count <= permute.MOST:
                return sym, entry, step
        return None

    def _pick(self, scope: Scope, x: Load, sym: Sym, entry: Load, step: int, lanes: Lanes) -> str:
        """Registers from the first lane's element on, but none beyond the buffer's end."""
        w, size, kind = self.out, ll.BYTES[x.type], f"<{lanes.width} x i32>"
        count = permute.registers(entry.buffer, step, lanes.width, size)
        along, moved = linear(entry.index, lanes.var), linear(x.index, sym)
        assert along is not None, f"{entry} does not move with {lanes.var}"
        assert moved is not None, f"{x} does not move with {sym}"
        rest, placed = self.dim(moved[1]), self._placed(scope, entry.buffer.places, along[1], lanes)
        position, apart = placed or (self._first(scope, entry, along[1], lanes), self._lane_atom(sym, lanes))
        start = w.put(scope, f"add i64 {rest}, {w.put(scope, f'mul i64 {position}, {step}')}")
        places = w.put(scope, f"mul {kind} {apart}, {ll.splat(step, Scalar.I32, lanes.width)}")
        if placed is None:
            last = self.dim(x.buffer.entries - count * permute.REGISTER // size)
            start = w.call(scope, "i64", "llvm.smin.i64", [("i64", start), ("i64", last)])
            shift = w.put(scope, f"trunc i64 {w.put(scope, f'sub i64 {rest}, {start}')} to i32")
            places = w.put(scope, f"add {kind} {places}, {w.spread(scope, shift, 'i32', lanes.width)}")
        return permute.pick(
            w, scope, x.type, self.address(scope, x.buffer, start), places, lanes.width, count
        )

    def _first(self, scope: Scope, entry: Load, rest: Dim, lanes: Lanes) -> str:
        """The position of the first lane's group."""
        w, where = self.out, self.lane_zero(scope, 1, rest, lanes)
        entered = w.put(scope, f"load i32, ptr {self.address(scope, entry.buffer, where)}")
        if entry.buffer.group > 1:
            inside = w.put(scope, f"urem i32 {entered}, {entry.buffer.group}")
            entered = w.put(scope, f"sub i32 {entered}, {inside}")
        return w.put(scope, f"sext i32 {entered} to i64")

    def _placed(self, scope: Scope, places: Places | None, at: Dim, lanes: Lanes) -> tuple[str, str] | None:
        """Where a vector begins to read, and how far from there each lane's element lies."""
        if places is None or lanes.mask is not None or not lanes.whole or lanes.width != LANES:
            return None
        tap = next((t for t in range(places.taps) if at == mul(places.length, t)), None)
        if tap is None:
            return None
        w, narrow, wide = self.out, ll.vector(Scalar.U8, LANES), ll.vector(Scalar.I32, LANES)
        block = w.put(scope, f"udiv i64 {lanes.first}, {LANES}")
        block = w.put(scope, f"add i64 {block}, {self.dim(places.first_block(tap))}")
        begin = w.put(scope, f"load i32, ptr {self.address(scope, places.starts, block)}")
        entry = self.address(scope, places.offsets, self.lane_zero(scope, 1, at, lanes))
        apart = w.put(scope, f"load {narrow}, ptr {entry}, align 1")
        return w.put(scope, f"sext i32 {begin} to i64"), w.put(scope, f"zext {narrow} {apart} to {wide}")

    def lane_zero(self, scope: Scope, stride: int, rest: Dim, lanes: Lanes) -> str:
        """The index that lane 0 reads or writes."""
        first = lanes.first if stride == 1 else self.out.put(scope, f"mul i64 {lanes.first}, {stride}")
        return first if rest == 0 else self.out.put(scope, f"add i64 {self.dim(rest)}, {first}", "i")

    def _contiguous(self, scope: Scope, type: Scalar, where: str, lanes: Lanes) -> str:
        kind, size = ll.vector(type, lanes.width), ll.BYTES[type]
        if lanes.mask is None:
            return self.out.put(scope, f"load {kind}, ptr {where}, align {size}")
        name = f"llvm.masked.load.{ll.suffix(type, lanes.width)}.p0"
        self.out.declared.add(f"declare {kind} @{name}(ptr, i32, <{lanes.width} x i1>, {kind})")
        return self.out.put(
            scope,
            f"call {kind} @{name}(ptr {where}, i32 {size}, <{lanes.width} x i1> {lanes.mask}, "
            f"{kind} zeroinitializer)",
        )

    def _strided(self, scope: Scope, type: Scalar, where: str, stride: int, width: int) -> str:
        """Whole vectors from the first to the last element read, then the wanted ones picked out: LLVM takes
        one load of them all apart."""
        kind, element, last = ll.vector(type, width), ll.NAMES[type], stride * (width - 1)
        picked, end = "", 0
        for k in range(stride):
            start = min(k * width, last + 1 - width)  # the last one ends where the elements end
            at = self.out.put(scope, f"getelementptr {element}, ptr {where}, i64 {start}") if start else where
            part = self.out.put(scope, f"load {kind}, ptr {at}, align {ll.BYTES[type]}")
            places = [i * stride for i in range(width)]
            held = (
                places if k == 1 else list(range(width))
            )  # from the second on, lanes stand where they belong
            new = [width + p - start if p < start + width else 0 for p in places]
            order = [h if p < end else n for p, h, n in zip(places, held, new, strict=True)]
            picked = shuffle(self.out, scope, picked, part, element, width, order) if k else part
            end = start + width
        return picked

    def _gather(self, scope: Scope, x: Load, lanes: Lanes) -> str:
        width, kind, size = lanes.width, ll.vector(x.type, lanes.width), ll.BYTES[x.type]
        base, moving = self.split(x.index, lanes)
        start = self.address(scope, x.buffer, self.dim(base))
        offsets = self.out.put(
            scope, f"sext <{width} x i32> {self.lane_dim(moving, lanes)} to <{width} x i64>"
        )
        where = self.out.put(
            scope, f"getelementptr {ll.NAMES[x.type]}, ptr {start}, <{width} x i64> {offsets}"
        )
        mask = lanes.mask or ll.splat(True, Scalar.BOOL, width)
        name = f"llvm.masked.gather.{ll.suffix(x.type, width)}.v{width}p0"
        self.out.declared.add(f"declare {kind} @{name}(<{width} x ptr>, i32, <{width} x i1>, {kind})")
        return self.out.put(
            scope,
            f"call {kind} @{name}(<{width} x ptr> {where}, i32 {size}, <{width} x i1> {mask}, "
            f"{kind} zeroinitializer)",
        )

    def split(self, x: Dim, lanes: Lanes) -> tuple[Dim, Dim]:
        """(what all lanes share, what moves)."""
        moving: Dim = 0
        for m, c in x.terms if isinstance(x, DimExpr) else ():
            if any(lanes.var in symbols(a) for a in m):
                moving = moving + product([c, *map(_single, m)])
        return x - moving, moving


def _poly(terms: dict[Monomial, int]) -> Dim:
    total: Dim = 0
    for m, c in terms.items():
        total = total + product([c, *map(_single, m)])
    return total


def _single(atom: Sym | Fn) -> Dim:
    return DimExpr((((atom,), 1),))


@lru_cache(maxsize=1 << 16)
def registers_of(x: Expr) -> frozenset[str]:
    """Names of the accumulators that `x` reads."""
    return _named(x, Space.REGISTER)


@lru_cache(maxsize=1 << 16)
def scratch_of(x: Expr) -> frozenset[str]:
    """Names of the scratch buffers that `x` reads."""
    return _named(x, Space.SCRATCH)


@lru_cache(maxsize=1 << 17)
def _named(x: Expr, space: Space) -> frozenset[str]:
    match x:
        case Load(buffer=b):
            return frozenset({b.name}) if b.space is space else frozenset()
        case Alu(args=args):
            return frozenset().union(*(_named(a, space) for a in args))
        case Cast(arg=arg):
            return _named(arg, space)
        case _:
            return frozenset()
