"""What code generation needs to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers and the instructions that change how code is written.

    `has_rounding`: floats to integers and to half precision. `permutes`: element sizes in bytes for which one
    instruction picks lanes from two 64-byte registers. `has_bf16`: float32 to bfloat16 by AVX-512.
    """

    vector_bits: int
    has_fma: bool
    has_rounding: bool = True
    permutes: frozenset[int] = frozenset()
    has_bf16: bool = False
