"""A copy with updates stored at positions that are data: along one axis, or several taken as one, at the
positions in a tensor of indices.

>>> x, at = np.array([[10, 20, 30], [40, 50, 60]]), np.array([[2, 0], [-1, 9]])
>>> Scatter(1).ref((x, at, np.array([[1, 2], [3, 4]])), (2, 3)).tolist()  # never outside: left out
[[2, 20, 1], [40, 50, 3]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from anyrt.core.dims import (
    Dim,
    Sym,
    add,
    always_le,
    ceildiv,
    depends,
    divmod_dim,
    floordiv,
    linear,
    maximum,
    minimum,
    mul,
    product,
)
from anyrt.core.dtype import is_packed
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.core.sizes import clamp
from anyrt.ir import kernel
from anyrt.ir.buffer import Scalar
from anyrt.ir.compute import Compute, Extern
from anyrt.ir.graph import Shape, Type
from anyrt.ir.kernel import (
    Alloc,
    Expr,
    For,
    If,
    Let,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    bound,
    free_symbols,
    load,
)
from anyrt.ir.prim import Array, Making, Prim, Read
from anyrt.ir.visit import parts
from anyrt.prims._check import check_axis, check_type, differ, expect, same_types, show
from anyrt.prims.gather import FAR, INDICES
from anyrt.prims.reduce import FOLDED, FOLDS

LAST: Final = "last"
STORED: Final = frozenset(t for t in DataType if not is_packed(t))
AT: Final[dict[str, Callable[..., None]]] = {
    "sum": np.add.at,
    "prod": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}
BLOCKS: Final = 16  # ranges of positions for threads
LOOKED: Final = 4  # elements are copied in the time to examine one update
CHUNK: Final = 256  # updates that are examined before those in a range are stored
LINE: Final = 16  # minimum elements of a row in a part of it
LEAST: Final = 1 << 14  # minimum elements of such a range, or waking a thread costs more than copying them


@dataclass(frozen=True, slots=True)
class Scatter(Prim):
    """The first operand with the third one's elements at the positions in the second: along `axis`, combined
    with the `over` - 1 axes behind it. If several updates have one position, it gets the last of them (`fn`
    LAST), or `fn` (a key of FOLDS) of its element and each of them, in their order, rounded to the element
    type each time.

    Indices and updates have one shape, with one axis in place of those; along the others they start where the
    first operand does and have no larger sizes. A negative position counts from the end; an update outside
    even so is skipped, so nothing is written there.
    """

    axis: int
    fn: str = LAST
    over: int = 1

    def compute(self) -> Compute:
        """Statements for the axis and those behind it, along which rows are contiguous."""
        return Extern((self.axis,), behind=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The first operand's type."""
        expect(args, 3, "scatter")
        if self.fn != LAST and self.fn not in FOLDS:
            wanted = f"one of {', '.join((LAST, *FOLDS))}"
            raise ArgumentError("AR304", "scatter", got=repr(self.fn), wanted=wanted)
        x, at, updates = args
        check_type(at.dtype, INDICES, "scatter")
        check_type(x.dtype, STORED if self.fn == LAST else FOLDED, "scatter")
        same_types((x.dtype, updates.dtype), "scatter")
        check_axis(self.axis, x.rank, "scatter")
        check_axis(self.axis + self.over - 1, x.rank, "scatter")
        shapes = f"indices {show(at.shape)} and updates {show(updates.shape)}"
        if {at.rank, updates.rank} != {x.rank - self.over + 1}:
            wanted = f"rank {x.rank - self.over + 1}"
            raise ShapeError("AR122", "scatter", got=f"{shapes} for {show(x.shape)}", wanted=wanted)
        if any(differ(m, n) for m, n in zip(at.shape, updates.shape, strict=True)):
            raise ShapeError("AR112", "scatter", got=shapes, wanted="equal sizes")
        if any(always_le(add(n, 1), m) for _, m, n in self._others(x, at)):
            wanted = f"sizes that are no larger but on axis {self.axis}"
            raise ShapeError("AR112", "scatter", got=f"{shapes} for {show(x.shape)}", wanted=wanted)
        return x

    def _others(self, x: Type, at: Type) -> list[tuple[int, Dim, Dim]]:
        whole = zip(at.shape, self.merged(x.shape), strict=True)
        return [(k, m, n) for k, (m, n) in enumerate(whole) if k != self.axis and not always_le(m, n)]

    def merged(self, shape: Shape) -> Shape:
        """The shape with the axes of positions combined."""
        behind = self.axis + self.over
        return (*shape[: self.axis], product(shape[self.axis : behind]), *shape[behind:])

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """One index per update, and sizes along the other axes that are no larger."""
        x, at, updates = args
        pairs = enumerate(zip(at.shape, updates.shape, strict=True))
        equal = tuple(
            Requirement(m, Relation.EQ, n, "AR123", where, f"make the sizes of axis {k} equal")
            for k, (m, n) in pairs
            if m != n
        )
        inside = tuple(
            Requirement(m, Relation.LE, n, "AR123", where, f"give no more along axis {k} than there is")
            for k, m, n in self._others(x, at)
        )
        return equal + inside

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's assignment to chosen elements, or a function's `at`."""
        x, at, updates = args
        behind = self.axis + self.over
        length = prod(x.shape[self.axis : behind])
        result = x.reshape(*x.shape[: self.axis], length, *x.shape[behind:]).copy()
        where = at.astype(np.int64)
        where = np.where(where < 0, where + length, where)
        inside = (where >= 0) & (where < length)
        index = list(np.nonzero(inside))
        index[self.axis] = where[inside]
        with np.errstate(all="ignore"):
            if self.fn == LAST:
                result[tuple(index)] = updates[inside]
            else:
                AT[self.fn](result, tuple(index), updates[inside])
        return result.reshape(x.shape)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: no element is computed by itself."""
        raise AssertionError("a scatter is not one expression; it is written as statements")

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """Ranges of positions, which threads may share: each is copied, and then receives the updates in it,
        in order."""
        writer = _Writer(self, out, args, item[: self.axis], make)
        if (parts := writer.parts()) is not None:
            return (parts,)
        length, count = writer.length, writer.blocks()
        if count == 1:
            return writer.block(0, length)
        size, turn = ceildiv(length, count), make.var(count)
        first = mul(turn.dim, size)
        held = maximum(0, minimum(size, add(length, mul(first, -1))))
        return (For(turn, Loop.SERIAL, writer.block(first, held)),)


@dataclass(frozen=True, slots=True)
class _Writer:
    """The parts of the statements of an item; `before`: its index along the axes before the positions;
    `first`, `wide`: its part of the axis behind the positions, if not all of it."""

    op: Scatter
    out: Type
    args: tuple[Read, ...]
    before: tuple[Dim, ...]
    make: Making
    first: Dim = 0
    wide: Dim | None = None

    @property
    def length(self) -> Dim:
        """The number of positions."""
        return self.op.merged(self.out.shape)[self.op.axis]

    @property
    def row(self) -> Shape:
        """The sizes of the elements at one position."""
        sizes = self.out.shape[self.op.axis + self.op.over :]
        return sizes if self.wide is None else (self.wide, *sizes[1:])

    @property
    def update_sizes(self) -> Shape:
        """The sizes of the update for an index."""
        sizes = self.args[1].type.shape[self.op.axis + 1 :]
        if self.wide is None:
            return sizes
        return (maximum(0, minimum(self.wide, add(sizes[0], mul(self.first, -1)))), *sizes[1:])

    @property
    def updates(self) -> Dim:
        """How many there are along the axis."""
        return self.args[1].type.shape[self.op.axis]

    def place(self, position: Dim, inner: Sequence[Dim]) -> tuple[Dim, ...]:
        """An index of the result."""
        sizes = self.out.shape[self.op.axis : self.op.axis + self.op.over]
        return (*self.before, *unravelled(position, sizes), *self._whole(inner))

    def _whole(self, inner: Sequence[Dim]) -> tuple[Dim, ...]:
        """An index of a part as an index of the whole."""
        return tuple(add(self.first, i) if k == 0 else i for k, i in enumerate(inner))

    @property
    def shorter(self) -> list[tuple[Dim, Dim]]:
        """The item's index along axes where it may have no update, and their number."""
        both = zip(self.before, self.args[1].type.shape, self.out.shape, strict=False)
        return [(i, m) for i, m, n in both if not always_le(n, m)]

    def read(self, step: Dim, inner: Sequence[Dim]) -> tuple[Dim, ...]:
        """An index of the updates: of one that exists, or of the first, since an item may read an update
        before a condition discards it."""
        inner = self._whole(inner)
        if not self.shorter:
            return (*self.before, step, *inner)
        shape = self.args[1].type.shape[: self.op.axis]
        some = product(minimum(1, m) for m in shape)
        last = (minimum(i, maximum(0, add(m, -1))) for i, m in zip(self.before, shape, strict=True))
        return (*(mul(some, i) for i in last), step, *inner)

    def index(self, step: Dim, inner: Sequence[Dim]) -> Expr:
        """The position of an update, or outside."""
        position = kernel.cast(self.args[1].at(self.read(step, inner)), Scalar.I64)
        return kernel.select(position < 0, position + kernel.index(self.length), position)

    def parts(self) -> Stmt | None:
        """Parts of the axis behind the positions, one per thread, each at all positions: if indices depend on
        that axis, no part examines another one's updates."""
        if not self.row:
            return None
        step, inner = self.make.var(self.updates), [self.make.var(d) for d in self.update_sizes]
        row, whole = product(self.row), product((self.length, *self.row))
        count = clamp(minimum(floordiv(whole, LEAST), minimum(self.row[0], floordiv(row, LINE))), 1, BLOCKS)
        if inner[0] not in free_symbols(self.index(step.dim, [v.dim for v in inner])) or count == 1:
            return None
        turn, size = self.make.var(count), ceildiv(self.row[0], count)
        first = mul(turn.dim, size)
        wide = maximum(0, minimum(size, add(self.row[0], mul(first, -1))))
        return For(turn, Loop.SERIAL, replace(self, first=first, wide=wide).block(0, self.length))

    def blocks(self) -> Dim:
        """As many ranges as make examining all updates for each of them cheaper than copying."""
        step, inner = self.make.var(self.updates), [self.make.var(d) for d in self.update_sizes]
        deciding = free_symbols(self.index(step.dim, [v.dim for v in inner]))
        examined = product(
            (self.updates, *(d for v, d in zip(inner, self.update_sizes, strict=True) if v in deciding))
        )
        whole = product((self.length, *self.row))
        return clamp(
            minimum(floordiv(whole, LEAST), floordiv(whole, mul(LOOKED, maximum(examined, 1)))), 1, BLOCKS
        )

    def block(self, first: Dim, count: Dim) -> tuple[Stmt, ...]:
        """All at `count` positions from `first` on."""
        if not self.update_sizes and count != self.length:
            moves = self.listed(first, count)
        else:
            step = self.make.var(self.updates)
            moves = For(step, Loop.SERIAL, self.moved(step.dim, first, count))
        for i, m in self.shorter:
            moves = If(kernel.index(i) < kernel.index(m), (moves,))
        return self.copied(first, count), moves

    def listed(self, first: Dim, count: Dim) -> Stmt:
        """Single elements, whose branch would be mispredicted half of the time: the updates of a batch in the
        range are listed, and then stored."""
        make, i32 = self.make, Scalar.I32
        chunk = make.var(ceildiv(self.updates, CHUNK))
        start = mul(chunk.dim, CHUNK)
        step = make.var(maximum(0, minimum(CHUNK, add(self.updates, mul(start, -1)))))
        to, many, chosen_step = make.var(CHUNK), make.var(CHUNK + 1), make.var(CHUNK)
        entry = make.var(many.dim)
        held, chosen = make.register(i32), make.scratch(i32, CHUNK)
        lies = self.lies(self.index(add(start, step.dim), ()), first, count)
        longer = load(held, 0) + kernel.select(lies, kernel.const(1, i32), 0)
        append = (
            Let(to, bound(load(held, 0), 0, CHUNK - 1, "held", CHUNK)),
            Store(chosen, to.dim, kernel.cast(kernel.index(step.dim), i32)),
            Store(held, 0, longer),
        )
        place = add(start, chosen_step.dim)
        store = (
            Let(chosen_step, bound(load(chosen, entry.dim), 0, CHUNK - 1, "chosen", CHUNK)),
            self.update(place, self.index(place, ()), ()),
        )
        body = (
            Alloc(held, kernel.const(0, i32)),
            For(step, Loop.SERIAL, append),
            Let(many, bound(load(held, 0), 0, CHUNK, "many", CHUNK + 1)),
            For(entry, Loop.SERIAL, store),
        )
        return For(chunk, Loop.SERIAL, body)

    def copied(self, first: Dim, count: Dim) -> Stmt:
        """The positions as they are: in one loop, if all of them are contiguous."""
        lane = self.make.var(product((count, *self.row)))
        position, *inner = unravelled(lane.dim, (count, *self.row))
        store = self.copy(add(first, position), inner)
        if is_straight(store, lane):
            return For(lane, Loop.SERIAL, (store,))
        vars = [self.make.var(d) for d in (count, *self.row)]
        where = [v.dim for v in vars]
        return nested(vars, (self.copy(add(first, where[0]), where[1:]),))

    def copy(self, position: Dim, inner: Sequence[Dim]) -> Store:
        """An element as it is."""
        at = self.place(position, inner)
        return self.make.store(at, self.args[0].at(at))

    def moved(self, step: Dim, first: Dim, count: Dim) -> tuple[Stmt, ...]:
        """The elements of an update, if they are in the range: contiguous if one index gives their
        position."""
        lane = self.make.var(product(self.update_sizes))
        if len(self.update_sizes) > 1 and self.update_sizes == self.row:
            inner = unravelled(lane.dim, self.update_sizes)
            at = self.index(step, inner)
            if lane not in free_symbols(at) and is_straight(store := self.update(step, at, inner), lane):
                return (If(self.lies(at, first, count), (For(lane, Loop.SERIAL, (store,)),)),)
        vars = [self.make.var(d) for d in self.update_sizes]
        inner = tuple(v.dim for v in vars)
        at = self.index(step, inner)
        deciding = [k for k, v in enumerate(vars) if v in free_symbols(at)]
        cut = max(deciding, default=-1) + 1
        stored = self.update(step, at, inner)
        body: Stmt = If(self.lies(at, first, count), (nested(vars[cut:], (stored,)),))
        for var in reversed(vars[:cut]):
            body = For(var, Loop.SERIAL, (body,))
        return (body,)

    def lies(self, at: Expr, first: Dim, count: Dim) -> Expr:
        """Whether a position is one of those."""
        return alu(Op.AND, kernel.index(first) <= at, at < kernel.index(add(first, count)))

    def update(self, step: Dim, at: Expr, inner: Sequence[Dim]) -> Store:
        """An element of an update, alone or combined with the existing one, at a valid position."""
        most = self.length - 1 if isinstance(self.length, int) else FAR
        place = self.place(bound(at, 0, max(most, 0), "at", maximum(self.length, 1)), inner)
        new = self.args[2].at(self.read(step, inner))
        if self.op.fn != LAST:
            new = alu(FOLDS[self.op.fn].op, self.make.at(place), new)
        return self.make.store(place, new)


def unravelled(at: Dim, sizes: Shape) -> tuple[Dim, ...]:
    """The index of element `at` in row-major order."""
    digits: list[Dim] = []
    for size in sizes[:0:-1]:
        at, rest = divmod_dim(at, size)
        digits.append(rest)
    return (*([at] if sizes else []), *reversed(digits))


def is_straight(store: Store, lane: Sym) -> bool:
    """True if a loop reads and stores contiguously, or reads the same element again."""
    read = (x.index for x in parts((store.value,)) if isinstance(x, Load))
    return all(linear(d, lane) is not None for d in (store.index, *read) if depends(d, lane))


def nested(vars: Sequence[Sym], body: tuple[Stmt, ...]) -> Stmt:
    """Loops around statements, the innermost over contiguous elements."""
    for var in reversed(vars):
        body = (For(var, Loop.SERIAL, body),)
    return body[0]
