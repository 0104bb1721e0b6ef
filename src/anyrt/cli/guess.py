"""Guessed sizes for dynamic dimensions, reported in one line. Sizes are above 1: a size of 1 can hide errors.

>>> Guess().shape("x", (-1, 3, -1, -1), ("n", "", "", ""))
(2, 3, 64, 64)
>>> Guess(1).shape("ids", (-1, -1), ("n", "tokens"))
(3, 8)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anyrt.compiler.driver import plan_sizes
from anyrt.compiler.request import Point
from anyrt.core.counts import at_most, counts
from anyrt.core.dimvalues import evaluate
from anyrt.core.errors import AnyrtError
from anyrt.plan.plan import Binding, Plan
from anyrt.runtime.shapes import Shape, check_requirement

if TYPE_CHECKING:
    from anyrt.onnx.reference import Compared

# For a first axis, for height and width, for other axes: one per round, for tests of several shapes.
SIZES: Final = ((2, 64, 5), (3, 96, 8), (1, 1, 1))
ONES: Final = 2  # the round in which all sizes are 1
ROUNDS: Final = 2  # rounds that are tried
NONE: Final[Mapping[str, Shape]] = MappingProxyType({})
OPEN: Final = (1 << 31) - 1  # the greatest size of a dimension that no profile limits
IMAGE: Final = 4  # axes of an image, of which the last two are height and width


@dataclass(slots=True)
class Guess:
    """Chooses sizes; axes of one name get the same size. `guessed`: the shapes with guesses, by tensor."""

    round: int = 0
    guessed: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _named: dict[str, int] = field(default_factory=dict)

    def shape(self, tensor: str, sizes: Sequence[int], names: Sequence[str] = ()) -> tuple[int, ...]:
        """The shape of a tensor, with sizes in place of −1."""
        out = tuple(
            size if size >= 0 else self._size(axis, len(sizes), names[axis] if axis < len(names) else "")
            for axis, size in enumerate(sizes)
        )
        if out != tuple(sizes):
            self.guessed[tensor] = out
        return out

    def _size(self, axis: int, rank: int, name: str) -> int:
        first, image, other = SIZES[self.round]
        size = first if axis == 0 else image if rank == IMAGE and axis >= IMAGE - 2 else other
        return self._named.setdefault(name, size) if name else size

    def text(self, option: str = "--shapes=") -> str:
        """The warning; "" if nothing was guessed."""
        if not self.guessed:
            return ""
        shapes = ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in self.guessed.items())
        return f"sizes of dynamic dimensions are guessed: {option}{shapes}"

    def warn(self, command: str, option: str = "--shapes=") -> None:
        """Print the warning on stderr, if anything was guessed."""
        from anyrt.cli.main import complain

        if self.guessed:
            complain(f"anyrt {command}: warning: {self.text(option)}")

    def of_model(self, model: Compared, shapes: Mapping[str, Shape] = NONE) -> dict[str, Shape]:
        """The shapes of the inputs of a model: those in `shapes`, otherwise guesses."""
        return {
            n: shapes.get(n) or self.shape(n, s.sizes, [s.names.get(i, "") for i in range(len(s.sizes))])
            for n, s in model.signatures().items()
        }

    def of_input(self, plan: Plan, binding: Binding) -> tuple[int, ...]:
        """The optimum of the first profile, otherwise a guess."""
        ranges = plan.profiles[0] if plan.profiles else ()
        profile = {r.tensor: r.opt for r in ranges if not r.is_values and max(r.max, default=0) < OPEN}
        sizes = [d if isinstance(d, int) else -1 for d in binding.shape]
        optimum = profile.get(binding.name)
        if optimum is not None and all(a in (-1, b) for a, b in zip(sizes, optimum, strict=True)):
            return optimum
        return self.shape(binding.name, sizes, binding.dim_names)

    def of_plan(self, plan: Plan) -> dict[str, int]:
        """The value of each symbol: the optimum of the first profile, otherwise a guess; if guesses do not
        meet the requirements of the plan, the optimum of the builder."""
        optimum = plan_sizes(plan, Point.OPT)
        shapes = {b.name: self.of_input(plan, b) for b in plan.bindings if b.is_input}
        sizes = {s.name: optimum[s.name] for s in plan.symbols if s.most is None}
        own = (s for s in plan.symbols if s.name in sizes and not s.is_value)
        sizes |= {s.name: shapes[s.tensor][s.axis] for s in own}
        try:
            for r in plan.requirements:
                if not counts(r.left) | counts(r.right):
                    check_requirement(r, sizes, plan)
            sizes = at_most(sizes, (s.sym for s in plan.symbols))
        except AnyrtError:
            sizes = optimum
        for b in plan.bindings:
            if b.name in self.guessed:
                self.guessed[b.name] = tuple(evaluate(d, sizes) for d in b.shape)
        return sizes
