"""Tables of taps: positions and weights along one axis, computed once per shape before the first inference.

Layout: tap-major, so that a vector of neighbouring output positions reads neighbouring entries. A table in
groups has an entry for each of `group` elements that lie side by side at every position (the channels of a
photograph): position × group + element.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Dim, add, floordiv, maximum, mod, mul
from anyrt.ir.buffer import LANES, Addresses, Buffer, Scalar, Space
from anyrt.ir.kernel import Expr, Kernel, Store, bound, cast, index, load
from anyrt.loops.nest import Names, room
from anyrt.loops.tables import Table as AnyTable
from anyrt.prims.taprules import TapRule

TOP = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Table:
    """Positions (and weights, when the rule has them) for one rule, input length and output length."""

    positions: Buffer
    weights: Buffer | None
    rule: TapRule
    n_in: Dim
    n_out: Dim

    @property
    def group(self) -> int:
        """Entries for each position."""
        return self.positions.group

    @property
    def ascends(self) -> bool:
        """Neighbouring positions never descend."""
        return self.rule.steps(self.n_in, self.n_out) is not None

    def reach(self, slope: int) -> tuple[Dim, Dim]:
        """The table is of this class if the first size is at most the second."""
        steps = self.rule.steps(self.n_in, self.n_out)
        assert steps is not None, "only ascending tables are of a class"
        before, after = steps
        return before, mul(after, slope)

    def tap(self, t: int, at: Dim) -> tuple[Dim, Expr | None]:
        """Position and weight number `t` of output position `at`."""
        entry = add(mul(self.n_out, t), at)
        weight = load(self.weights, entry) if self.weights else None
        return self.position(entry), weight

    def position(self, entry: Dim) -> Dim:
        """The content of the table."""
        return bound(load(self.positions, entry), 0, TOP, "tap", mul(self.n_in, self.group))


@dataclass(slots=True)
class Tables:
    """All tables of a module; equal ones are shared."""

    by_rule: dict[tuple[TapRule, Dim, Dim, int], Table] = field(default_factory=dict)
    addressed: dict[tuple[Table, bool], Addresses] = field(default_factory=dict)
    read: Container[Dim] | None = None  # offsets of those that kernels read, when all of these are created
    bytes: Dim = 0

    def of(self, buffer: Buffer) -> Table | None:
        """The table with these positions or weights; None for buffers that are neither."""
        for table in self.by_rule.values():
            if buffer.offset in [b.offset for b in (table.positions, table.weights) if b is not None]:
                return table
        return None

    def addresses(self, table: AnyTable, *, common: bool) -> Addresses:
        """The starts from which vectors of a table's entries are read; `common`: the same for all taps."""
        assert isinstance(table, Table), "tables are those of this file"
        key, name = (table, common), f"{table.positions.name}{'c' if common else ''}"
        if key not in self.addressed:
            taps, length = table.rule.count, mul(table.n_out, table.group)
            blocks = floordiv(add(length, LANES - 1), LANES)
            starts = self._buffer(f"{name}.s", Scalar.I32, mul(blocks, 1 if common else taps))
            offsets = self._buffer(f"{name}.o", Scalar.U8, mul(length, taps))
            self.addressed[key] = Addresses(starts, offsets, taps, length)
        return self.addressed[key]

    def grouped(self, table: AnyTable, group: int) -> Table:
        """The same table with entries for each of `group` elements."""
        assert isinstance(table, Table), "tables are those of this file"
        return self.table(table.rule, table.n_in, table.n_out, group)

    def table(self, rule: TapRule, n_in: Dim, n_out: Dim, group: int = 1) -> Table:
        """The table for a rule between two lengths."""
        key = (rule, n_in, n_out, group)
        if key not in self.by_rule:
            # At least one entry, which is read beside a condition that discards it.
            count, number = mul(maximum(n_out, 1), rule.count * group), len(self.by_rule)
            positions = replace(self._buffer(f"pos{number}", Scalar.I32, count), group=group)
            weights = self._buffer(f"wgt{number}", Scalar.F32, count) if rule.weighs else None
            self.by_rule[key] = Table(positions, weights, rule, n_in, n_out)
        return self.by_rule[key]

    def _buffer(self, name: str, type: Scalar, count: Dim) -> Buffer:
        offset = self.bytes
        self.bytes = add(offset, room(Scalar.I32, count))  # entries have no more bytes
        return Buffer(name, type, Space.TABLE, count, offset)

    @property
    def needed(self) -> list[Table]:
        """The tables that some kernel reads: a table in groups replaces another one."""
        return [t for t in self.by_rule.values() if self.read is None or _is_read(t, self.read)]

    def kernels(self) -> list[Kernel]:
        """The kernels that fill the tables that are needed: an item is an output position, or a vector of
        them."""
        kernels = []
        for n, table in enumerate(self.needed):
            kernels.append(_fill(f"table{n}", table))
            for common in (False, True):
                addresses = self.addressed.get((table, common))
                if addresses is not None:
                    name = f"{n}{'c' if common else ''}"
                    kernels += [_fill_starts(f"starts{name}", table, addresses)]
                    kernels += [_fill_offsets(f"offsets{name}", table, addresses)]
        return kernels


def _is_read(table: Table, offsets: Container[Dim]) -> bool:
    return any(b is not None and b.offset in offsets for b in (table.positions, table.weights))


def _taps(table: Table, entry: Dim) -> list[tuple[Dim, Expr | None]]:
    """Position and weight of each tap for one entry's group."""
    return list(table.rule.taps(floordiv(entry, table.group), table.n_in, table.n_out))


def _fill_starts(name: str, table: Table, addresses: Addresses) -> Kernel:
    """A vector's first entry may be inside a group; the start of the group is not behind any lane's."""
    var = Names().var(addresses.blocks, "o")
    taps = _taps(table, mul(var.dim, LANES))
    stores = []
    for t, (position, _) in enumerate(taps[:1] if addresses.common else taps):
        place = index(mul(position, table.group))
        stores.append(
            Store(addresses.starts, add(addresses.first_block(t), var.dim), cast(place, Scalar.I32))
        )
    return Kernel(name, var, tuple(stores))


def _fill_offsets(name: str, table: Table, addresses: Addresses) -> Kernel:
    var = Names().var(addresses.length, "o")
    block = floordiv(var.dim, LANES)
    stores = []
    for t, (position, _) in enumerate(_taps(table, var.dim)):
        place = add(mul(position, table.group), mod(var.dim, table.group))
        offset = index(place) - cast(load(addresses.starts, add(addresses.first_block(t), block)), Scalar.I64)
        stores.append(
            Store(addresses.offsets, add(mul(addresses.length, t), var.dim), cast(offset, Scalar.U8))
        )
    return Kernel(name, var, tuple(stores))


def _fill(name: str, table: Table) -> Kernel:
    var, group = Names().var(maximum(table.n_out, 1), "o"), table.group
    stores: list[Store] = []
    for t, (position, weight) in enumerate(table.rule.taps(var.dim, table.n_in, table.n_out)):
        for k in range(group):
            entry = add(mul(add(mul(table.n_out, t), var.dim), group), k)
            place = index(add(mul(position, group), k))
            stores.append(Store(table.positions, entry, cast(place, Scalar.I32)))
            if table.weights is not None and weight is not None:
                stores.append(Store(table.weights, entry, weight))
    return Kernel(name, var, tuple(stores))
