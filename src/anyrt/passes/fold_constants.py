"""Constant folding.

The last values of constant subgraphs are folded, computed by the primitives' references in float64 and
rounded once, to their own type; moved constants keep their stored form. Not folded are values that would only
enlarge the weights: results of more than `SMALL` elements that are also larger than all the constants they
depend on, repeated constants, and codes of few bits in products (split_codes.py). Comparisons of positions
are not folded either: loops know where they change, which a table does not show. A constant with one number
everywhere becomes that number for elementwise functions, and is known to the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyrt.core.dtype import is_packed
from anyrt.core.enums import DataType
from anyrt.ir.attributes import open_sizes
from anyrt.ir.compute import External
from anyrt.ir.graph import Graph, Value, apply, users
from anyrt.ir.rewrite import transformed
from anyrt.passes.facts import volume
from anyrt.passes.split_codes import coded_bytes
from anyrt.prims.closed import constant
from anyrt.prims.const import Const, Iota, Param, Shape
from anyrt.prims.contract import Contract
from anyrt.prims.map import CAST, SELECT, Map, fn_of
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

SMALL: Final = 1 << 16


def fold_constants(graph: Graph) -> Graph:
    """`graph` with constants in place of what is computed from constants."""
    sizes = _constant(graph)
    uses, outputs = users(graph), {v for _, v in graph.outputs}
    folded: dict[Value, Value] = {}
    for value in sizes:
        last = value in outputs or any(u not in sizes and not _compares(u) for u in uses[value])
        if last and not isinstance(value.op, Const | Iota):
            folded[value] = _reshaped(value) or constant(value)
    return transformed(graph, lambda old, new: folded.get(old, new))


def _reshaped(value: Value) -> Value | None:
    """The same weights, not copied, if all operations on a constant are reshapes."""
    source = value
    while isinstance(source.op, Reshape):
        (source,) = source.args
    if not isinstance(source.op, Const):
        return None
    return apply(Const(source.op.blob, tuple(d for d in value.shape if isinstance(d, int))))


def _constant(graph: Graph) -> dict[Value, int]:
    """The values worth folding, with the elements of the constants below each (counted once per use)."""
    sizes: dict[Value, int] = {}
    coded, uses = coded_bytes(graph), users(graph)
    for value in graph.values:
        known = _is_static(value) and all(a in sizes for a in value.args)
        kept = value in coded or _is_widened(value, uses[value]) or _compares(value)
        if known and not kept and (below := _below(value, sizes)) is not None:
            sizes[value] = below
    return sizes


def _below(value: Value, sizes: Mapping[Value, int]) -> int | None:
    """The elements of the constants below a value; None if it has more than these, and too many."""
    count, below = volume(value.shape), sum(sizes[a] for a in value.args)
    if isinstance(value.op, Const | Shape | Iota):
        return count if isinstance(value.op, Const) else 0
    if any(is_packed(a.dtype) for a in value.args) and not is_packed(value.dtype) and count > SMALL:
        return None
    return below if count <= max(below, 1) or (count <= SMALL and not _repeats(value)) else None


def _is_widened(value: Value, uses: Sequence[Value]) -> bool:
    """True for large float16 weights of a product in float32, which kernels widen as they read them."""
    widens = fn_of(value) == CAST and value.args[0].dtype is DataType.HALF and value.dtype is DataType.FLOAT
    products = bool(uses) and all(isinstance(u.op, Contract) for u in uses)
    return widens and products and volume(value.shape) > SMALL


def _compares(value: Value) -> bool:
    """True for a comparison of positions."""
    compares = value.dtype is DataType.BOOL and fn_of(value) not in (None, CAST, SELECT)
    constants = all(isinstance(a.op, Const) for a in value.args)
    return compares and not constants and all(map(_counts, value.args))


def _counts(value: Value) -> bool:
    match value.op:
        case View() | Map(fn="add" | "sub"):
            return all(map(_counts, value.args))
        case Const():
            return value.dtype is DataType.INT64 and volume(value.shape) == 1
    return isinstance(value.op, Iota)


def _is_static(value: Value) -> bool:
    # An inference reads the number of a size from memory, and foreign code may have effects.
    if isinstance(value.op, Param) or value.op.tells is not None or isinstance(value.compute, External):
        return False
    return all(isinstance(d, int) for d in value.shape) and next(open_sizes(value.op), None) is None


def _repeats(value: Value) -> bool:
    """True for a view that reads some elements more than once."""
    return isinstance(value.op, View) and len({out for a in value.op.axes for out, _ in a.terms}) < sum(
        d != 1 for d in value.shape
    )
