"""Iterations that are executed together: the points at which each statement of a kernel is executed
(ir/run.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.evaluate import Array, Ints
from anyrt.ir.kernel import For

Flags: TypeAlias = NDArray[np.bool_]


class Fault(Exception):
    """A violation in a kernel: what it `got`, what was `wanted`, and the points."""

    def __init__(self, got: str, wanted: str = "", wrong: Array | None = None) -> None:
        super().__init__(got)
        self.got = got
        self.wanted = wanted
        self.wrong = wrong


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A register: values (copies, elements), which of them depend on memory that `lacks` content, and for
    each point its copy, in order."""

    values: Array
    lacks: Flags
    places: Ints

    @property
    def is_shared(self) -> bool:
        """True when some points have the same copy."""
        return bool((np.diff(self.places) == 0).any())


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Iterations of the loops around a statement that are executed together. `outer`: the points before
    `loop` was expanded, and `index` the one that each comes from."""

    items: Ints  # the rows of scratch
    symbols: Mapping[str, Ints]
    blocks: Ints  # the rows of shared memory
    threads: Ints  # the numbers of the threads in their blocks
    team: Ints  # the threads of the blocks
    registers: Mapping[Buffer, Cell] = field(default_factory=dict)
    outer: Points | None = None
    index: Ints | None = None
    loop: For | None = None

    def __len__(self) -> int:
        return len(self.items)

    def rows(self, space: Space) -> Ints:
        """The rows of a memory at the points."""
        return self.blocks if space is Space.SHARED else self.items

    def pick(self, chosen: Ints) -> Points:
        """A selection of the points, with repetitions."""
        return Points(
            self.items[chosen],
            {name: values[chosen] for name, values in self.symbols.items()},
            self.blocks[chosen],
            self.threads[chosen],
            self.team[chosen],
            {b: replace(c, places=c.places[chosen]) for b, c in self.registers.items()},
            self.outer,
            None if self.index is None else self.index[chosen],
            self.loop,
        )

    def having(self, sym: Sym, values: Ints) -> Points:
        """The points with values for one more symbol."""
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
        """Every point repeated for each iteration of a loop, of which the first one has number `first`."""
        if (turns == 1).all():
            return self.having(loop.var, np.full(len(self), first))
        index = np.repeat(np.arange(len(self)), turns)
        begin = np.repeat(np.cumsum(turns) - turns, turns)
        inner = replace(self.pick(index), outer=self, index=index, loop=loop)
        return inner.having(loop.var, np.arange(len(index)) - begin + first)

    def as_blocks(self) -> Points:
        """The points as one block each."""
        alone = np.zeros(len(self), np.int64)
        return replace(self, blocks=np.arange(len(self)), threads=alone, team=alone + 1)

    def as_threads(self, loop: For) -> Points:
        """The points as the threads of their blocks, by the iterations of one more loop."""
        turns = self.symbols[loop.var.name]
        threads = self.threads * (int(turns.max()) + 1) + turns
        return replace(self, threads=threads, team=np.bincount(self.blocks)[self.blocks])

    def meet(self) -> None:
        """All threads of the blocks are here."""
        missing = np.bincount(self.blocks)[self.blocks] != self.team
        if missing.any():
            raise Fault("a barrier that not all threads of a block reach", "", missing)

    def before(self) -> tuple[For, Ints, Points]:
        """The loop that was expanded last, the number of iterations of each point, and the points that have
        some."""
        assert self.loop is not None, "no loop is spread out"
        assert self.outer is not None, "no loop is spread out"
        assert self.index is not None, "no loop is spread out"
        chosen, turns = np.unique(self.index, return_counts=True)
        return self.loop, turns, self.outer.pick(chosen)
