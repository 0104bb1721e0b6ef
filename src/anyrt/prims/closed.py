"""Elements of values that depend on constants alone, and constants in their place.

What the compiler makes of weights is such a value: so it is computed again for other weights by what it was
computed by first, which the constant keeps as its origin.

>>> from anyrt.core.enums import DataType
>>> evaluate(build.transpose(build.const([[1, 2, 3]], DataType.INT32), (1, 0))).tolist()
[[1], [2], [3]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from anyrt.core.dtype import cast as round_to
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply, walk
from anyrt.ir.interpret import compute
from anyrt.ir.prim import Array, Prim
from anyrt.ir.reference import widen
from anyrt.prims import build
from anyrt.prims.checked import Checked
from anyrt.prims.concat import Concat
from anyrt.prims.const import Blob, Const, Origin
from anyrt.prims.map import Map
from anyrt.prims.pad import Pad
from anyrt.prims.reshape import Reshape
from anyrt.prims.taps import Taps
from anyrt.prims.view import View

WHOLE: Final = frozenset({"floor", "ceil", "round", "trunc", "sign"})


def evaluate(root: Value, given: Mapping[Value, Array] | None = None) -> Array:
    """The elements of `root`, a view of constants where it only moves them: as they are stored while they are
    only moved, which keeps every bit of a NaN, else as the interpreter holds them. `given`: the elements of
    inputs, as they are stored.

    Floats are float64 until all is done, but for those by which something is decided: a run decides by
    float32, and the constant is what a run would give."""
    stored: dict[Value, Array] = {**(given or {})}
    wide: dict[Value, Array] = {}
    narrow = _deciding(root)
    for value in walk([root]):
        if value in stored:
            continue
        if isinstance(value.op, Const):
            stored[value] = value.op.blob.stored.reshape(value.op.shape)
        elif is_float(value.dtype) and _moves(value.op) and all(a in stored for a in value.args):
            stored[value] = compute(value, tuple(stored[a] for a in value.args), {})
        else:
            args = (wide[a] if a in wide else widen(stored[a], a.dtype) for a in value.args)
            made = compute(value, tuple(args), {})
            wide[value] = widen(round_to(made, value.dtype), value.dtype) if value in narrow else made
    return wide[root] if root in wide else stored[root]


def _deciding(root: Value) -> set[Value]:
    """The values of float32 from which whole numbers or bools are made."""
    found = set[Value]()
    for value in reversed(list(walk([root]))):
        decides = isinstance(value.op, Map) and (value.op.fn in WHOLE or not is_float(value.dtype))
        found.update(a for a in value.args if (decides or value in found) and a.dtype is DataType.FLOAT)
    return found


def rounded(array: Array, dtype: DataType) -> Array:
    """Elements that were evaluated, flat, as a constant of the type has them."""
    return np.ascontiguousarray(round_to(array, dtype)).reshape(-1)


def constant(value: Value, name: str = "") -> Value:
    """`value`, which depends on constants alone, as one of them."""
    array, origin = evaluate(value), _origin(value)
    if origin is None and not name:
        return build.const(array, value.dtype)
    return apply(Const(Blob(round_to(array, value.dtype), value.dtype, name, origin), array.shape))


def _origin(value: Value) -> Origin | None:
    below = [v.op.blob.origin for v in walk([value]) if isinstance(v.op, Const)]
    known = [origin for origin in below if origin is not None]
    return Origin(value, any(origin.is_free for origin in known)) if known else None


def _moves(op: Prim) -> bool:
    """True for what computes nothing, so that references may be given stored elements."""
    match op:
        case Reshape() | View() | Pad() | Concat() | Checked() | Map(fn="identity" | "select"):
            return True
        case Taps(rule=rule):
            return not rule.weighs
    return False
