"""Kernels to LLVM functions: statements, loops, and the widening of vector loops.

A vector loop becomes a main loop over whole vectors and one masked step for what is left. Accumulators folded
inside it get `CHAINS` vectors each in the main loop, so that their latency overlaps; lanes are combined at
the end, in a fixed order.

    define void @k(ptr %args, i64 %begin, i64 %end, ptr %scratch)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.machine import Machine
from anyrt.codegen.scope import Lanes, Scope
from anyrt.codegen.transpose import transpose
from anyrt.codegen.values import Register, Values
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim, Sym, linear, substitute
from anyrt.ir.kernel import (
    BITS,
    Alloc,
    Alu,
    Buffer,
    Cast,
    Expr,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Scalar,
    Space,
    Stmt,
    Store,
    free_symbols,
    index,
)

PEEL = 32  # vectors: shorter loops gain nothing from aligned stores
CHAINS = 4  # independent accumulators: an FMA takes 4 cycles and two can start in each


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel as LLVM text, and the intrinsics it declares."""

    text: str
    declared: frozenset[str]


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a function finds its data: for each buffer the word of the argument array with its base and the
    bytes from there; and the word of the first slot."""

    places: Mapping[Buffer, tuple[int, Dim]]
    first_slot: int


def emit(kernel: Kernel, frame: Frame, slots: dict[Dim, int], machine: Machine) -> Function:
    """`kernel` as an LLVM function; `slots` gains the size-only values that it reads."""
    return Emitter(Values(Writer(machine), slots), machine).function(kernel, frame)


@dataclass(slots=True)
class Emitter:
    """Writes the statements of one function."""

    values: Values
    machine: Machine

    def function(self, kernel: Kernel, frame: Frame) -> Function:
        """The whole function, entry to return."""
        v = self.values
        for buffer in sorted(buffers_of(kernel.body), key=lambda b: (b.space.value, b.name)):
            self._base(buffer, frame)
        self._counted(kernel.var, "%begin", "%end", kernel.body)
        entry = v.out.scopes.stack[0]
        head = [
            f"define internal void @{kernel.name}"
            "(ptr noalias %args, i64 %begin, i64 %end, ptr noalias %scratch) #0 {",
            "entry:",
            f"  %slots = getelementptr i64, ptr %args, i64 {frame.first_slot}",
        ]
        fence = ["  fence seq_cst"] if any(b.stream for b in v.pointers) else []
        text = "\n".join(head + v.allocas + entry.lines + fence + ["  ret void", "}"])
        return Function(text, frozenset(v.out.declared))

    def _base(self, buffer: Buffer, frame: Frame) -> None:
        """A buffer's first byte: a binding's address, or a place in the arena, the constants, the tables or
        the scratch."""
        v, entry = self.values, self.values.out.scopes.stack[0]
        if buffer.space is Space.REGISTER:
            return
        if buffer.space is Space.SCRATCH:
            start, offset = "%scratch", buffer.offset
        else:
            number, offset = frame.places[buffer]
            word = v.out.put(entry, f"getelementptr i64, ptr %args, i64 {number}")
            start = v.out.put(entry, f"load ptr, ptr {word}, !invariant.load !0", "b")
        v.pointers[buffer] = (
            start
            if offset == 0
            else v.out.put(entry, f"getelementptr i8, ptr {start}, i64 {v.dim(offset)}", "b")
        )

    # ---- statements ---------------------------------------------------------------------------

    def block(self, body: Iterable[Stmt]) -> None:
        """Write statements in order into the innermost scope."""
        for stmt in body:
            match stmt:
                case For(kind=Loop.VECTOR):
                    VectorLoop(self, stmt).emit()
                case For(var=var, kind=Loop.TILE, body=inner):
                    self._tiled(var, inner)
                case For(var=var, kind=Loop.UNROLL, body=inner):
                    self._unrolled(var, inner)
                case For(var=var, body=inner):
                    assert var.extent is not None, f"loop {var} has no extent"
                    self._counted(var, "0", self.values.dim(var.extent), inner)
                case If(condition=condition, body=inner):
                    self._branch(condition, inner)
                case Let(var=var, value=value):
                    scope = self.values.out.scopes.inner
                    scope.syms[var] = self.values.dim(value)
                case Alloc(buffer=buffer, value=value):
                    self._alloc(buffer, value)
                case Store():
                    self._store(stmt)
                case Fold():
                    self._fold(stmt)

    def _counted(self, var: Sym, first: str, end: str, body: Iterable[Stmt]) -> None:
        """A scalar loop, first … end − 1, entered only when it has a turn to run."""
        v = self.values
        head, done = v.out.scopes.name("loop"), v.out.scopes.name("done")
        i, after = f"%{v.out.scopes.name('i')}", f"%{v.out.scopes.name('i')}"
        before = v.out.scopes.name("pre")
        outer = v.out.scopes.inner
        inner = self._open(Scope(syms={var: i}))
        self.block(body)
        last = v.out.scopes.name("end")
        v.out.scopes.stack.pop()
        enter = v.out.put(outer, f"icmp slt i64 {first}, {end}")
        outer.lines += [
            f"  br i1 {enter}, label %{before}, label %{done}",
            f"{before}:",
            f"  br label %{head}",
            f"{head}:",
            f"  {i} = phi i64 [{first}, %{before}], [{after}, %{last}]",
            *inner.lines,
            f"  br label %{last}",
            f"{last}:",
            f"  {after} = add nuw nsw i64 {i}, 1",
        ]
        again = v.out.put(outer, f"icmp slt i64 {after}, {end}")
        outer.lines += [f"  br i1 {again}, label %{head}, label %{done}", f"{done}:"]

    def _open(self, scope: Scope) -> Scope:
        self.values.out.scopes.stack.append(scope)
        return scope

    def _unrolled(self, var: Sym, body: tuple[Stmt, ...]) -> None:
        assert isinstance(var.extent, int), f"unrolled loop {var} needs a fixed extent"
        outer = self.values.out.scopes.inner
        for i in range(var.extent):
            inner = self._open(Scope(syms={var: str(i)}))
            self.block(body)
            self.values.out.scopes.stack.pop()
            outer.lines += inner.lines

    def _tiled(self, tile: Sym, body: tuple[Stmt, ...]) -> None:
        """A store for each turn of `tile`. What walks memory with the tile is computed with the tile's turns as
        lanes, once for each lane of the vector loop, and transposed; in a masked step it is gathered."""
        lanes, store = self.values.out.scopes.lanes, body[0]
        assert lanes is not None, f"tile {tile} stands outside a vector loop"
        assert isinstance(store, Store), f"tile {tile} holds more than a store"
        if lanes.mask is not None or not _walks(store.value, tile):
            self._unrolled(tile, body)
            return
        v, size = self.values, tile.extent
        assert isinstance(size, int), f"tile {tile} needs a fixed extent"
        outer, rows = v.out.scopes.inner, []
        for lane in range(lanes.width):
            at = v.out.put(outer, f"add i64 {lanes.first}, {lane}")
            inner = self._open(Scope(syms={lanes.var: at, tile: "0"}, lanes=Lanes(tile, size, "0", None)))
            rows.append(v.value(store.value))
            v.out.scopes.stack.pop()
            outer.lines += inner.lines
        columns = transpose(v.out, outer, rows, ll.NAMES[store.buffer.stored], size)
        for i, column in enumerate(columns):
            inner = self._open(Scope(syms={tile: str(i)}))
            moved = linear(store.index, lanes.var)
            assert moved is not None, f"{store} does not move evenly with {lanes.var}"
            where = v.address(inner, store.buffer, v.lane_zero(inner, 1, moved[1], lanes))
            self._store_run(store.buffer, column, where, lanes)
            v.out.scopes.stack.pop()
            outer.lines += inner.lines

    def _branch(self, condition: Expr, body: tuple[Stmt, ...]) -> None:
        v = self.values
        assert v.out.scopes.lanes is None, "a branch cannot stand inside a vector loop"
        flag = v.scalar(condition)
        outer, then, done = v.out.scopes.inner, v.out.scopes.name("then"), v.out.scopes.name("done")
        inner = self._open(Scope())
        self.block(body)
        v.out.scopes.stack.pop()
        outer.lines += [
            f"  br i1 {flag}, label %{then}, label %{done}",
            f"{then}:",
            *inner.lines,
            f"  br label %{done}",
            f"{done}:",
        ]

    def _alloc(self, buffer: Buffer, value: Expr) -> None:
        v = self.values
        lanes = v.out.scopes.lanes.width if v.out.scopes.lanes else 1
        pointer = f"%{v.out.scopes.name('r')}"
        kind = ll.vector(buffer.stored, lanes)
        v.allocas.append(f"  {pointer} = alloca {kind}, align 64")
        v.registers[buffer.name] = Register(pointer, lanes)
        v.out.scopes.inner.lines.append(f"  store {kind} {v.value(value)}, ptr {pointer}")

    def _fold(self, stmt: Fold) -> None:
        v = self.values
        register = v.registers[stmt.buffer.name]
        scope, kind = v.out.scopes.inner, ll.vector(stmt.buffer.stored, register.lanes)
        value = v.value(stmt.value) if register.lanes > 1 or v.out.scopes.lanes else v.scalar(stmt.value)
        old = v.out.put(scope, f"load {kind}, ptr {register.pointer}")
        new = combine(v, scope, stmt.op, stmt.buffer.stored, register.lanes, old, value)
        scope.lines.append(f"  store {kind} {new}, ptr {register.pointer}")

    def _store(self, stmt: Store) -> None:
        v, scope, lanes = self.values, self.values.out.scopes.inner, self.values.out.scopes.lanes
        buffer, type = stmt.buffer, stmt.buffer.stored
        assert stmt.value.type is type, f"storing {stmt.value.type} into {buffer.name}, which holds {type}"
        if lanes is None:
            value, where = v.scalar(stmt.value), v.address(scope, buffer, v.dim(stmt.index))
            scope.lines.append(f"  store {ll.NAMES[type]} {value}, ptr {where}, align {ll.BYTES[type]}")
            return
        moved = linear(stmt.index, lanes.var)
        value = v.value(stmt.value)
        if moved and moved[0] == 1:
            where = v.address(scope, buffer, v.lane_zero(scope, 1, moved[1], lanes))
            self._store_run(buffer, value, where, lanes)
        else:
            self._scatter(stmt, value, lanes)

    def _store_run(self, buffer: Buffer, value: str, where: str, lanes: Lanes) -> None:
        v, type = self.values, buffer.stored
        scope, kind, size = v.out.scopes.inner, ll.vector(type, lanes.width), ll.BYTES[type]
        if lanes.mask is None and buffer.stream:
            self._store_past(kind, value, where, lanes.width * size, size)
        elif lanes.mask is None:
            scope.lines.append(f"  store {kind} {value}, ptr {where}, align {size}")
        else:
            name = f"llvm.masked.store.{ll.suffix(type, lanes.width)}.p0"
            flags = f"<{lanes.width} x i1>"
            v.out.declared.add(f"declare void @{name}({kind}, ptr, i32, {flags})")
            args = f"{kind} {value}, ptr {where}, i32 {size}, {flags} {lanes.mask}"
            scope.lines.append(f"  call void @{name}({args})")

    def _store_past(self, kind: str, value: str, where: str, whole: int, size: int) -> None:
        """Past the caches where the address allows it: such stores exist for aligned vectors only."""
        v, scope = self.values, self.values.out.scopes.inner
        past, plain, done = (v.out.scopes.name(stem) for stem in ("past", "plain", "stored"))
        address = v.out.put(scope, f"ptrtoint ptr {where} to i64")
        odd = v.out.put(scope, f"and i64 {address}, {whole - 1}")
        even = v.out.put(scope, f"icmp eq i64 {odd}, 0")
        scope.lines += [
            f"  br i1 {even}, label %{past}, label %{plain}",
            f"{past}:",
            f"  store {kind} {value}, ptr {where}, align {whole}, !nontemporal !1",
            f"  br label %{done}",
            f"{plain}:",
            f"  store {kind} {value}, ptr {where}, align {size}",
            f"  br label %{done}",
            f"{done}:",
        ]

    def _scatter(self, stmt: Store, value: str, lanes: Lanes) -> None:
        v, scope, type, width = self.values, self.values.out.scopes.inner, stmt.buffer.stored, lanes.width
        base, moving = v.split(stmt.index, lanes)
        start = v.address(scope, stmt.buffer, v.dim(base))
        offsets = v.out.put(scope, f"sext <{width} x i32> {v.lane_dim(moving, lanes)} to <{width} x i64>")
        where = v.out.put(scope, f"getelementptr {ll.NAMES[type]}, ptr {start}, <{width} x i64> {offsets}")
        mask = lanes.mask or ll.splat(True, Scalar.BOOL, width)
        name, kind = f"llvm.masked.scatter.{ll.suffix(type, width)}.v{width}p0", ll.vector(type, width)
        v.out.declared.add(f"declare void @{name}({kind}, <{width} x ptr>, i32, <{width} x i1>)")
        scope.lines.append(
            f"  call void @{name}({kind} {value}, <{width} x ptr> {where}, i32 {ll.BYTES[type]}, "
            f"<{width} x i1> {mask})"
        )


@dataclass(slots=True)
class VectorLoop:
    """One `For(VECTOR)` while it is widened."""

    emitter: Emitter
    loop: For

    def emit(self) -> None:
        """Main loop, masked rest, and the accumulators' last combination."""
        v, outer, var = self.emitter.values, self.emitter.values.out.scopes.inner, self.loop.var
        assert var.extent is not None, f"vector loop {var} has no extent"
        assert v.out.scopes.lanes is None, f"vector loop {var} stands in another one"
        width = lanes_for(self.loop.body, self.emitter.machine.vector_bits)
        folded = sorted(
            {f.buffer: f.op for f in folds(self.loop.body) if f.buffer.name in v.registers}.items(),
            key=lambda x: x[0].name,
        )
        chains = CHAINS if folded else 1
        if isinstance(var.extent, int):
            width = min(width, max(2, 1 << (var.extent - 1).bit_length()))
            chains = min(chains, 1 << max(0, (var.extent // width).bit_length() - 1))
        extent = v.dim(var.extent)
        sums = {b: [self._accumulator(b, op, width) for _ in range(chains)] for b, op in folded}
        saved = {b: v.registers[b.name] for b, _ in folded}
        done = self._main(width, chains, extent, sums, self._peel(width, extent))
        if chains > 1:
            done = self._main(width, 1, extent, sums, done)
        self._rest(width, done, extent, sums)
        for b, op in folded:
            v.registers[b.name] = saved[b]
            self._join(outer, b, op, width, sums[b])

    def _peel(self, width: int, extent: str) -> str:
        """Lanes up to the first aligned vector of a buffer that is written past the caches, in one masked step."""
        store = next((s for s in stores(self.loop.body) if s.buffer.stream), None)
        v, outer, var = self.emitter.values, self.emitter.values.out.scopes.inner, self.loop.var
        short_loop = isinstance(var.extent, int) and var.extent < PEEL * width
        if (
            store is None
            or short_loop
            or folds(self.loop.body)
            or any(isinstance(x, For) for x in self.loop.body)
        ):
            return "0"
        moved, size = linear(store.index, var), ll.BYTES[store.buffer.stored]
        if moved is None or moved[0] != 1:
            return "0"
        at = substitute(store.index, {var: 0})
        address = v.out.put(outer, f"ptrtoint ptr {v.address(outer, store.buffer, v.dim(at))} to i64")
        short = v.out.put(outer, f"and i64 {v.out.put(outer, f'sub i64 0, {address}')}, {width * size - 1}")
        lanes = v.out.put(outer, f"udiv i64 {short}, {size}")
        count = v.out.call(outer, "i64", "llvm.umin.i64", [("i64", lanes), ("i64", extent)])
        self._masked(width, "0", count, {})
        return count

    def _accumulator(self, buffer: Buffer, op: Op, width: int) -> Register:
        v, kind = self.emitter.values, ll.vector(buffer.stored, width)
        pointer = f"%{v.out.scopes.name('acc')}"
        v.allocas.append(f"  {pointer} = alloca {kind}, align 64")
        start = ll.splat(neutral(op, buffer.stored), buffer.stored, width)
        v.out.scopes.inner.lines.append(f"  store {kind} {start}, ptr {pointer}")
        return Register(pointer, width)

    def _main(
        self, width: int, chains: int, extent: str, sums: dict[Buffer, list[Register]], first: str = "0"
    ) -> str:
        """Whole vectors, `chains` of them a turn; gives the index after the last one done."""
        v, outer = self.emitter.values, self.emitter.values.out.scopes.inner
        step = width * chains
        names = {n: v.out.scopes.name(n) for n in ("vec", "vpre", "vend", "vdone")}
        i, after, last = (f"%{v.out.scopes.name('v')}" for _ in range(3))
        texts: list[str] = []
        for c in range(chains):
            lane0 = i if c == 0 else f"%{v.out.scopes.name('v')}"
            inner = self._copy(Lanes(self.loop.var, width, lane0, None), {b: r[c] for b, r in sums.items()})
            texts += ([f"  {lane0} = add nuw nsw i64 {i}, {c * width}"] if c else []) + inner.lines
        limit = v.out.put(outer, f"sub i64 {extent}, {step}")
        enter = v.out.put(outer, f"icmp sle i64 {first}, {limit}")
        here = v.out.scopes.name("from")
        outer.lines += [
            f"  br label %{here}",
            f"{here}:",
            f"  br i1 {enter}, label %{names['vpre']}, label %{names['vdone']}",
            f"{names['vpre']}:",
            f"  br label %{names['vec']}",
            f"{names['vec']}:",
            f"  {i} = phi i64 [{first}, %{names['vpre']}], [{after}, %{names['vend']}]",
            *texts,
            f"  br label %{names['vend']}",
            f"{names['vend']}:",
            f"  {after} = add nuw nsw i64 {i}, {step}",
        ]
        again = v.out.put(outer, f"icmp sle i64 {after}, {limit}")
        outer.lines += [
            f"  br i1 {again}, label %{names['vec']}, label %{names['vdone']}",
            f"{names['vdone']}:",
            f"  {last} = phi i64 [{first}, %{here}], [{after}, %{names['vend']}]",
        ]
        return last

    def _copy(self, lanes: Lanes, sums: dict[Buffer, Register]) -> Scope:
        """The body once, for one vector of lanes."""
        v = self.emitter.values
        for b, register in sums.items():
            v.registers[b.name] = register
        inner = Scope(lanes=lanes, syms={lanes.var: lanes.first})
        v.out.scopes.stack.append(inner)
        self.emitter.block(self.loop.body)
        v.out.scopes.stack.pop()
        return inner

    def _rest(self, width: int, first: str, extent: str, sums: dict[Buffer, list[Register]]) -> None:
        """What is left, in one masked step."""
        extends = self.loop.var.extent
        if first != "0" or not isinstance(extends, int) or extends % width:
            self._masked(width, first, extent, {b: r[0] for b, r in sums.items()})

    def _masked(self, width: int, first: str, extent: str, sums: dict[Buffer, Register]) -> None:
        """One step for the lanes from `first` to `extent`, fewer than a whole vector."""
        v, outer = self.emitter.values, self.emitter.values.out.scopes.inner
        then, done = v.out.scopes.name("tail"), v.out.scopes.name("tdone")
        left = v.out.put(outer, f"sub i64 {extent}, {first}")
        some = v.out.put(outer, f"icmp sgt i64 {left}, 0")
        # Hidden from LLVM 22: where it knows that one lane is left, it stores that lane of `trunc <8 x i64>` to
        # i32 as 8 bytes (x86 with AVX-512), over what follows.
        hidden = v.out.put(outer, f'call i64 asm "", "=r,0"(i64 {left})')
        count = v.out.spread(outer, v.out.put(outer, f"trunc i64 {hidden} to i32"), "i32", width)
        steps = "<" + ", ".join(f"i32 {i}" for i in range(width)) + ">"
        mask = v.out.put(outer, f"icmp slt <{width} x i32> {steps}, {count}")
        inner = self._copy(Lanes(self.loop.var, width, first, mask), sums)
        outer.lines += [
            f"  br i1 {some}, label %{then}, label %{done}",
            f"{then}:",
            *inner.lines,
            f"  br label %{done}",
            f"{done}:",
        ]

    def _join(self, scope: Scope, buffer: Buffer, op: Op, width: int, parts: list[Register]) -> None:
        """Chains, then lanes in halves, then the register that was there before."""
        v, type, kind = self.emitter.values, buffer.stored, ll.vector(buffer.stored, width)
        vectors = [v.out.put(scope, f"load {kind}, ptr {r.pointer}") for r in parts]
        while len(vectors) > 1:
            vectors = [
                combine(v, scope, op, type, width, *pair)
                for pair in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        total, lanes = vectors[0], width
        while lanes > 1:
            lanes //= 2
            halves = [", ".join(f"i32 {i + h * lanes}" for i in range(lanes)) for h in (0, 1)]
            source = ll.vector(type, lanes * 2) if lanes > 1 else f"<2 x {ll.NAMES[type]}>"
            if lanes == 1:
                a, b = (v.out.put(scope, f"extractelement {source} {total}, i64 {h}") for h in (0, 1))
            else:
                a, b = (
                    v.out.put(
                        scope, f"shufflevector {source} {total}, {source} poison, <{lanes} x i32> <{h}>"
                    )
                    for h in halves
                )
            total = combine(v, scope, op, type, lanes, a, b)
        pointer = v.registers[buffer.name].pointer
        old = v.out.put(scope, f"load {ll.NAMES[type]}, ptr {pointer}")
        scope.lines.append(
            f"  store {ll.NAMES[type]} {combine(v, scope, op, type, 1, old, total)}, ptr {pointer}"
        )


def combine(v: Values, scope: Scope, op: Op, type: Scalar, lanes: int, a: str, b: str) -> str:
    """op(a, b); in the masked rest of a vector loop, lanes outside keep `a`."""
    kind = ll.vector(type, lanes)
    table = ll.FLOAT_OPS if type.is_float else ll.INT_OPS
    if op in table:
        result = v.out.put(scope, f"{table[op]} {kind} {a}, {b}")
    else:
        names = ll.INTRINSICS if type.is_float else ll.INT_INTRINSICS
        result = v.out.call(scope, kind, f"llvm.{names[op]}.{ll.suffix(type, lanes)}", [(kind, a), (kind, b)])
    open_lanes = v.out.scopes.lanes
    if open_lanes is None or open_lanes.mask is None or lanes == 1:
        return result
    return v.out.put(scope, f"select <{lanes} x i1> {open_lanes.mask}, {kind} {result}, {kind} {a}")


def neutral(op: Op, type: Scalar) -> float | int | bool:
    """What leaves the other operand as it is."""
    if op is Op.ADD or op is Op.OR:
        return 0
    if op is Op.MUL:
        return 1
    if type.is_float:
        return float("inf") if op is Op.MIN else float("-inf")
    if type is Scalar.BOOL:
        return op is Op.AND
    top = (1 << (BITS[type] - 1)) - 1
    return top if op is Op.MIN else -top - 1


def _walks(x: Expr, tile: Sym) -> bool:
    """True when every load either walks memory with `tile` or does not move with it."""
    moves = [
        linear(e.index, tile) for e in parts([x]) if isinstance(e, Load) and e.buffer.space is not Space.TABLE
    ]
    return all(m is not None and m[0] in (0, 1) for m in moves)


def stores(body: Iterable[Stmt]) -> list[Store]:
    """Every store in `body`, nested loops included."""
    out: list[Store] = []
    for stmt in body:
        match stmt:
            case Store():
                out.append(stmt)
            case For(body=inner) | If(body=inner):
                out += stores(inner)
            case _:
                pass
    return out


def folds(body: Iterable[Stmt]) -> list[Fold]:
    """Every fold in `body`, nested loops included."""
    out: list[Fold] = []
    for stmt in body:
        match stmt:
            case Fold():
                out.append(stmt)
            case For(body=inner) | If(body=inner):
                out += folds(inner)
            case _:
                pass
    return out


def expressions(body: Iterable[Stmt]) -> list[Expr]:
    """Every expression that statements hold."""
    out: list[Expr] = []
    for stmt in body:
        match stmt:
            case For(body=inner):
                out += expressions(inner)
            case If(condition=condition, body=inner):
                out += [condition, *expressions(inner)]
            case Let(value=dim):
                out.append(index(dim))
            case Alloc(value=value) | Store(value=value) | Fold(value=value):
                out.append(value)
                if isinstance(stmt, Store):
                    out.append(index(stmt.index))
    return out


def parts(roots: Iterable[Expr]) -> list[Expr]:
    """Every expression below `roots`, each once, values behind bound symbols included."""
    seen: set[Expr] = set()
    todo = list(roots)
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        match x:
            case Alu(args=args):
                todo += args
            case Cast(arg=arg):
                todo.append(arg)
            case _:
                todo += behind(x)
    return list(seen)


def behind(x: Expr) -> list[Expr]:
    """The defining expressions of the bound symbols in an index."""
    from_symbols = (s.source for s in sorted(free_symbols(x), key=lambda s: s.name))
    return [s for s in from_symbols if isinstance(s, Load | Alu | Cast)]


def buffers_of(body: Iterable[Stmt]) -> set[Buffer]:
    """Every buffer that statements touch."""
    out = {x.buffer for x in parts(expressions(body)) if isinstance(x, Load)}
    for stmt in body:
        match stmt:
            case For(body=inner) | If(body=inner):
                out |= buffers_of(inner)
            case Store(buffer=b) | Fold(buffer=b) | Alloc(buffer=b):
                out.add(b)
            case _:
                pass
    return out


def lanes_for(body: Iterable[Stmt], vector_bits: int) -> int:
    """Lanes that fill a vector with the widest type computed; indices do not count, they are 32 bits wide."""
    widest = 8
    for x in parts(expressions(body)):
        if isinstance(x, Load | Alu | Cast) and x.type is not Scalar.BOOL:
            widest = max(widest, BITS[x.type])
    return max(2, vector_bits // widest)
