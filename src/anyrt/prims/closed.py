"""Elements of values that depend only on constants, and constants that replace them.

Passes create such values from weights. The constant keeps the computation as its origin, so a refit can
repeat it for other weights.

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


def evaluate(root: Value, inputs: Mapping[Value, Array] | None = None) -> Array:
    """The elements of `root`. A view of constants that only moves them has stored elements, which keeps every
    bit of a NaN; otherwise they are as the interpreter holds them. `inputs`: the stored elements of inputs.

    Floats are float64 until the end, except where a decision depends on them: an inference decides in
    float32, and the constant must equal the result of an inference."""
    stored: dict[Value, Array] = {**(inputs or {})}
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
            array = compute(value, tuple(args), {})
            wide[value] = widen(round_to(array, value.dtype), value.dtype) if value in narrow else array
    return wide[root] if root in wide else stored[root]


def _deciding(root: Value) -> set[Value]:
    """The float32 values from which integers or bools are computed."""
    deciding = set[Value]()
    for value in reversed(list(walk([root]))):
        decides = isinstance(value.op, Map) and (value.op.fn in WHOLE or not is_float(value.dtype))
        deciding.update(a for a in value.args if (decides or value in deciding) and a.dtype is DataType.FLOAT)
    return deciding


def rounded(array: Array, dtype: DataType) -> Array:
    """Evaluated elements, flat, in the form of a constant of the type."""
    return np.ascontiguousarray(round_to(array, dtype)).reshape(-1)


def constant(value: Value, name: str = "") -> Value:
    """`value`, which depends only on constants, as a constant."""
    array, origin = evaluate(value), _origin(value)
    if origin is None and not name:
        return build.const(array, value.dtype)
    return apply(Const(Blob(round_to(array, value.dtype), value.dtype, name, origin), array.shape))


def _origin(value: Value) -> Origin | None:
    below = [v.op.blob.origin for v in walk([value]) if isinstance(v.op, Const)]
    known = [origin for origin in below if origin is not None]
    return Origin(value, any(origin.is_free for origin in known)) if known else None


def _moves(op: Prim) -> bool:
    """True for values that compute nothing, so that references may receive stored elements."""
    match op:
        case Reshape() | View() | Pad() | Concat() | Checked() | Map(fn="identity" | "select"):
            return True
        case Taps(rule=rule):
            return not rule.weighs
    return False
