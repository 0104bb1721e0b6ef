"""What was tried for cases that miss their goal, by a pattern of their names: three ways, and what each gave.

TRIED = (Tried("product_.*_bf16", "dot instruction of the vectors: 0.5 × float32", "…", "…"),)
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tried:
    """Cases whose whole name the pattern is, and the attempts in their order."""

    pattern: str
    first: str
    second: str
    third: str

    @property
    def attempts(self) -> tuple[str, str, str]:
        """All three."""
        return self.first, self.second, self.third


TRIED: tuple[Tried, ...] = ()


def attempts(case: str, every: tuple[Tried, ...] = TRIED) -> tuple[str, str, str]:
    """What was tried for a case; empty texts where nothing is written down.

    >>> attempts("product_8x8x8", (Tried("product_.*", "a", "b", "c"),))
    ('a', 'b', 'c')
    """
    found = (t.attempts for t in every if re.fullmatch(t.pattern, case))
    return next(found, ("", "", ""))
