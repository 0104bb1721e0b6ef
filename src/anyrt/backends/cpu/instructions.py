"""Single operations as instructions of the processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from anyrt.backends.cpu import bfloat, codes, dots, legal, quotients, x86
from anyrt.backends.cpu.intrinsics import instruction_for
from anyrt.codegen import bfloat as plain
from anyrt.codegen.arithmetic import intrinsic as written
from anyrt.codegen.code import expanded as code_expanded
from anyrt.codegen.ldexp import expanded as ldexp_expanded
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Dot, Writer
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Scalar
from anyrt.ir.intrinsic import text_of
from anyrt.ir.kernel import Alu, Cast, Expr, Intrinsic, Op

WIDEST = 512  # bits of a vector where there is AVX-512


@dataclass(frozen=True, slots=True)
class CpuInstructions:
    """Those of a machine."""

    machine: Machine

    @property
    def has_fma(self) -> bool:
        """Whether fused multiply-add is an instruction."""
        return self.machine.has_fma

    def replacement(self, x: Expr) -> Expr | None:
        """`x` without operations that old processors lack, and without quotients and conversions if products
        and sums give the same result."""
        if isinstance(x, Alu) and isinstance(x.op, Intrinsic):
            return text_of(x)
        if isinstance(x, Alu) and x.op is Op.LDEXP and not (self._scales and x.type is Scalar.F32):
            return ldexp_expanded(x)
        coded = codes.replacement(x, self.machine.has_fma)
        if coded is not None:
            return coded
        if isinstance(x, Alu) and x.op is Op.CODE and not self._scales:
            return code_expanded(x)
        if self.machine.has_bf16 and isinstance(x, Cast):
            return bfloat.rounded(x)
        if self.machine.has_fma and isinstance(x, Alu) and x.op is Op.DIV:
            return quotients.replacement(x)
        return None if self.machine.has_rounding else legal.replacement(x)

    def dot(self, intrinsic: Intrinsic, lanes: int) -> Dot | None:
        """If vectors are whole registers of its instruction."""
        instruction = instruction_for(intrinsic, self.machine)
        return (
            partial(dots.dot, instruction, lanes)
            if instruction is not None and lanes % instruction.words == 0
            else None
        )

    def ldexp(self, w: Writer, scope: Scope, texts: Sequence[str], width: int) -> str:
        """By AVX-512."""
        return x86.ldexp(w, scope, texts, width)

    def code(self, w: Writer, scope: Scope, texts: Sequence[str], width: int) -> str:
        """By AVX-512."""
        return x86.code(w, scope, texts, width)

    def extreme(
        self, w: Writer, scope: Scope, op: Op, pair: Sequence[str], width: int, *, sure: bool = False
    ) -> str:
        """A maximum or minimum of two float32, NaN if either is NaN; `sure`: the first is not NaN."""
        if not self.machine.has_extremes:
            return written(w, scope, op, pair, Scalar.F32, width)
        return x86.extreme(w, scope, op, pair, width, self.machine.lanes, sure)

    @property
    def _scales(self) -> bool:
        return self.machine.vector_bits == WIDEST

    def narrowed(self, w: Writer, scope: Scope, text: str, width: int) -> str:
        """float32 as bfloat16, by one instruction where there is one."""
        write = bfloat.narrowed if self.machine.has_bf16 else plain.narrowed
        return write(w, scope, text, width)
