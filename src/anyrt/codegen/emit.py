"""Kernels to LLVM functions: statements and scalar loops (vector loops: widen.py, values: values.py).

define void @kernel(ptr %frame, i64 %begin, i64 %end, ptr %scratch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.refuse import refuse
from anyrt.codegen.scope import Lanes, Scope
from anyrt.codegen.transpose import FIT, columns, interleave, transpose
from anyrt.codegen.values import Register, Values
from anyrt.codegen.widen import VectorLoop, accumulate, combine
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim, Sym, always_le, bounds, linear, substitute
from anyrt.core.machine import Machine
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Buffer,
    Expr,
    Fetch,
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
)
from anyrt.ir.statements import buffers_in_order, changes_of, walks
from anyrt.plan import abi

LEAST_PAST, LINE = 16, 64  # bytes of the vectors that are stored past the caches
NAME = "kernel"  # of every function, since equal kernels share one
ATTRIBUTES = (
    'attributes #0 = { nounwind "no-builtins" "no-jump-tables"="true" }',
    "!0 = !{}",
    "!1 = !{i32 1}",
    '!2 = !{!"branch_weights", i32 1, i32 1048576}',
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a function finds behind the fixed words of its frame: the addresses of these buffers, then these
    sizes."""

    buffers: tuple[Buffer, ...]
    slots: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel as LLVM text, the intrinsics that it declares, and its frame."""

    text: str
    declared: frozenset[str]
    frame: Frame

    @property
    def module(self) -> str:
        """All that LLVM needs to compile it alone."""
        return "\n\n".join([*sorted(self.declared), self.text, *ATTRIBUTES])


def emit(kernel: Kernel, machine: Machine, name: str = NAME) -> Function:
    """`kernel` as an LLVM function. Its text depends on nothing but the kernel's loops: names of buffers and
    sizes do not occur in it."""
    refuse(kernel)
    return Emitter(Values(Writer(machine), {})).function(kernel, name)


@dataclass(slots=True)
class Emitter:
    """Writes the statements of one function."""

    values: Values

    def function(self, kernel: Kernel, name: str) -> Function:
        """The whole function, entry to return."""
        v = self.values
        touched = buffers_in_order(kernel)
        frame = [b for b in touched if b.space is not Space.SCRATCH]
        for buffer in touched:
            self._base(buffer, frame)
        self._counted(kernel.var, "%begin", "%end", kernel.body)
        entry = v.out.scopes.stack[0]
        head = [
            f"define void @{name}(ptr noalias %frame, i64 %begin, i64 %end, ptr noalias %scratch) #0 {{",
            "entry:",
            f"  %slots = getelementptr i64, ptr %frame, i64 {abi.FIRST_BINDING + len(frame)}",
        ]
        fence = ["  fence seq_cst"] if any(b.stream != 0 for b in v.pointers) else []
        text = "\n".join(head + v.allocas + entry.lines + fence + ["  ret void", "}"])
        return Function(text, frozenset(v.out.declared), Frame(tuple(frame), tuple(v.slots)))

    def _base(self, buffer: Buffer, frame: Sequence[Buffer]) -> None:
        """A buffer's first byte: in the frame, or a place in the scratch."""
        v, entry = self.values, self.values.out.scopes.stack[0]
        if buffer.space is Space.SCRATCH:
            start = "%scratch"
            if buffer.offset != 0:
                start = v.out.put(entry, f"getelementptr i8, ptr {start}, i64 {v.dim(buffer.offset)}", "b")
        else:
            number = abi.FIRST_BINDING + frame.index(buffer)
            word = v.out.put(entry, f"getelementptr i64, ptr %frame, i64 {number}")
            start = v.out.put(entry, f"load ptr, ptr {word}, !invariant.load !0", "b")
        if not always_le(1, buffer.size):
            # Nothing may be there. A first element that is read beside a condition comes from what surely is.
            some = v.out.put(entry, f"icmp sgt i64 {v.dim(buffer.size)}, 0")
            start = v.out.put(entry, f"select i1 {some}, ptr {start}, ptr %frame", "b")
        v.pointers[buffer] = start

    # ---- statements ---------------------------------------------------------------------------

    def block(self, body: Iterable[Stmt]) -> None:
        """Write statements in order into the innermost scope."""
        for stmt in body:
            match stmt:
                case For():
                    self._loop(stmt)
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
                case Fetch():
                    self._fetch(stmt)

    def _loop(self, loop: For) -> None:
        var, body = loop.var, loop.body
        match loop.kind:
            case Loop.VECTOR:
                VectorLoop(self.values, self.block, loop).emit()
            case Loop.TILE:
                self._tiled(var, body)
            case Loop.UNROLL:
                self._unrolled(var, body)
            case _:
                assert var.extent is not None, f"loop {var} has no extent"
                self._counted(var, "0", self.values.dim(var.extent), body)

    def _counted(self, var: Sym, first: str, end: str, body: tuple[Stmt, ...]) -> None:
        """A scalar loop, first … end − 1, entered only when it has a turn to run."""
        i = f"%{self.values.out.scopes.name('i')}"
        scope = Scope(syms={var: i}, changes=changes_of(body))
        self._turns(i, first, end, scope, lambda: self.block(body))

    def _turns(self, i: str, first: str, end: str, scope: Scope, write: Callable[[], None]) -> None:
        """A loop with counter `i` around what `write` puts into `scope`."""
        v = self.values
        head, done = v.out.scopes.name("loop"), v.out.scopes.name("done")
        after = f"%{v.out.scopes.name('i')}"
        before = v.out.scopes.name("pre")
        outer = v.out.scopes.inner
        inner = self._open(scope)
        write()
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
            inner = self._open(Scope(syms={var: str(i)}, changes=changes_of(body)))
            self.block(body)
            self.values.out.scopes.stack.pop()
            outer.lines += inner.lines

    def _tiled(self, tile: Sym, body: tuple[Stmt, ...]) -> None:
        """A store for each turn of `tile`. What walks memory with the tile is computed with the tile's turns
        as lanes, once for each lane of the vector loop, and transposed; in a masked step it is gathered."""
        lanes, store = self.values.out.scopes.lanes, body[0]
        assert lanes is not None, f"tile {tile} stands outside a vector loop"
        assert isinstance(store, Store), f"tile {tile} holds more than a store"
        moved, along = linear(store.index, lanes.var), linear(store.index, tile)
        if moved is not None and moved[0] == tile.extent and along is not None and along[0] == 1:
            self._interleaved(tile, store, lanes, moved[1])
        elif moved is None or moved[0] != 1 or not walks(store.value, tile) or _is_single(tile):
            # Neighbours are stored apart, or there are none to load at once.
            if isinstance(tile.extent, int):
                self._unrolled(tile, body)
            else:
                self._counted(tile, "0", self.values.dim(tile.extent or 0), body)
        else:
            self._transposed(tile, store, lanes, moved[1])

    def _transposed(self, tile: Sym, store: Store, lanes: Lanes, rest: Dim) -> None:
        """Rows whose lanes are the tile's turns become columns, which are stored."""
        v, outer = self.values, self.values.out.scopes.inner
        turns = tile.extent or 0
        size = 1 << (bounds(turns)[1] - 1).bit_length()
        count = v.dim(turns)
        mask = None if turns == size else v.out.below(outer, size, count)
        found = self._columns(Lanes(tile, size, "0", mask), store, lanes)
        for i, column in enumerate(found[:turns] if isinstance(turns, int) else found):
            inner = self._open(Scope(syms={tile: str(i)}, changes=changes_of((store,))))
            where = v.address(inner, store.buffer, v.lane_zero(inner, 1, rest, lanes))
            self._store_run(store.buffer, column, where, lanes)
            v.out.scopes.stack.pop()
            outer.lines += inner.lines if isinstance(turns, int) else self._where(f"{i}", count, inner.lines)

    def _where(self, i: str, end: str, lines: list[str]) -> list[str]:
        """Lines that run where i < end."""
        v = self.values
        then, done = v.out.scopes.name("then"), v.out.scopes.name("done")
        flag = v.out.put(v.out.scopes.inner, f"icmp slt i64 {i}, {end}")
        return [
            f"  br i1 {flag}, label %{then}, label %{done}",
            f"{then}:",
            *lines,
            f"  br label %{done}",
            f"{done}:",
        ]

    def _columns(self, across: Lanes, store: Store, lanes: Lanes) -> list[str]:
        """The tile's columns. Rows that take more than a load are computed in a loop and laid down in
        between, and so are more rows than fit into the registers."""
        v, outer, width = self.values, self.values.out.scopes.inner, lanes.width
        name, size = ll.NAMES[store.buffer.stored], ll.BYTES[store.buffer.stored]
        if isinstance(store.value, Load) and width <= FIT:
            rows = [self._row(str(lane), across, store, lanes) for lane in range(width)]
            return transpose(v.out, outer, rows, name, across.width)
        kind = f"<{across.width} x {name}>"
        space, i = f"%{v.out.scopes.name('tile')}", f"%{v.out.scopes.name('i')}"
        v.allocas.append(f"  {space} = alloca [{width} x {kind}], align 64")

        def place(row: int | str, column: int = 0) -> str:
            return v.out.put(
                v.out.scopes.inner, f"getelementptr {kind}, ptr {space}, i64 {row}, i64 {column}"
            )

        def write() -> None:
            value = self._row(i, across, store, lanes)
            v.out.scopes.inner.lines.append(f"  store {kind} {value}, ptr {place(i)}")

        self._turns(i, "0", str(width), Scope(), write)
        if width <= FIT:
            rows = [v.out.put(outer, f"load {kind}, ptr {place(lane)}") for lane in range(width)]
            return transpose(v.out, outer, rows, name, across.width)
        return list(columns(v.out, outer, place, (name, size), width, across.width))

    def _row(self, lane: str, across: Lanes, store: Store, lanes: Lanes) -> str:
        """What one lane of the vector loop stores in all turns of the tile; lanes that a mask leaves out
        repeat the last one."""
        v, outer = self.values, self.values.out.scopes.inner
        at = v.out.put(outer, f"add i64 {lanes.first}, {lane}")
        if lanes.mask is not None:
            last = v.out.put(outer, f"sub i64 {v.dim(lanes.var.extent or 0)}, 1")
            at = v.out.call(outer, "i64", "llvm.smin.i64", [("i64", at), ("i64", last)])
        inner = self._open(Scope(syms={lanes.var: at, across.var: "0"}, lanes=across))
        value = v.value(store.value)
        if isinstance(store.value, Load):  # rows far apart are more than a processor watches
            first = v.dim(substitute(store.value.index, {across.var: 0}))
            behind = across.width * ll.BYTES[store.value.type]
            self._prefetch(inner, v.address(inner, store.value.buffer, first), behind)
        v.out.scopes.stack.pop()
        outer.lines += inner.lines
        return value

    def _fetch(self, stmt: Fetch) -> None:
        """Every cache line of what the lanes would read; a masked step is not worth it."""
        v, scope, lanes = self.values, self.values.out.scopes.inner, self.values.out.scopes.lanes
        assert lanes is not None, f"{stmt} stands outside a vector loop"
        if lanes.mask is None:
            first = v.lane_zero(scope, 1, substitute(stmt.index, {lanes.var: 0}), lanes)
            kind, size = ll.NAMES[stmt.buffer.stored], ll.BYTES[stmt.buffer.stored]
            where = v.out.put(scope, f"getelementptr {kind}, ptr {v.pointers[stmt.buffer]}, i64 {first}")
            for line in range(0, lanes.width * size, LINE):
                self._prefetch(scope, where, line)

    def _prefetch(self, scope: Scope, where: str, ahead: int) -> None:
        """Ask for the cache line `ahead` bytes behind `where`, to be held near the core."""
        at = self.values.out.put(scope, f"getelementptr i8, ptr {where}, i64 {ahead}")
        self.values.out.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        scope.lines.append(f"  call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)")

    def _interleaved(self, tile: Sym, store: Store, lanes: Lanes, rest: Dim) -> None:
        """Lanes stored `tile.extent` elements apart, the tile's turns between them: one run of memory."""
        v, size, outer = self.values, tile.extent, self.values.out.scopes.inner
        assert isinstance(size, int), f"tile {tile} needs a fixed extent"
        rows = []
        for i in range(size):
            inner = self._open(Scope(syms={tile: str(i)}))
            rows.append(v.value(store.value))
            v.out.scopes.stack.pop()
            outer.lines += inner.lines
        run = Lanes(lanes.var, lanes.width * size, lanes.first, None)
        if lanes.mask is not None:
            run = Lanes(
                run.var,
                run.width,
                run.first,
                interleave(v.out, outer, [lanes.mask] * size, "i1", lanes.width),
            )
        value = interleave(v.out, outer, rows, ll.NAMES[store.buffer.stored], lanes.width)
        inner = self._open(Scope(syms={tile: "0"}))
        first = v.out.put(inner, f"mul i64 {lanes.first}, {size}")
        start = v.out.put(inner, f"add i64 {v.dim(substitute(rest, {tile: 0}))}, {first}")
        self._store_run(store.buffer, value, v.address(inner, store.buffer, start), run)
        v.out.scopes.stack.pop()
        outer.lines += inner.lines

    def _branch(self, condition: Expr, body: tuple[Stmt, ...]) -> None:
        v = self.values
        assert v.out.scopes.lanes is None, "a branch cannot stand inside a vector loop"
        flag = v.scalar(condition)
        outer, then, done = v.out.scopes.inner, v.out.scopes.name("then"), v.out.scopes.name("done")
        inner = self._open(Scope(changes=changes_of(body)))
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
        first = v.value(value)
        v.registers[buffer.name] = Register(pointer, lanes)
        v.changed(buffer.name)
        v.out.scopes.inner.lines.append(f"  store {kind} {first}, ptr {pointer}")

    def _fold(self, stmt: Fold) -> None:
        v = self.values
        register = v.registers[stmt.buffer.name]
        scope, kind = v.out.scopes.inner, ll.vector(stmt.buffer.stored, register.lanes)
        old = v.out.put(scope, f"load {kind}, ptr {register.pointer}")
        factors = self._factors(stmt)
        read = v.value if register.lanes > 1 or v.out.scopes.lanes else v.scalar
        if factors:
            new = accumulate(v, scope, register.lanes, old, [read(f) for f in factors])
        else:
            new = combine(v, scope, stmt.op, stmt.buffer.stored, register.lanes, old, read(stmt.value))
        scope.lines.append(f"  store {kind} {new}, ptr {register.pointer}")
        v.changed(stmt.buffer.name)

    def _factors(self, stmt: Fold) -> tuple[Expr, ...]:
        """What is multiplied before it is added to the accumulator, in one instruction."""
        match stmt.value:
            case Alu(op=Op.MUL, args=args) if stmt.op is Op.ADD and stmt.buffer.stored is Scalar.F32:
                return args if self.values.out.machine.has_fma else ()
            case _:
                return ()

    def _store(self, stmt: Store) -> None:
        v, scope, lanes = self.values, self.values.out.scopes.inner, self.values.out.scopes.lanes
        buffer, type = stmt.buffer, stmt.buffer.stored
        assert stmt.value.type is type, f"storing {stmt.value.type} into {buffer.name}, which holds {type}"
        value = v.value(stmt.value)
        v.changed(buffer.name)
        if lanes is None:
            where = v.address(scope, buffer, v.dim(stmt.index))
            scope.lines.append(f"  store {ll.NAMES[type]} {value}, ptr {where}, align {ll.BYTES[type]}")
            return
        moved = linear(stmt.index, lanes.var)
        if moved and moved[0] == 1:
            where = v.address(scope, buffer, v.lane_zero(scope, 1, moved[1], lanes))
            self._store_run(buffer, value, where, lanes)
        else:
            self._scatter(stmt, value, lanes)

    def _store_run(self, buffer: Buffer, value: str, where: str, lanes: Lanes) -> None:
        v, type = self.values, buffer.stored
        scope, kind, size = v.out.scopes.inner, ll.vector(type, lanes.width), ll.BYTES[type]
        part = min(LINE, lanes.width * size & -(lanes.width * size))  # what registers can be filled with
        if lanes.mask is None and buffer.stream != 0 and part >= LEAST_PAST:
            self._store_past(buffer, kind, value, where, part)
        elif lanes.mask is None:
            scope.lines.append(f"  store {kind} {value}, ptr {where}, align {size}")
        else:
            name = f"llvm.masked.store.{ll.suffix(type, lanes.width)}.p0"
            flags = f"<{lanes.width} x i1>"
            v.out.declared.add(f"declare void @{name}({kind}, ptr, i32, {flags})")
            args = f"{kind} {value}, ptr {where}, i32 {size}, {flags} {lanes.mask}"
            scope.lines.append(f"  call void @{name}({args})")

    def _store_past(self, buffer: Buffer, kind: str, value: str, where: str, part: int) -> None:
        """Past the caches where the address allows it: such stores exist for aligned vectors only."""
        v, scope = self.values, self.values.out.scopes.inner
        past, plain, done = (v.out.scopes.name(stem) for stem in ("past", "plain", "stored"))
        address = v.out.put(scope, f"ptrtoint ptr {where} to i64")
        odd = v.out.put(scope, f"and i64 {address}, {part - 1}")
        even = v.out.put(scope, f"icmp eq i64 {odd}, 0")
        if buffer.stream != 1:
            large = v.out.put(scope, f"icmp ne i64 {v.dim(buffer.stream)}, 0")
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


def _is_single(tile: Sym) -> bool:
    """True when `tile` never has two turns, which could be the lanes of a row."""
    return bounds(tile.extent or 0)[1] < 2
