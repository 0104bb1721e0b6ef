"""The positions of instructions: nested scopes of LLVM text, one for each loop, with the values computed in
each of them.

A loop's text is written into a list of its own and appended to its parent's when it is complete. So an
expression that does not depend on the loop can still be placed before it, simply by writing into the parent's
list: loop-invariant code is never inside a loop to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anyrt.core.dims import Sym


@dataclass(slots=True, eq=False)
class Scope:
    """One nesting level: its text, the symbols that it defines (as LLVM values), and the values computed in
    it. `values`: expressions, each with the state (`Values.state`) of the memory that it reads. `changes`:
    names of the registers and scratch buffers that the statements of this level write; expressions that read
    them cannot be computed outside it."""

    lines: list[str] = field(default_factory=list)
    syms: dict[Sym, str] = field(default_factory=dict)
    known: dict[object, str] = field(default_factory=dict)
    values: dict[object, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    changes: frozenset[str] = frozenset()


@dataclass(slots=True)
class Scopes:
    """The stack of open scopes; the first is the function's entry."""

    stack: list[Scope] = field(default_factory=lambda: [Scope()])
    counter: int = 0

    @property
    def inner(self) -> Scope:
        """The innermost scope."""
        return self.stack[-1]

    def open(self, scope: Scope) -> Scope:
        """Push `scope` on the stack."""
        self.stack.append(scope)
        return scope

    def name(self, stem: str = "t") -> str:
        """A fresh LLVM value name without its sigil."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def home(self, needs: frozenset[Sym], reads: frozenset[str] = frozenset()) -> Scope:
        """The outermost scope in which every symbol of `needs` is defined and nothing of `reads` changes."""
        return self.stack[self.depth(needs, reads)]

    def depth(self, needs: frozenset[Sym], reads: frozenset[str]) -> int:
        """The index of `home` in the stack."""
        for depth in range(len(self.stack) - 1, 0, -1):
            scope = self.stack[depth]
            if not needs.isdisjoint(scope.syms) or not reads.isdisjoint(scope.changes):
                return depth
        return 0

    def value_of(self, sym: Sym) -> str | None:
        """The LLVM value of a symbol that a loop or `Let` defines."""
        return next((s.syms[sym] for s in reversed(self.stack) if sym in s.syms), None)
