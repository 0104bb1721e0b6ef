"""Numbers that are codes times a scale, also after moves.

dequantised(pad((cast(q) − 3) × s))     ->     Codes(pad(q) with 3 in the border, s, 3)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.ir.graph import Shape, Value, apply
from anyrt.ir.rewrite import Fail
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.checked import Checked
from anyrt.prims.map import CAST, Map, fn_of
from anyrt.prims.pad import Pad
from anyrt.prims.reshape import Reshape, axis_groups
from anyrt.prims.view import Axis, View

WIDE: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})
CODES: Final = frozenset({DataType.INT8, DataType.INT4})


@dataclass(frozen=True, slots=True)
class Codes:
    """(`codes` − `zero`) × `scale`: codes are int8, the scale has size 1 along the axes where it is constant.
    zero: None if it is data, or not constant."""

    codes: Value
    scale: Value
    zero: int | None = 0


def dequantised(value: Value) -> Codes | Fail:
    """The operand as codes and their scale, if it is computed from them."""
    return moved(value, _product)


def moved(value: Value, recognise: Callable[[Value], Codes | Fail]) -> Codes | Fail:
    """The operand as codes with their scale and zero, which `recognise` finds before the moves."""
    moves, at = list[Value](), value
    while _moves(at):
        moves.append(at)
        at = at.args[0]
    codes = recognise(at)
    for move in reversed(moves):
        if isinstance(codes, Fail):
            return codes
        codes = _moved(codes, move)
    return codes


def _moves(value: Value) -> bool:
    """True for moves, and conversions between floats."""
    match value.op:
        case View() | Reshape() | Pad() | Checked() | Map(fn="identity"):
            return True
        case Map(fn=fn):
            return fn == CAST and value.dtype in WIDE and value.args[0].dtype in WIDE
    return False


def _product(value: Value) -> Codes | Fail:
    """(cast(codes) − zero) × scale, in either order."""
    if fn_of(value) != "mul" or value.dtype is not DataType.FLOAT:
        return Fail("it is no product")
    for steps, scale in (value.args, value.args[::-1]):
        codes, zero = _shifted(steps)
        if fn_of(codes) != CAST or codes.args[0].dtype not in CODES or codes.shape != value.shape:
            continue
        if zero == int(zero) and _stretches(scale, codes):
            return Codes(build.cast(codes.args[0], DataType.INT8), scale, int(zero))
    return Fail("neither factor is made of codes, of which there is one for each element")


def _stretches(scale: Value, codes: Value) -> bool:
    return all(s in (1, d) for s, d in zip(scale.shape, codes.shape, strict=True))


def _shifted(steps: Value) -> tuple[Value, float]:
    """The operand of a subtraction, and the number that is subtracted, 0 if there is none."""
    if fn_of(steps) == "sub":
        held = number(steps.args[1])
        if held is not None and abs(held) <= 128:
            return steps.args[0], held
    return steps, 0


def _moved(source: Codes, move: Value) -> Codes | Fail:
    """The same codes after a move, with their scale."""
    scale, zero = source.scale, source.zero
    match move.op:
        case Map():
            return source
        case Checked():
            return replace(source, codes=apply(move.op, source.codes, *move.args[1:]))
        case Pad() as op:
            return _padded(source, op)
        case View(shape=shape, axes=axes):
            return Codes(apply(move.op, source.codes), _viewed(scale, shape, axes), zero)
        case Reshape(shape=shape):
            sizes = _reshaped(source, shape)
            if isinstance(sizes, Fail):
                return sizes
            return Codes(apply(move.op, source.codes), build.reshape(scale, sizes), zero)
    raise AssertionError(f"{move.op} moves nothing")


def _padded(source: Codes, op: Pad) -> Codes | Fail:
    """Codes with a border, which has the code of zero."""
    sides = zip(op.lo, op.hi, source.scale.shape, strict=True)
    if op.value != 0 or source.zero is None or not all((a, b) == (0, 0) or s == 1 for a, b, s in sides):
        return Fail("the border is no 0, or zero is open, or scales differ along the axis")
    return replace(source, codes=apply(replace(op, value=float(source.zero)), source.codes))


def _viewed(scale: Value, shape: Shape, axes: tuple[Axis, ...]) -> Value:
    own = tuple(a if d != 1 else Axis(0, None) for a, d in zip(axes, scale.shape, strict=True))
    read = {out for a in own for out, _ in a.terms}
    return apply(View(tuple(d if k in read else 1 for k, d in enumerate(shape)), own), scale)


def _reshaped(source: Codes, shape: Shape) -> Shape | Fail:
    """The sizes of a scale whose codes take `shape`."""
    sizes: list[Dim] = [1] * len(shape)
    for sources, targets in axis_groups(source.codes.shape, shape):
        differs = [source.scale.shape[k] != 1 for k in sources]
        if any(differs) and not all(differs):
            return Fail("axes are joined along one of which scales differ")
        for k in targets if any(differs) else ():
            sizes[k] = shape[k]
    return tuple(sizes)


def placed(scale: Value, labels: tuple[int, ...], out: tuple[int, ...]) -> Value | None:
    """The scale of an operand in the shape of the result; None if it varies among terms of one sum."""
    if any(d != 1 for d, label in zip(scale.shape, labels, strict=True) if label not in out):
        return None
    kept = sorted((k for k, label in enumerate(labels) if label in out), key=lambda k: out.index(labels[k]))
    turned = build.transpose(scale, [*kept, *(k for k in range(len(labels)) if k not in kept)])
    at = {labels[k]: scale.shape[k] for k in kept}
    return build.reshape(turned, tuple(at.get(label, 1) for label in out))
