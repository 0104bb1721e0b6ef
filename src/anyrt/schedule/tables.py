"""Tables of taps: positions and weights along one axis, computed once per shape before the first inference.

Layout: tap-major, so that a vector of neighbouring output positions reads neighbouring entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anyrt.core.dims import Dim, add, always_le, mul
from anyrt.ir.kernel import Buffer, Expr, Kernel, Op, Scalar, Space, Store, alu, bound, cast, index, load
from anyrt.prims.taps import Border, TapRule
from anyrt.schedule.nest import Names

TOP = (1 << 31) - 1
NEAR = (2, 4)  # classes of tables: positions ascend by at most this much each, on average


def nearness(rule: TapRule, n_in: Dim, n_out: Dim) -> int:
    """The class that a table surely belongs to, 0 for none."""
    if isinstance(rule, Border):
        return 0
    return next((k for k in NEAR if always_le(n_in, mul(n_out, k))), 0)


@dataclass(frozen=True, slots=True)
class Table:
    """Positions (and weights, when the rule has them) for one rule, input length and output length."""

    positions: Buffer
    weights: Buffer | None
    rule: TapRule
    n_in: Dim
    n_out: Dim

    def condition(self, near: int) -> Expr:
        """Whether the table is of this class, for sizes that leave it open."""
        return alu(Op.LE, index(self.n_in), index(mul(self.n_out, near)))

    def tap(self, t: int, at: Dim) -> tuple[Dim, Expr | None]:
        """Position and weight number `t` of output position `at`."""
        entry = add(mul(self.n_out, t), at)
        weight = load(self.weights, entry) if self.weights else None
        return bound(load(self.positions, entry), 0, TOP, "tap", self.n_in), weight


@dataclass(slots=True)
class Tables:
    """All tables of a module; equal ones are shared."""

    made: dict[tuple[TapRule, Dim, Dim], Table] = field(default_factory=dict)
    bytes: Dim = 0

    def of(self, positions: Buffer) -> Table | None:
        """The table with these positions; None for buffers that are none."""
        return next((t for t in self.made.values() if t.positions.name == positions.name), None)

    def table(self, rule: TapRule, n_in: Dim, n_out: Dim) -> Table:
        """The table for a rule between two lengths."""
        key = (rule, n_in, n_out)
        if key not in self.made:
            count, number = mul(n_out, rule.count), len(self.made)
            positions = self._buffer(f"pos{number}", Scalar.I32, count, nearness(rule, n_in, n_out))
            weights = self._buffer(f"wgt{number}", Scalar.F32, count) if rule.weighs else None
            self.made[key] = Table(positions, weights, rule, n_in, n_out)
        return self.made[key]

    def _buffer(self, name: str, type: Scalar, count: Dim, near: int = 0) -> Buffer:
        offset = self.bytes
        self.bytes = add(offset, mul(64, add(mul(count, 4), 63) // 64))
        return Buffer(name, type, Space.TABLE, count, offset, near)

    def kernels(self) -> list[Kernel]:
        """What fills the tables: one kernel each, an item an output position."""
        return [_fill(f"table{n}", table) for n, table in enumerate(self.made.values())]


def _fill(name: str, table: Table) -> Kernel:
    var = Names().var(table.n_out, "o")
    stores: list[Store] = []
    for t, (position, weight) in enumerate(table.rule.taps(var.dim, table.n_in, table.n_out)):
        entry = add(mul(table.n_out, t), var.dim)
        stores.append(Store(table.positions, entry, cast(index(position), Scalar.I32)))
        if table.weights is not None and weight is not None:
            stores.append(Store(table.weights, entry, weight))
    return Kernel(name, var, tuple(stores))
