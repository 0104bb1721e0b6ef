"""Codes that are dequantized, moved or compared, and quantized to the same codes again, stay codes.

quantise(max(pad(dequantise(q), -inf), ...))     ->     max(pad(q, -128), ...)

as around poolings, transposes and reshapes of quantized networks. Both functions are evaluated at every code:
the numbers must be increasing, and quantize to the same code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from anyrt.core.dtype import cast, is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.prim import Array
from anyrt.ir.reference import reference_dtype, widen
from anyrt.ir.rewrite import transformed
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.checked import Checked
from anyrt.prims.const import Const
from anyrt.prims.map import Map, fn_of
from anyrt.prims.pad import Pad
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

LOWEST: Final = {DataType.INT8: -128, DataType.UINT8: 0}
COUNT: Final = 256  # codes
MOST: Final = 64  # values that are examined


@dataclass(frozen=True, slots=True)
class _Function:
    """The elementwise function `result` of `of` and of numbers."""

    result: Value
    of: Value

    def at(self, x: Array) -> Array:
        """Its results for a vector, as the interpreter computes them."""
        return cast(_results(self.result, {self.of: widen(x, self.of.dtype)}), self.result.dtype)


def keep_codes(graph: Graph) -> Graph:
    """The graph without numbers that only represent codes."""
    return transformed(graph, lambda old, new: _kept(new))


def _kept(value: Value) -> Value:
    down = _function(value) if _is_narrowed(value) else None
    if down is None:
        return value
    if down.of.dtype is value.dtype:
        codes = _codes(value.dtype)
        return down.of if np.array_equal(down.at(codes), codes) else value
    up = _dequantised(down.of)
    fits = up is not None and up.of.dtype is value.dtype and _agree(down, up)
    return _moved(down.of, {up.result: up.of}, down) if up is not None and fits else value


def _is_narrowed(value: Value) -> bool:
    """True for values that may be quantized numbers."""
    narrow = value.dtype in LOWEST and isinstance(value.op, Map)
    return narrow and is_float(value.args[0].dtype) and value.type.rank > 0


def _dequantised(value: Value) -> _Function | None:
    """The one value that a value's elements come from before they are moved, if it is one."""
    moves = [*_moves(value)]
    leaves = [v for v in moves if not _operands(v)]
    return _function(leaves[0]) if len(leaves) == 1 and len(moves) < MOST else None


def _agree(down: _Function, up: _Function) -> bool:
    """Whether codes round-trip, and are in the order of their numbers, including those of borders."""
    codes = _codes(up.of.dtype)
    numbers = up.at(codes)
    if not (np.diff(numbers) > 0).all() or not np.array_equal(down.at(numbers), codes):
        return False
    borders = [v.op.value for v in _moves(down.of) if isinstance(v.op, Pad)]
    return all(b in numbers or (b == -math.inf and _code(down, b) == codes[0]) for b in borders)


def _codes(dtype: DataType) -> Array:
    return np.arange(COUNT).astype(np.int8 if dtype is DataType.INT8 else np.uint8) + LOWEST[dtype]


def _code(down: _Function, x: float) -> float:
    """Of a number."""
    return float(down.at(np.full(1, x, np.float32))[0])


def _function(value: Value) -> _Function | None:
    """The function of one value that `value` is, down to codes or to a value that is not elementwise; None if
    there are several."""
    ends = _ends(value) if isinstance(value.op, Map) else []
    return _Function(value, ends[0]) if len(ends) == 1 and ends[0].shape == value.shape else None


def _ends(value: Value) -> list[Value]:
    """The operands of an elementwise function besides numbers; none if it is too complex to examine."""
    ends, todo, seen = list[Value](), [value], set[Value]()
    while todo and len(seen) < MOST:
        v = todo.pop()
        if v in seen or number(v) is not None:
            continue
        seen.add(v)
        if _computes(v) or v is value:
            todo += v.args
        else:
            ends.append(v)
    return [] if todo else ends


def _computes(value: Value) -> bool:
    """True for elementwise functions, except those that move, select or quantize."""
    return isinstance(value.op, Map) and value.dtype not in LOWEST and not _operands(value)


def _results(value: Value, done: dict[Value, Array]) -> Array:
    """The results of elementwise functions for the arrays of those in `done`."""
    if value not in done:
        held = number(value)
        args = tuple(_results(a, done) for a in value.args)
        shape = np.broadcast_shapes((1,), *(a.shape for a in args))
        fixed = None if held is None else np.full(shape, held, reference_dtype(value.dtype))
        (done[value],) = value.op.results(args, shape) if fixed is None else (fixed,)
    return done[value]


def _operands(value: Value) -> tuple[Value, ...]:
    """The operands whose elements a value has unchanged."""
    match value.op:
        case View() | Reshape() | Pad() | Checked():
            return value.args[:1]
        case Map(fn="max") if all(a.shape == value.shape and not isinstance(a.op, Const) for a in value.args):
            return value.args
    return ()


def _moves(value: Value) -> Iterator[Value]:
    """The chain of moves of elements, and its source."""
    todo, seen = [value], set[Value]()
    while todo and len(seen) < MOST:
        v = todo.pop()
        if v not in seen:
            seen.add(v)
            yield v
            todo += _operands(v)


def _moved(value: Value, done: dict[Value, Value], down: _Function) -> Value:
    """Codes in place of numbers."""
    if value not in done:
        args = [_moved(a, done, down) for a in _operands(value)]
        op = value.op
        if isinstance(op, Pad):
            op = replace(op, value=_code(down, op.value))
        same = (
            build.map_("max", *args) if fn_of(value) == "max" else apply(op, *args, *value.args[len(args) :])
        )
        done[value] = same
    return done[value]
