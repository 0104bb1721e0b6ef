"""Writing LLVM instructions: fresh names, intrinsics declared once, scalars spread over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anyrt.codegen.scope import Scope, Scopes
from anyrt.ir.kernel import Expr, Intrinsic, Op


class Dot(Protocol):
    """Writes a total + the dot of two vectors of words."""

    def __call__(self, w: Writer, scope: Scope, total: str, factors: tuple[str, str], /) -> str:
        """The name of the value."""


class Instructions(Protocol):
    """Single operations for which a target has its own instructions."""

    @property
    def has_fma(self) -> bool:
        """Whether fused multiply-add is an instruction."""

    def replacement(self, x: Expr) -> Expr | None:
        """`x` by operations that the target has; None if it has the operation of `x`."""

    def dot(self, intrinsic: Intrinsic, lanes: int) -> Dot | None:
        """The writer of a sum of `lanes` lanes + an intrinsic, if that is one instruction."""

    def ldexp(self, w: Writer, scope: Scope, texts: Sequence[str], width: int) -> str:
        """A float32 times a power of two, if `replacement` does not express it."""

    def code(self, w: Writer, scope: Scope, texts: Sequence[str], width: int) -> str:
        """A number of 4 bits of a word as float32, if `replacement` does not express it."""

    def extreme(
        self, w: Writer, scope: Scope, op: Op, pair: Sequence[str], width: int, *, sure: bool = False
    ) -> str:
        """A maximum or minimum of two float32, NaN if either is NaN; `sure`: the first is not NaN."""

    def narrowed(self, w: Writer, scope: Scope, text: str, width: int) -> str:
        """float32 as bfloat16."""


@dataclass(slots=True)
class Writer:
    """The text of one function while it grows."""

    instructions: Instructions
    scopes: Scopes = field(default_factory=Scopes)
    declared: set[str] = field(default_factory=set)

    def put(self, scope: Scope, text: str, stem: str = "t") -> str:
        """Write `%name = text` into `scope`; returns the name."""
        name = "%" + self.scopes.name(stem)
        scope.lines.append(f"  {name} = {text}")
        return name

    def call(self, scope: Scope, result: str, intrinsic: str, args: list[tuple[str, str]]) -> str:
        """Call an LLVM intrinsic, declaring it once."""
        return self.put(scope, self._called(result, intrinsic, args))

    def run(self, scope: Scope, intrinsic: str, args: list[tuple[str, str]]) -> None:
        """Call an LLVM intrinsic without a result."""
        scope.lines.append(f"  {self._called('void', intrinsic, args)}")

    def _called(self, result: str, intrinsic: str, args: list[tuple[str, str]]) -> str:
        self.declared.add(f"declare {result} @{intrinsic}({', '.join(t for t, _ in args)})")
        return f"call {result} @{intrinsic}({', '.join(f'{t} {v}' for t, v in args)})"

    def guarded(self, scope: Scope, flag: str, lines: Sequence[str], weights: str = "") -> None:
        """Lines that are executed if a flag is set."""
        then, done = self.scopes.name("then"), self.scopes.name("done")
        scope.lines += [f"  br i1 {flag}, label %{then}, label %{done}{weights}", f"{then}:", *lines]
        scope.lines += [f"  br label %{done}", f"{done}:"]

    def spread(self, scope: Scope, value: str, kind: str, lanes: int) -> str:
        """A scalar in every lane."""
        first = self.put(scope, f"insertelement <{lanes} x {kind}> poison, {kind} {value}, i64 0")
        return self.put(
            scope,
            f"shufflevector <{lanes} x {kind}> {first}, <{lanes} x {kind}> poison, "
            f"<{lanes} x i32> zeroinitializer",
        )

    def below(self, scope: Scope, lanes: int, count: str) -> str:
        """The mask of the first `count` (i64) lanes."""
        some = self.spread(scope, self.put(scope, f"trunc i64 {count} to i32"), "i32", lanes)
        steps = "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">"
        return self.put(scope, f"icmp slt <{lanes} x i32> {steps}, {some}")
