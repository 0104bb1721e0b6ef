"""Sums of products of dequantised codes as sums of products of the codes, which are exact, times the scales.

contract(cast(q) × s, cast(w) × t)     ->     cast(contract(q, w) as int32) × (s × t)

q and w are int8 or int4, which may be moved on the way; s and t may differ along axes that are not summed
over. It is done before constants are folded, which would make numbers of the codes of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anyrt.core.dims import Dim, always_le, product
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Shape, Value, apply
from anyrt.ir.rewrite import Fail, transformed
from anyrt.prims import build
from anyrt.prims.checked import Checked
from anyrt.prims.contract import SUMMED, Contract
from anyrt.prims.map import CAST, Map
from anyrt.prims.pad import Pad
from anyrt.prims.reshape import Reshape, pieces
from anyrt.prims.view import Axis, View

WIDE: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})
CODES: Final = frozenset({DataType.INT8, DataType.INT4})


@dataclass(frozen=True, slots=True)
class Codes:
    """`codes` (int8) times `scale` (FLOAT), which has size 1 along the axes where it is the same."""

    codes: Value
    scale: Value


def contract_codes(graph: Graph) -> Graph:
    """The graph with sums of products of codes."""
    return transformed(graph, lambda old, new: _contracted(new))


def _contracted(value: Value) -> Value:
    op = value.op
    if not isinstance(op, Contract) or not is_float(op.dtype):
        return value
    sizes = op.sizes((value.args[0].type, value.args[1].type))
    if not always_le(product(d for label, d in sizes.items() if label not in op.out), SUMMED):
        return value
    left, right = (_dequantised(arg) for arg in value.args)
    if isinstance(left, Fail) or isinstance(right, Fail):
        return value
    first, second = _placed(left.scale, op.left, op.out), _placed(right.scale, op.right, op.out)
    if first is None or second is None:
        return value
    sums = apply(Contract(op.left, op.right, op.out, DataType.INT32), left.codes, right.codes)
    numbers = build.map_("mul", build.cast(sums, DataType.FLOAT), build.map_("mul", first, second))
    return build.cast(numbers, op.dtype)


def _placed(scale: Value, labels: tuple[int, ...], out: tuple[int, ...]) -> Value | None:
    """The scale of an operand beside the result; None where it differs among terms of one sum."""
    if any(d != 1 for d, label in zip(scale.shape, labels, strict=True) if label not in out):
        return None
    kept = sorted((k for k, label in enumerate(labels) if label in out), key=lambda k: out.index(labels[k]))
    turned = build.transpose(scale, [*kept, *(k for k in range(len(labels)) if k not in kept)])
    at = {labels[k]: scale.shape[k] for k in kept}
    return build.reshape(turned, tuple(at.get(label, 1) for label in out))


def _dequantised(value: Value) -> Codes | Fail:
    """The operand as codes and their scale, if it is made of them."""
    moves, at = list[Value](), value
    while _moves(at):
        moves.append(at)
        (at,) = at.args
    found = _product(at)
    for move in reversed(moves):
        if isinstance(found, Fail):
            return found
        found = _moved(found, move)
    return found


def _moves(value: Value) -> bool:
    """True for what passes elements on, as floats of another size perhaps."""
    match value.op:
        case View() | Reshape() | Pad() | Checked() | Map(fn="identity"):
            return True
        case Map(fn=fn):
            return fn == CAST and value.dtype in WIDE and value.args[0].dtype in WIDE
    return False


def _product(value: Value) -> Codes | Fail:
    """cast(codes) × scale, in either order."""
    if not isinstance(value.op, Map) or value.op.fn != "mul" or value.dtype is not DataType.FLOAT:
        return Fail("it is no product")
    for cast, scale in (value.args, value.args[::-1]):
        if not isinstance(cast.op, Map) or cast.op.fn != CAST or cast.args[0].dtype not in CODES:
            continue
        fits = all(s in (1, d) for s, d in zip(scale.shape, cast.shape, strict=True))
        if cast.shape == value.shape and fits:
            return Codes(build.cast(cast.args[0], DataType.INT8), scale)
    return Fail("neither factor is made of codes, of which there is one for each element")


def _moved(found: Codes, move: Value) -> Codes | Fail:
    """The same codes elsewhere, with their scale."""
    scale = found.scale
    match move.op:
        case Map():
            return found
        case Checked():
            return Codes(apply(move.op, found.codes), scale)
        case Pad(lo=lo, hi=hi, value=border):
            still = all((a, b) == (0, 0) or s == 1 for a, b, s in zip(lo, hi, scale.shape, strict=True))
            if border != 0 or not still:
                return Fail("the border is no 0, or along an axis where scales differ")
            return Codes(apply(move.op, found.codes), scale)
        case View(shape=shape, axes=axes):
            return Codes(apply(move.op, found.codes), _viewed(scale, shape, axes))
        case Reshape(shape=shape):
            sizes = _reshaped(found, shape)
            if isinstance(sizes, Fail):
                return sizes
            return Codes(apply(move.op, found.codes), build.reshape(scale, sizes))
    raise AssertionError(f"{move.op} moves nothing")


def _viewed(scale: Value, shape: Shape, axes: tuple[Axis, ...]) -> Value:
    own = tuple(a if d != 1 else Axis(0, None) for a, d in zip(axes, scale.shape, strict=True))
    read = {out for a in own for out, _ in a.terms}
    return apply(View(tuple(d if k in read else 1 for k, d in enumerate(shape)), own), scale)


def _reshaped(found: Codes, shape: Shape) -> Shape | Fail:
    """The sizes of a scale whose codes take `shape`."""
    sizes: list[Dim] = [1] * len(shape)
    for sources, targets in pieces(found.codes.shape, shape):
        differs = [found.scale.shape[k] != 1 for k in sources]
        if any(differs) and not all(differs):
            return Fail("axes are joined along one of which scales differ")
        for k in targets if any(differs) else ():
            sizes[k] = shape[k]
    return tuple(sizes)
