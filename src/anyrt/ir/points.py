"""Turns of loops that run together: what each statement of a kernel is run for (ir/run.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from anyrt.core.dims import Sym
from anyrt.ir.evaluate import Array, Ints
from anyrt.ir.kernel import Buffer, For, Space


class Fault(Exception):
    """What a kernel may not do: what it `got`, what was `wanted`, and at which points that is wrong."""

    def __init__(self, got: str, wanted: str = "", wrong: Array | None = None) -> None:
        super().__init__(got)
        self.got = got
        self.wanted = wanted
        self.wrong = wrong


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A register: values (copies, elements), and for each point the copy that is its own, in order."""

    values: Array
    places: Ints

    @property
    def is_shared(self) -> bool:
        """True when some points have the same copy."""
        return bool((np.diff(self.places) == 0).any())


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Turns of the loops around a statement that run together. `outer`: the points before `loop` was spread
    out, and `index` which of them each comes from."""

    items: Ints  # rows of the scratch
    symbols: Mapping[str, Ints]
    registers: Mapping[Buffer, Cell] = field(default_factory=dict)
    outer: Points | None = None
    index: Ints | None = None
    loop: For | None = None

    def __len__(self) -> int:
        return len(self.items)

    def rows(self, space: Space) -> Ints:
        """The rows of a memory that the points have."""
        assert space is Space.SCRATCH, f"there is one {space.value} for all"
        return self.items

    def pick(self, chosen: Ints) -> Points:
        """Some of the points, or some more than once."""
        return Points(
            self.items[chosen],
            {name: values[chosen] for name, values in self.symbols.items()},
            {b: Cell(c.values, c.places[chosen]) for b, c in self.registers.items()},
            self.outer,
            None if self.index is None else self.index[chosen],
            self.loop,
        )

    def having(self, sym: Sym, values: Ints) -> Points:
        """The points with the values of one more symbol."""
        return replace(self, symbols={**self.symbols, sym.name: values})

    def holding(self, buffer: Buffer, cell: Cell) -> Points:
        """The points with one more register."""
        return replace(self, registers={**self.registers, buffer: cell})

    def register(self, buffer: Buffer) -> Cell:
        """A register's values."""
        if buffer not in self.registers:
            raise Fault(f"register {buffer.name} before it is allocated")
        return self.registers[buffer]

    def spread(self, loop: For, first: int, turns: Ints) -> Points:
        """Every point as often as it has turns of a loop, of which the first one is number `first`."""
        if (turns == 1).all():
            return self.having(loop.var, np.full(len(self), first))
        index = np.repeat(np.arange(len(self)), turns)
        begin = np.repeat(np.cumsum(turns) - turns, turns)
        inner = replace(self.pick(index), outer=self, index=index, loop=loop)
        return inner.having(loop.var, np.arange(len(index)) - begin + first)

    def before(self) -> tuple[For, Ints, Points]:
        """The loop that was spread out last, how many turns of each point there are, and the points that have
        some."""
        assert self.loop is not None, "no loop is spread out"
        assert self.outer is not None, "no loop is spread out"
        assert self.index is not None, "no loop is spread out"
        chosen, turns = np.unique(self.index, return_counts=True)
        return self.loop, turns, self.outer.pick(chosen)
