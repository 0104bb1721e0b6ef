"""Follow numbers through expressions: the value of each if some of its parts are known.

select(mask, s, −∞), where the mask is false:  −∞
x · y, where x is 0:                           0, also where y is not finite
x + y, where x is −∞:                          −∞
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from anyrt.core.dims import Dim
from anyrt.ir.buffer import Scalar
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Op, alu, bitcast, cast, const, operands
from anyrt.loops.split_by_range import Breakpoint, decided

ENDLESS: Final = float("-inf")


@dataclass(slots=True)
class Follow:
    """The numbers that expressions certainly have behind a place where a comparison changes, or if some are
    `known`."""

    turn: Breakpoint | None
    known: dict[Expr, Const | None] = field(default_factory=dict)

    def value(self, x: Expr) -> Const | None:
        """The number, or None."""
        waiting = [x]
        while waiting:
            node = waiting[-1]
            missing = [a for a in operands(node) if a not in self.known]
            if missing:
                waiting += missing
                continue
            self.known[node] = self._number(node)
            waiting.pop()
        return self.known[x]

    @property
    def _turned(self) -> tuple[Dim, ...]:
        return () if self.turn is None else (self.turn.known(after=True),)

    def _number(self, x: Expr) -> Const | None:
        values = [self.known[a] for a in operands(x)]
        match x:
            case Const():
                return x
            case Alu(op=Op.LE | Op.LT) if isinstance(known := decided(x, self._turned), Const):
                return known
            case Alu(op=Op.SELECT) if values[0] is not None:
                return values[1 if values[0].value else 2]
            case Alu() | Cast() if None not in values:
                return _computed(x, [v for v in values if v is not None])
            case Alu(op=Op.MUL) if x.type.is_float:
                return _first(values, 0)
            case Alu(op=Op.DIV) if x.type.is_float:
                return _first(values[:1], 0)
            case Alu(op=Op.ADD):
                return _first(values, ENDLESS)
            case Alu(op=Op.SUB):
                return _first(values[:1], ENDLESS)
        return None


def _first(values: Sequence[Const | None], number: float) -> Const | None:
    """The operand that is this number, and so the result."""
    return next((v for v in values if v is not None and v.value == number), None)


def _computed(x: Alu | Cast, values: Sequence[Const]) -> Const:
    match x:
        case Cast(type=type):
            value = cast(values[0], type)
        case Alu(op=Op.BITCAST, type=type):
            value = bitcast(values[0], type)
        case Alu(op=op):
            value = alu(op, *values)
    return literal(evaluate(value, {}, {}).item(), x.type)


def literal(value: float | bool, type: Scalar) -> Const:
    """A number of this type."""
    number = const(value, type)
    assert isinstance(number, Const), "a number is a literal"
    return number
