"""Single operations as the processor's instructions have them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from anyrt.backends.cpu import bfloat, dots, legal
from anyrt.codegen import bfloat as plain
from anyrt.codegen.dots import expanded
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Dot, Writer
from anyrt.core.machine import Machine
from anyrt.ir.kernel import DOTS, Alu, Expr, Op


@dataclass(frozen=True, slots=True)
class CpuInstructions:
    """Those of a machine."""

    machine: Machine

    @property
    def has_fma(self) -> bool:
        """Whether a product and a sum that are rounded once are an instruction."""
        return self.machine.has_fma

    def replacement(self, x: Expr) -> Expr | None:
        """`x` without what old processors lack."""
        if isinstance(x, Alu) and x.op in DOTS:
            return expanded(x)
        return None if self.machine.has_rounding else legal.replacement(x)

    def dot(self, op: Op, lanes: int) -> Dot | None:
        """By AVX-512, where vectors are whole registers of it."""
        able = self.machine.has_bf16 if op is Op.DOT2 else self.machine.has_vnni and op is Op.DOT4U
        return partial(dots.dot, op, lanes) if able and lanes % dots.LANES == 0 else None

    def narrowed(self, w: Writer, scope: Scope, text: str, width: int) -> str:
        """float32 as bfloat16, by one instruction where there is one."""
        write = bfloat.narrowed if self.machine.has_bf16 else plain.narrowed
        return write(w, scope, text, width)
