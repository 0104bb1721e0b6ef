"""What code generation needs to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers and the instructions that change how code is written.

    `has_rounding`: floats to integers and to half precision. `permutes`: element sizes in bytes for which one
    instruction picks lanes from two 64-byte registers.
    """

    vector_bits: int
    has_fma: bool
    has_rounding: bool = True
    permutes: frozenset[int] = frozenset()
