"""Vector loops: a main loop over whole vectors, and masked steps for the remainder.

Accumulators folded inside get several vectors each in the main loop (`most_chains`), so that their latencies
overlap; lanes are combined at the end, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from anyrt.backends.cpu.pairs import pairs_of
from anyrt.backends.cpu.transpose import shuffle
from anyrt.backends.cpu.vectors import Lanes, Vectors
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.registers import combine
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Register, Values
from anyrt.core.dims import linear
from anyrt.core.dimvalues import substitute
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.kernel import For, Op, Stmt, Store, neutral
from anyrt.ir.statements import changes_of, expressions, folds, lanes_for, stores
from anyrt.ir.visit import loads, parts

AT_ONCE = 2  # registers that one instruction narrows to bfloat16
BODIES = 128  # instructions, roughly, of all copies of a loop's body together


def most_chains(machine: Machine) -> int:
    """Independent accumulators, a power of two: the cycles of an addition, so that one can begin in each."""
    return 1 << (machine.costs.latency.bit_length() - 1)


def peel(machine: Machine) -> int:
    """Vectors: shorter loops gain nothing from aligned stores, since the step before them costs a
    mispredicted branch."""
    return 2 * machine.costs.branch


@dataclass(slots=True)
class VectorLoop:
    """One `For(VECTOR)` while it is widened; `block` writes its statements."""

    vectors: Vectors
    block: Callable[[Iterable[Stmt]], None]
    loop: For

    @property
    def values(self) -> Values:
        """The part that all lanes share."""
        return self.vectors.values

    def emit(self) -> None:
        """Main loop, masked remainder, and the accumulators' final combination."""
        v, outer, var = self.values, self.values.out.scopes.inner, self.loop.var
        assert var.extent is not None, f"vector loop {var} has no extent"
        assert self.vectors.lanes is None, f"vector loop {var} stands in another one"
        width = lanes_for(self.loop.body, self.vectors.machine.vector_bits) * self._registers()
        folded = sorted(
            {f.buffer: f.op for f in folds(self.loop.body) if f.buffer.name in v.registers}.items(),
            key=lambda x: x[0].name,
        )
        chains = self._chains() if folded else 1
        whole = None  # vectors, where their number is known
        if isinstance(var.extent, int):
            width = min(width, max(2, 1 << (var.extent - 1).bit_length()))
            whole = var.extent // width
            chains = min(chains, 1 << max(0, whole.bit_length() - 1))
        extent = v.dim(var.extent)
        sums = {b: [self._accumulator(b, op, width) for _ in range(chains)] for b, op in folded}
        saved = {b: v.registers[b.name] for b, _ in folded}
        peeled = self._peel(width, extent)
        done = self._main(width, chains, extent, sums, peeled, whole=peeled == "0")
        if chains > 1 and (whole is None or whole % chains):
            done = self._main(width, 1, extent, sums, done, whole=peeled == "0")
        self._rest(width, done, extent, sums)
        for b, op in folded:
            v.registers[b.name] = saved[b]
            v.changed(b.name)
            self._join(outer, b, op, width, sums[b])

    def _chains(self) -> int:
        """As many accumulators as hide each other's latency; a long body hides it alone, and is not
        copied."""
        weight = len(parts(expressions(self.loop.body)))
        return min(
            most_chains(self.vectors.machine), 1 << max(0, (BODIES // max(1, weight)).bit_length() - 1)
        )

    def _registers(self) -> int:
        """Registers per vector: as the loop specifies, otherwise more than one if an instruction narrows them
        and the loop is contiguous."""
        if self.loop.registers > 1:
            return self.loop.registers
        return AT_ONCE if self.vectors.machine.has_bf16 and _narrows_along_memory(self.loop) else 1

    def _peel(self, width: int, extent: str) -> str:
        """Lanes up to the first aligned vector of a buffer that is stored past the caches, in one masked
        step."""
        store = next((s for s in stores(self.loop.body) if s.buffer.nontemporal != 0), None)
        v, outer, var = self.values, self.values.out.scopes.inner, self.loop.var
        short_loop = isinstance(var.extent, int) and var.extent < peel(self.vectors.machine) * width
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
        v, kind = self.values, ll.vector(buffer.stored, width)
        pointer = f"%{v.out.scopes.name('acc')}"
        v.allocas.append(f"  {pointer} = alloca {kind}, align 64")
        start = ll.splat(neutral(op, buffer.stored), buffer.stored, width)
        v.out.scopes.inner.lines.append(f"  store {kind} {start}, ptr {pointer}")
        return Register(pointer, width, joined=True)

    def _main(
        self,
        width: int,
        chains: int,
        extent: str,
        sums: dict[Buffer, list[Register]],
        first: str,
        *,
        whole: bool,
    ) -> str:
        """Whole vectors, `chains` of them per iteration; returns the index after the last one. `whole`: the
        first index is a multiple of the width."""
        v, outer = self.values, self.values.out.scopes.inner
        step = width * chains
        names = {n: v.out.scopes.name(n) for n in ("vec", "vpre", "vend", "vdone")}
        i, after, last = (f"%{v.out.scopes.name('v')}" for _ in range(3))
        texts: list[str] = []
        for c in range(chains):
            lane0 = i if c == 0 else f"%{v.out.scopes.name('v')}"
            lanes = Lanes(self.loop.var, width, lane0, None, whole)
            inner = self._copy(lanes, {b: r[c] for b, r in sums.items()})
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
        v = self.values
        for b, register in sums.items():
            v.registers[b.name] = register
            v.changed(b.name)
        scope = Scope(syms={lanes.var: lanes.first}, changes=changes_of(self.loop.body))
        inner = self.vectors.open(replace(lanes, pairs=pairs_of(self.loop.body)), scope)
        self.block(self.loop.body)
        v.out.scopes.stack.pop()
        return inner

    def _rest(self, width: int, first: str, extent: str, sums: dict[Buffer, list[Register]]) -> None:
        """The remainder, in one masked step."""
        extends = self.loop.var.extent
        if first != "0" or not isinstance(extends, int) or extends % width:
            self._masked(width, first, extent, {b: r[0] for b, r in sums.items()})

    def _masked(self, width: int, first: str, extent: str, sums: dict[Buffer, Register]) -> None:
        """One step for the lanes from `first` to `extent`, fewer than a whole vector."""
        v, outer = self.values, self.values.out.scopes.inner
        left = v.out.put(outer, f"sub i64 {extent}, {first}")
        some = v.out.put(outer, f"icmp sgt i64 {left}, 0")
        # Hidden from LLVM 22: if it knows that one lane is left, it stores that lane of `trunc <8 x i64>` to
        # i32 as 8 bytes (x86 with AVX-512), over the following memory.
        hidden = v.out.put(outer, f'call i64 asm "", "=r,0"(i64 {left})')
        mask = v.out.below(outer, width, hidden)
        inner = self._copy(Lanes(self.loop.var, width, first, mask, count=hidden), sums)
        v.out.guarded(outer, some, inner.lines)

    def _join(self, scope: Scope, buffer: Buffer, op: Op, width: int, parts: list[Register]) -> None:
        """Chains, then lanes in halves, then the register's previous value."""
        w, type, pointer = self.values.out, buffer.stored, self.values.registers[buffer.name].pointer
        vectors = [w.put(scope, f"load {ll.vector(type, width)}, ptr {r.pointer}") for r in parts]
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [combine(w, scope, op, type, width, a, b) for a, b in pairs]
        (total,), kind = vectors, ll.NAMES[type]
        while width > 1:
            whole, width = width, width // 2
            if width > 1:
                orders = [[*range(width)], [*range(width, whole)]]
                halves = [shuffle(w, scope, total, "poison", kind, whole, order) for order in orders]
            else:
                halves = [w.put(scope, f"extractelement <2 x {kind}> {total}, i64 {h}") for h in (0, 1)]
            total = combine(w, scope, op, type, width, halves[0], halves[1])
        old = w.put(scope, f"load {kind}, ptr {pointer}")
        scope.lines.append(f"  store {kind} {combine(w, scope, op, type, 1, old, total)}, ptr {pointer}")


def _narrows_along_memory(loop: For) -> bool:
    """True for a loop that only stores bfloat16, from contiguous elements or one element."""
    if not all(isinstance(s, Store) and s.buffer.stored is Scalar.BF16 for s in loop.body):
        return False
    places = [s.index for s in stores(loop.body)] + [x.index for x in loads(expressions(loop.body))]
    moved = [linear(at, loop.var) for at in places]
    return all(m is not None and m[0] in (0, 1) for m in moved)
