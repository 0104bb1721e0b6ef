"""Guessed sizes for dynamic dimensions, reported in one line. Sizes are above 1: a size of 1 can hide errors.

>>> Guess().shape("x", (-1, 3, -1, -1), ("n", "", "", ""))
(2, 3, 64, 64)
>>> Guess(1).shape("ids", (-1, -1), ("n", "tokens"))
(3, 8)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

# For a first axis, for height and width, for other axes: one per round, for tests of several shapes.
SIZES: Final = ((2, 64, 5), (3, 96, 8), (1, 1, 1))
ONES: Final = 2  # the round in which all sizes are 1
ROUNDS: Final = 2  # rounds that are tried
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

    def text(self, option: str = "--shapes") -> str:
        """The warning; "" if nothing was guessed."""
        if not self.guessed:
            return ""
        shapes = ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in self.guessed.items())
        return f"sizes of dynamic dimensions are guessed: {option}={shapes}"
