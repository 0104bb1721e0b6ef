"""Kernel expressions over the lanes of the open vector loop.

An expression that does not depend on the loop's variable is computed once as a scalar and broadcast; a load
becomes a vector load, a strided load or a gather, depending on how its index moves with that variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anyrt.backends.cpu import pairs, permute
from anyrt.backends.cpu.transpose import shuffle
from anyrt.codegen import arithmetic
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values, registers_of, single
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim, Fn, Sym, linear, mul, product, symbols
from anyrt.core.dims import Expr as DimExpr
from anyrt.core.machine import Machine
from anyrt.ir.buffer import LANES, Addresses, Buffer, Scalar, Space
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Index, Load, Op, cast, free_symbols, operands

# Indices within a vector loop are computed in 32 bits: no tensor has more than 2³¹ elements.


def strided(machine: Machine) -> int:
    """Strides up to here are loaded whole and shuffled: as many loads cost no more than a gather."""
    return machine.costs.gather


WORD = 4  # bytes


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector loop while its body is written: the loop variable's value in lane 0, the width (two or more:
    one lane is written as scalar code), and in the tail the mask, with its number of lanes; `pairs`: its
    loads of neighbours."""

    var: Sym
    width: int
    first: str
    mask: str | None
    whole: bool = False  # the first lane is a multiple of the width
    count: str | None = None
    pairs: Mapping[Load, tuple[Load, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.width > 1, f"a vector of {self.width} lanes along {self.var}"


@dataclass(slots=True)
class Vectors:
    """Writes expressions as the open vector loop needs them."""

    values: Values
    machine: Machine
    opened: dict[Scope, Lanes] = field(default_factory=dict)  # the bodies of vector loops

    @property
    def out(self) -> Writer:
        """Where the function is written."""
        return self.values.out

    @property
    def lanes(self) -> Lanes | None:
        """The open vector loop, if any."""
        return next((self.opened[s] for s in reversed(self.out.scopes.stack) if s in self.opened), None)

    def open(self, lanes: Lanes, scope: Scope) -> Scope:
        """Begin the body of a vector loop."""
        self.opened[scope] = lanes
        return self.out.scopes.open(scope)

    def value(self, x: Expr) -> str:
        """`x` in the form of the open vector loop: a vector inside one, else a scalar."""
        lanes = self.lanes
        if lanes is None:
            return self.values.scalar(x)
        if isinstance(x, Const):
            return ll.splat(x.value, x.type, lanes.width)
        if self._varies(x, lanes):
            scope = self.values.home(x, self._home)
            return self.values.known(scope, (x, lanes.width), x, lambda: self._write(scope, x, lanes))
        outer, kind, width = self.values.home(x, self.out.scopes.home), ll.NAMES[x.type], lanes.width
        return self.values.known(
            outer, ("splat", x, width), x, lambda: self.out.spread(outer, self.values.scalar(x), kind, width)
        )

    def _varies(self, x: Expr, lanes: Lanes) -> bool:
        """True when lanes may see different values of `x`."""
        registers = self.values.registers
        return lanes.var in free_symbols(x) or any(registers[r].lanes > 1 for r in registers_of(x))

    def _home(self, needs: frozenset[Sym], reads: frozenset[str] = frozenset()) -> Scope:
        """As `Scopes.home`, but inside the open vector loop."""
        stack = self.out.scopes.stack
        first = next(i for i, s in enumerate(stack) if s in self.opened)
        return stack[max(first, self.out.scopes.depth(needs, reads))]

    def _write(self, scope: Scope, x: Index | Load | Alu | Cast, lanes: Lanes) -> str:
        legal = self.out.instructions.replacement(x)
        if legal is not None:
            return self.value(legal)
        match x:
            case Index(dim=dim):
                return self.out.put(
                    scope, f"sext <{lanes.width} x i32> {self.lane_dim(dim, lanes)} to <{lanes.width} x i64>"
                )
            case Load():
                return self._load(scope, x, lanes)
            case Alu(op=Op.MUL, args=(Index(dim=dim), Const(value=int(by)))) if (
                moved := linear(dim, lanes.var)
            ) and isinstance(moved[0], int):
                return self._stepped(scope, (moved[0], moved[1]), by, lanes)
            case Cast() | Alu():
                texts = [self.value(a) for a in operands(x)]
                return arithmetic.operation(self.out, scope, x, texts, lanes.width)

    def _stepped(self, scope: Scope, moved: tuple[int, Dim], by: int, lanes: Lanes) -> str:
        """An index times a number: that of lane 0, and steps. A 64-bit product takes three instructions in
        each half of the lanes."""
        put, width, stride = self.out.put, lanes.width, moved[0]
        first = put(scope, f"mul i64 {self.lane_zero(scope, stride, moved[1], lanes)}, {by}")
        half = 1 << 63
        steps = ", ".join(f"i64 {(i * stride * by + half) % (2 * half) - half}" for i in range(width))
        return put(scope, f"add <{width} x i64> {self.out.spread(scope, first, 'i64', width)}, <{steps}>")

    # ---- indices ------------------------------------------------------------------------------

    def lane_dim(self, x: Dim, lanes: Lanes) -> str:
        """An index that differs by lane, as a vector of i32."""
        scope = self._home(self.values.loop_symbols(x))
        key = ("lanes", x)
        if key in scope.known:
            return scope.known[key]
        kind = f"<{lanes.width} x i32>"
        total = ""
        for m, c in x.terms if isinstance(x, DimExpr) else (((), x),):
            still = tuple(a for a in m if lanes.var not in symbols(a))
            uniform = self.values.dim(product([c, *map(single, still)]))
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
        scope = self._home(self.values.loop_symbols(atom))
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

    # ---- loads --------------------------------------------------------------------------------

    def _load(self, scope: Scope, x: Load, lanes: Lanes) -> str:
        kind = ll.vector(x.type, lanes.width)
        if x.buffer.space is Space.REGISTER:
            return self.out.put(scope, f"load {kind}, ptr {self.values.register(scope, x.buffer, x.index)}")
        moved = linear(x.index, lanes.var)
        stride = moved[0] if moved else None
        beside = stride == x.elements
        if moved and isinstance(stride, int) and (beside or 1 <= stride <= strided(self.machine)):
            at = self.lane_zero(scope, stride, moved[1], lanes)
            if beside:
                present = self._all_there(x, lanes)
                where = self.run(scope, x.buffer, at, present, x.elements)
                return self._contiguous(scope, x, where, present)
            if not x.word and (lanes.mask is None or lanes.count is not None):
                where = self.run(scope, x.buffer, at, lanes, stride, 1)
                return self._strided(scope, x, where, stride, lanes)
        followed = self._followed(x, lanes)
        return self._gather(scope, x, lanes) if followed is None else self._pick(scope, x, *followed, lanes)

    def _followed(self, x: Load, lanes: Lanes) -> tuple[Sym, Load, int] | None:
        """(position, its table's entry, elements per position) if lanes read positions of a table that has a
        slope, and the processor can permute that."""
        for sym in sorted(symbols(x.index), key=lambda s: s.name):
            entry, moved = sym.source, linear(x.index, sym)
            if x.word or not isinstance(entry, Load) or not entry.buffer.slope or moved is None:
                continue
            step, along, size = moved[0], linear(entry.index, lanes.var), ll.BYTES[x.type]
            if not isinstance(step, int) or along is None or along[0] != 1 or lanes.var in symbols(moved[1]):
                continue
            count = permute.registers(entry.buffer, step, lanes.width, size)
            if step > 0 and size in self.machine.permutes and count <= permute.MOST:
                return sym, entry, step
        return None

    def _pick(self, scope: Scope, x: Load, sym: Sym, entry: Load, step: int, lanes: Lanes) -> str:
        """Registers from the first lane's element on, without those beyond the buffer's end."""
        w, size, kind = self.out, ll.BYTES[x.type], f"<{lanes.width} x i32>"
        count = permute.registers(entry.buffer, step, lanes.width, size)
        along, moved = linear(entry.index, lanes.var), linear(x.index, sym)
        assert along is not None, f"{entry} does not move with {lanes.var}"
        assert moved is not None, f"{x} does not move with {sym}"
        rest, placed = self.values.dim(moved[1]), self._placed(scope, entry.buffer.addresses, along[1], lanes)
        position, apart = placed or (self._first(scope, entry, along[1], lanes), self._lane_atom(sym, lanes))
        start = w.put(scope, f"add i64 {rest}, {w.put(scope, f'mul i64 {position}, {step}')}")
        places = w.put(scope, f"mul {kind} {apart}, {ll.splat(step, Scalar.I32, lanes.width)}")
        if placed is None:
            last = self.values.dim(x.buffer.entries - count * permute.REGISTER // size)
            start = w.call(scope, "i64", "llvm.smin.i64", [("i64", start), ("i64", last)])
            shift = w.put(scope, f"trunc i64 {w.put(scope, f'sub i64 {rest}, {start}')} to i32")
            places = w.put(scope, f"add {kind} {places}, {w.spread(scope, shift, 'i32', lanes.width)}")
        span = count * permute.REGISTER // size
        where = self.values.place(scope, x.buffer, start, (str(span), span))
        return permute.pick(w, scope, x.type, where, places, lanes.width, count)

    def _first(self, scope: Scope, entry: Load, rest: Dim, lanes: Lanes) -> str:
        """The position of the first lane's group."""
        w, where = self.out, self.lane_zero(scope, 1, rest, lanes)
        entered = w.put(scope, f"load i32, ptr {self.values.place(scope, entry.buffer, where)}")
        if entry.buffer.group > 1:
            inside = w.put(scope, f"urem i32 {entered}, {entry.buffer.group}")
            entered = w.put(scope, f"sub i32 {entered}, {inside}")
        return w.put(scope, f"sext i32 {entered} to i64")

    def _placed(
        self, scope: Scope, addresses: Addresses | None, at: Dim, lanes: Lanes
    ) -> tuple[str, str] | None:
        """The start of a vector's reads, and the distance of each lane's element from it."""
        if addresses is None or lanes.mask is not None or not lanes.whole or lanes.width != LANES:
            return None
        tap = next((t for t in range(addresses.taps) if at == mul(addresses.length, t)), None)
        if tap is None:
            return None
        w, narrow, wide = self.out, ll.vector(Scalar.U8, LANES), ll.vector(Scalar.I32, LANES)
        block = w.put(scope, f"udiv i64 {lanes.first}, {LANES}")
        block = w.put(scope, f"add i64 {block}, {self.values.dim(addresses.first_block(tap))}")
        begin = w.put(scope, f"load i32, ptr {self.values.place(scope, addresses.starts, block)}")
        entry = self.run(scope, addresses.offsets, self.lane_zero(scope, 1, at, lanes), lanes)
        apart = w.put(scope, f"load {narrow}, ptr {entry}, align 1")
        return w.put(scope, f"sext i32 {begin} to i64"), w.put(scope, f"zext {narrow} {apart} to {wide}")

    def lane_zero(self, scope: Scope, stride: int, rest: Dim, lanes: Lanes) -> str:
        """The index that lane 0 reads or writes."""
        first = lanes.first if stride == 1 else self.out.put(scope, f"mul i64 {lanes.first}, {stride}")
        return first if rest == 0 else self.out.put(scope, f"add i64 {self.values.dim(rest)}, {first}", "i")

    def _contiguous(self, scope: Scope, x: Load, where: str, lanes: Lanes) -> str:
        kind, size = ll.vector(x.type, lanes.width), ll.BYTES[x.buffer.stored]
        if lanes.mask is None:
            return self.out.put(scope, f"load {kind}, ptr {where}, align {size}")
        arguments = [("ptr", where), ("i32", f"{size}"), (f"<{lanes.width} x i1>", lanes.mask)]
        name = f"llvm.masked.load.{ll.suffix(x.type, lanes.width)}.p0"
        return self.out.call(scope, kind, name, [*arguments, (kind, "zeroinitializer")])

    def _all_there(self, x: Load, lanes: Lanes) -> Lanes:
        """The lanes without their mask if all of them may be read: LLVM keeps the address of each masked load
        in a register."""
        return replace(lanes, mask=None) if x.buffer.padded else lanes

    def _strided(self, scope: Scope, x: Load, where: str, stride: int, lanes: Lanes) -> str:
        """Whole vectors from the first to the last element read, with the needed ones selected: LLVM would
        split one load of them all."""
        width = lanes.width
        element, last = ll.NAMES[x.type], stride * (width - 1)
        picked, end = "", 0
        for k in range(stride):
            start = min(k * width, last + 1 - width)  # the last one ends where the elements end
            at = self.out.put(scope, f"getelementptr {element}, ptr {where}, i64 {start}") if start else where
            part = self._contiguous(scope, x, at, self._reaching(scope, start, stride, lanes))
            places = [i * stride for i in range(width)]
            held = places if k == 1 else list(range(width))  # from the second on, lanes are in their places
            new = [width + p - start if p < start + width else 0 for p in places]
            order = [h if p < end else n for p, h, n in zip(places, held, new, strict=True)]
            picked = shuffle(self.out, scope, picked, part, element, width, order) if k else part
            end = start + width
        return picked

    def _reaching(self, scope: Scope, start: int, stride: int, lanes: Lanes) -> Lanes:
        """For the elements from `start` up to the last one that so many lanes read."""
        if lanes.mask is None:
            return lanes
        end = self.out.put(scope, f"mul i64 {lanes.count}, {stride}")
        left = self.out.put(scope, f"sub i64 {end}, {stride - 1 + start}")
        return replace(lanes, mask=self.out.below(scope, lanes.width, left))

    def _gather(self, scope: Scope, x: Load, lanes: Lanes) -> str:
        width, size = lanes.width, ll.BYTES[x.buffer.stored]
        mask = lanes.mask or ll.splat(True, Scalar.BOOL, width)
        if x in lanes.pairs and size in pairs.SIZES and self.values.checks is None:
            return self._gather_pair(scope, x, mask, lanes)
        where = self.places(scope, x.buffer, x.index, lanes)
        if size < WORD and not x.word and self.machine.vector_bits == 512:
            return self._gather_words(scope, where, mask, x, width)
        lane, suffix = ll.NAMES[x.type], ll.suffix(x.type, width)
        return pairs.gathered(self.out, scope, f"{width} x {lane}", suffix, (where, size, mask))

    def _gather_pair(self, scope: Scope, x: Load, mask: str, lanes: Lanes) -> str:
        first, which = lanes.pairs[x]

        def write() -> str:
            where = self.places(scope, first.buffer, first.index, lanes)
            return pairs.gather(self.out, scope, first, where, mask, lanes.width)

        pair = self.values.known(scope, ("pair", first, lanes.width), first, write)
        return pairs.half(self.out, scope, x, pair, which, lanes.width)

    def _gather_words(self, scope: Scope, where: str, mask: str, x: Load, width: int) -> str:
        """Elements of less than 32 bits from the words around them, for which there is an instruction; a word
        never crosses a page."""
        put, addresses, words = self.out.put, f"<{width} x i64>", ll.vector(Scalar.I32, width)
        at = put(scope, f"ptrtoint <{width} x ptr> {where} to {addresses}")
        rest = put(scope, f"and {addresses} {at}, splat (i64 {WORD - 1})")
        base = put(scope, f"sub {addresses} {at}, {rest}")
        pointers = put(scope, f"inttoptr {addresses} {base} to <{width} x ptr>")
        word = pairs.gathered(self.out, scope, f"{width} x i32", f"v{width}i32", (pointers, WORD, mask))
        bytes = put(scope, f"trunc {addresses} {rest} to {words}")
        bits = put(scope, f"lshr {words} {word}, {put(scope, f'shl {words} {bytes}, splat (i32 3)')}")
        narrow = f"<{width} x i{8 * ll.BYTES[x.buffer.stored]}>"
        part = put(scope, f"trunc {words} {bits} to {narrow}")
        return put(scope, f"bitcast {narrow} {part} to {ll.vector(x.type, width)}")

    def run(
        self,
        scope: Scope,
        buffer: Buffer,
        at: str,
        lanes: Lanes,
        each: int = 1,
        last: int | None = None,
        *,
        writes: bool = False,
    ) -> str:
        """Pointer to the elements of all masked lanes, `each` elements apart, of which the last lane needs so
        many."""
        rest = each - (each if last is None else last)
        most, checks = lanes.width * each - rest, self.values.checks
        if checks is None or lanes.mask is None:
            return self.values.place(scope, buffer, at, (str(most), most), writes=writes)
        count = checks.masked(scope, lanes.mask, lanes.width)
        if each > 1:
            count = self.out.put(scope, f"mul i64 {count}, {each}")
            count = self.out.put(scope, f"sub i64 {count}, {rest}")
        return self.values.place(scope, buffer, at, (count, most), writes=writes)

    def places(self, scope: Scope, buffer: Buffer, at: Dim, lanes: Lanes, *, writes: bool = False) -> str:
        """Pointers to the element of each lane."""
        width, checks = lanes.width, self.values.checks
        base, moving = self.split(at, lanes)
        first = self.values.dim(base)
        start = self.values.address(scope, buffer, first)
        offsets = self.out.put(
            scope, f"sext <{width} x i32> {self.lane_dim(moving, lanes)} to <{width} x i64>"
        )
        where = self.out.put(
            scope, f"getelementptr {ll.NAMES[buffer.stored]}, ptr {start}, <{width} x i64> {offsets}"
        )
        if checks is None:
            return where
        shared = self.out.spread(scope, first, "i64", width)
        indices = self.out.put(scope, f"add <{width} x i64> {shared}, {offsets}")
        return checks.places(scope, buffer, (where, indices), width, lanes.mask, writes=writes)

    def split(self, x: Dim, lanes: Lanes) -> tuple[Dim, Dim]:
        """(the part that all lanes share, the part that moves)."""
        moving: Dim = 0
        for m, c in x.terms if isinstance(x, DimExpr) else ():
            if any(lanes.var in symbols(a) for a in m):
                moving = moving + product([c, *map(single, m)])
        return x - moving, moving
