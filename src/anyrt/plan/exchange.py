"""A collective operation of a program, as its plan describes it.

>>> call = ExchangeCall("sum", C.ALL_REDUCE, R.SUM, -1, (), 2, DataType.HALF, 1, 1)
>>> ExchangeCall.parse(Reader(call.as_json(), "call")) == call
True
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeVar

from anyrt.core.dimlimits import MAX_AXES
from anyrt.core.dtype import short_name
from anyrt.core.enums import CollectiveOperation, DataType, ReduceOperation
from anyrt.plan.json import Json, Reader
from anyrt.plan.plan import read_dtype

C, R = CollectiveOperation, ReduceOperation
MAX_RANKS: Final = 1 << 20
E = TypeVar("E", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class ExchangeCall:
    """A collective operation of the layer `where`, between `ranks` ranks, which are `group`, or all if it is
    (). Its frame has the addresses of `inputs` operands, of which the first is exchanged, then of the result,
    then the `rank` sizes of that operand, an array of `dtype`."""

    where: str
    operation: CollectiveOperation
    fold: ReduceOperation
    root: int
    group: tuple[int, ...]
    ranks: int
    dtype: DataType
    rank: int
    inputs: int

    def as_json(self) -> Json:
        """Plain values that `parse` reads."""
        numbers: list[Json] = [self.ranks, short_name(self.dtype), self.rank, self.inputs]
        return [self.where, self.operation.name, self.fold.name, self.root, list(self.group), *numbers]

    @staticmethod
    def parse(reader: Reader) -> ExchangeCall:
        """The call that `as_json` wrote."""
        where, operation, fold, root, group, ranks, dtype, rank, inputs = reader.exactly(9)
        return ExchangeCall(
            where.text(),
            _member(operation, CollectiveOperation),
            _member(fold, ReduceOperation),
            root.integer(-1, MAX_RANKS),
            tuple(x.integer(0, MAX_RANKS) for x in group.items(MAX_RANKS)),
            ranks.integer(1, MAX_RANKS),
            read_dtype(dtype),
            rank.integer(0, MAX_AXES),
            inputs.integer(1, 2),
        )


def _member(reader: Reader, kind: type[E]) -> E:
    name = reader.text()
    if name not in kind.__members__:
        raise reader.error(repr(name[:40]), f"a member of {kind.__name__}")
    return kind[name]
