"""Outputs of layers, rounded to their types: the content of a tensor does not depend on where it is stored.

Kernels compute half types in float32, and round at stores. A value that is read in the kernel that computes
it would differ from a loaded one, so a rounding is part of each output that may exceed the precision of its
type. Values between the primitives of one layer belong to the layer: they are float32, stored or not, except
for the factors of products, which have the type that the layer declares.

>>> from anyrt.core.enums import DataType
>>> from anyrt.prims.build import map_, param
>>> x = param("x", (3,), DataType.HALF)
>>> (y,) = rounded_outputs((x,), (map_("exp", x),))
>>> y.op.fn, y.args[0].op.fn
('to_half', 'exp')
>>> rounded_outputs((x,), (map_("neg", x),))[0].op.fn
'neg'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.ir.compute import Concatenated, Elements, Extern, Given, Resampled
from anyrt.ir.graph import Value, apply_all, walk
from anyrt.prims.build import cast, map_
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.map import CAST, PATTERN, SELECT, Map, fn_of
from anyrt.prims.pad import Pad
from anyrt.prims.reduce import Reduce
from anyrt.prims.reshape import Reshape
from anyrt.prims.taprules import TapRule
from anyrt.prims.view import View

FLOAT: Final = DataType.FLOAT
ROUNDINGS: Final = {DataType.HALF: "to_half", DataType.BF16: "to_bf16"}
# Functions and folds whose results are representable in a half type if the operands are.
EXACT: Final = frozenset(
    {SELECT, PATTERN, "neg", "abs", "max", "min", "identity", "sign", *ROUNDINGS.values()}
)
WHOLE: Final = frozenset({"floor", "ceil", "round", "trunc"})  # no half type has fractions above its integers


def rounded(value: Value) -> Value:
    """`value` as a store of its type would round it."""
    return map_(ROUNDINGS[value.dtype], value) if value.dtype in ROUNDINGS else value


def rounded_outputs(operands: Iterable[Value | None], outputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """The outputs of one layer, which reads these operands, as tensors of their types."""
    inner = list(walk(outputs, (v for v in operands if v is not None)))
    if not any(v.dtype in ROUNDINGS and _computes(v) for v in inner):
        return outputs
    layer = _Layer()
    for value in inner:
        layer.take(value)
    return tuple(map(layer.output, outputs))


def _computes(value: Value) -> bool:
    """Whether elements may not be representable in the type although those of the operands are. Results of
    statements, regions or plug-ins are stored."""
    match value.op, value.compute:
        case Map(fn=fn), _:
            return fn not in EXACT | WHOLE
        case Reduce(fn=fn), _:
            return fn not in EXACT
        case Pad(value=border), _:
            return float(np.float64(border).astype(numpy_dtype(value.dtype))) != border == border
        case _, Resampled(rule=TapRule() as rule):
            return rule.weighs
        case _, Given() | Extern() | Elements() | Concatenated():
            return False
    return True


@dataclass(slots=True)
class _Layer:
    """One layer while it is rounded. `kept`: the replacement of a value; `wide`: the same in float32, if its
    half type may not represent it."""

    kept: dict[Value, Value] = field(default_factory=dict)
    wide: dict[Value, Value] = field(default_factory=dict)

    def take(self, value: Value) -> None:
        """Round a value whose operands were processed."""
        is_half, is_open = value.dtype in ROUNDINGS, any(a in self.wide for a in value.args)
        if is_half and _is_rounded(value):
            self.kept[value] = rounded(self._again(value, self.output))
            return
        is_stored = isinstance(value.compute, Given | Extern)
        reads = self._same if is_half or not is_open else self._in_float
        if is_stored or _multiplies(value) or _is_pattern(value):
            reads = self.output
        self.kept[value] = self._again(value, reads)
        if is_half and not is_stored and (is_open or _computes(value)):
            self.wide[value] = self._widened(value)

    def output(self, value: Value) -> Value:
        """An output of the layer, rounded if necessary."""
        if value not in self.wide:
            return self._same(value)
        once = _multiplies(value) or all(a not in self.wide for a in value.args)
        return rounded(self.kept[value] if once else cast(self.wide[value], value.dtype))

    def _widened(self, value: Value) -> Value:
        """The same in float32."""
        if fn_of(value) == CAST:
            return cast(self._in_float(value.args[0]), FLOAT)
        op = replace(value.op, dtype=FLOAT) if isinstance(value.op, Map | Contract) else value.op
        reads = self.output if _multiplies(value) else self._in_float
        return apply_all(op, *map(reads, value.args))[value.index]

    def _again(self, value: Value, reads: Callable[[Value], Value]) -> Value:
        args = tuple(map(reads, value.args))
        if fn_of(value) == CAST:
            return cast(args[0], value.dtype)
        return value if args == value.args else apply_all(value.op, *args)[value.index]

    def _same(self, value: Value) -> Value:
        return self.kept.get(value, value)

    def _in_float(self, value: Value) -> Value:
        if value in self.wide:
            return self.wide[value]
        same = self._same(value)
        return cast(same, FLOAT) if same.dtype in ROUNDINGS else same


def _multiplies(value: Value) -> bool:
    return isinstance(value.op, Contract)


def _is_pattern(value: Value) -> bool:
    return fn_of(value) == PATTERN


def _is_rounded(value: Value) -> bool:
    """True for values that a layer rounds itself, and for weights in a half type."""
    if fn_of(value) != CAST:
        return fn_of(value) in ROUNDINGS.values()
    (source,) = value.args
    while isinstance(source.op, View | Reshape):
        (source,) = source.args
    return isinstance(source.op, Const)
