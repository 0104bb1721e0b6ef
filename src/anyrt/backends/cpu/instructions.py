"""Single operations as the processor's instructions have them."""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.backends.cpu import bfloat, legal
from anyrt.codegen import bfloat as plain
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Expr


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
        return None if self.machine.has_rounding else legal.replacement(x)

    def narrowed(self, w: Writer, scope: Scope, text: str, width: int) -> str:
        """float32 as bfloat16, by one instruction where there is one."""
        write = bfloat.narrowed if self.machine.has_bf16 else plain.narrowed
        return write(w, scope, text, width)
