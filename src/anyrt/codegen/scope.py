"""Where an instruction may stand: nested scopes of LLVM text, one for each loop, with what was computed in
each.

A loop's text is written into a list of its own and appended to its parent's when it is complete. So an
expression that does not depend on the loop can still be placed before it, simply by writing into the parent's
list: loop-invariant code is never inside a loop to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anyrt.core.dims import Sym


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector loop while its body is written: the loop variable's value in lane 0, the width (two or more:
    the text of one lane is a scalar's), and in the tail the mask."""

    var: Sym
    width: int
    first: str
    mask: str | None
    whole: bool = False  # the first lane is a multiple of the width

    def __post_init__(self) -> None:
        assert self.width > 1, f"a vector of {self.width} lanes along {self.var}"


@dataclass(slots=True, eq=False)
class Scope:
    """One nesting level: its text, the symbols it defines (as LLVM values) and what it has computed.

    `values`: expressions, each with the state (`Values.state`) of the memory that it reads. `changes`: names
    of the registers and scratch buffers that the statements of this level write; what reads them cannot be
    computed outside it.
    """

    lines: list[str] = field(default_factory=list)
    syms: dict[Sym, str] = field(default_factory=dict)
    known: dict[object, str] = field(default_factory=dict)
    values: dict[object, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    lanes: Lanes | None = None
    changes: frozenset[str] = frozenset()


@dataclass(slots=True)
class Scopes:
    """The stack of open scopes; the first is the function's entry."""

    stack: list[Scope] = field(default_factory=lambda: [Scope()])
    counter: int = 0

    @property
    def inner(self) -> Scope:
        """The scope being written."""
        return self.stack[-1]

    @property
    def lanes(self) -> Lanes | None:
        """The open vector loop, if any."""
        return next((s.lanes for s in reversed(self.stack) if s.lanes), None)

    def name(self, stem: str = "t") -> str:
        """A fresh LLVM value name without its sigil."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def home(self, needs: frozenset[Sym], reads: frozenset[str] = frozenset()) -> Scope:
        """The outermost scope in which every symbol of `needs` is defined and nothing of `reads` changes."""
        return self.stack[self._depth(needs, reads)]

    def lane_home(self, needs: frozenset[Sym], reads: frozenset[str] = frozenset()) -> Scope:
        """As `home`, but not outside the open vector loop."""
        first = next(i for i, s in enumerate(self.stack) if s.lanes)
        return self.stack[max(first, self._depth(needs, reads))]

    def _depth(self, needs: frozenset[Sym], reads: frozenset[str]) -> int:
        for depth in range(len(self.stack) - 1, 0, -1):
            scope = self.stack[depth]
            defines = not needs.isdisjoint(scope.syms) or (scope.lanes and scope.lanes.var in needs)
            if defines or not reads.isdisjoint(scope.changes):
                return depth
        return 0

    def value_of(self, sym: Sym) -> str | None:
        """The LLVM value of a symbol that a loop or `Let` defines."""
        return next((s.syms[sym] for s in reversed(self.stack) if sym in s.syms), None)
