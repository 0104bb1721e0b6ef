"""Functions that apply primitives; the expansions of operators are written with them.

They check nothing themselves; the primitives' shape rules do.

>>> x = param("x", (2, 3), DataType.FLOAT)
>>> reduce_("sum", map_("mul", x, scalar(2.0, x)), (1,)).type
float[2, 1]
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from anyrt.core.dims import Dim, Sym, product
from anyrt.core.dtype import cast as round_to
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import Shape as Dims
from anyrt.ir.graph import Type, Value, apply
from anyrt.prims._check import VALUE_LIMIT, check_axis, show
from anyrt.prims.concat import Concat
from anyrt.prims.const import Blob, Const, Iota, Param, Shape
from anyrt.prims.contract import Contract
from anyrt.prims.gather import Gather
from anyrt.prims.map import CAST, NARROW, PATTERN, Map
from anyrt.prims.pad import Pad
from anyrt.prims.reduce import Reduce
from anyrt.prims.reshape import Reshape
from anyrt.prims.scalar import SCALARS
from anyrt.prims.scalar.table import ResultKind
from anyrt.prims.taps import TapRule, Taps
from anyrt.prims.view import Axis, View

# Short constants of equal content share a blob, so that nodes with them can be equal.
_SHORT: weakref.WeakValueDictionary[tuple[DataType, bytes], Blob] = weakref.WeakValueDictionary()


def const(array: ArrayLike, dtype: DataType) -> Value:
    """A constant; the array is converted to `dtype`, short ones share their blob."""
    elements = np.asarray(array)
    data = np.ascontiguousarray(round_to(elements, dtype)).reshape(-1)
    if data.size > VALUE_LIMIT:
        return apply(Const(Blob(data, dtype), elements.shape))
    blob = _SHORT.setdefault((dtype, data.tobytes()), Blob(data.copy(), dtype))
    return apply(Const(blob, elements.shape))


def scalar(x: float, like: Value) -> Value:
    """One number of the element type of `like`, shaped to broadcast with it."""
    return const(
        np.full((1,) * like.type.rank, x, np.float64 if isinstance(x, float) else np.int64), like.dtype
    )


def param(name: str, shape: Dims, dtype: DataType, dynamic_values: tuple[Sym, ...] = ()) -> Value:
    """An input of the graph."""
    return apply(Param(name, Type(shape, dtype), dynamic_values))


def iota(shape: Dims, axis: int, dtype: DataType) -> Value:
    """0, 1, 2, … along `axis`."""
    return apply(Iota(shape, axis, dtype))


def shape_of(v: Value) -> Value:
    """The sizes of `v` as int64."""
    return apply(Shape(v.shape))


def map_(fn: str, *values: Value) -> Value:
    """`fn` elementwise; the result has the operands' type, comparisons give bool."""
    compares = fn in SCALARS and SCALARS[fn].result is ResultKind.BOOL
    return apply(Map(fn, DataType.BOOL if compares else values[-1].dtype), *values)


def cast(v: Value, dtype: DataType) -> Value:
    """`v` as `dtype`; `v` itself when it has that type."""
    return v if v.dtype is dtype else apply(Map(CAST, dtype), v)


def converted(v: Value, dtype: DataType) -> Value:
    """`v` as `dtype`, with the conversions of layers: uint8 from a float is the lowest byte of its int32, and
    0 for negative numbers (260 becomes 4, -30 becomes 0; from 2³¹ on 255, NaN 0). float64 may be narrowed,
    since the network requests it. All other types convert as with `cast`."""
    if v.dtype is DataType.DOUBLE and is_float(dtype) and dtype is not v.dtype:
        return apply(Map(NARROW, dtype), v)
    if dtype is not DataType.UINT8 or not is_float(v.dtype):
        return cast(v, dtype)
    whole = cast(v, DataType.INT32)
    return cast(map_("max", whole, scalar(0, whole)), dtype)


def pattern(v: Value, dtype: DataType) -> Value:
    """The bits of `v` as another type of as many bits; `v` itself when it has that type."""
    return v if v.dtype is dtype else apply(Map(PATTERN, dtype), v)


def reduce_(fn: str, v: Value, axes: Sequence[int]) -> Value:
    """sum, prod, max or min over `axes`, which stay with size 1; `v` itself when there are none."""
    return apply(Reduce(fn, tuple(sorted(axes))), v) if axes else v


def contract(
    equation: str, a: Value, b: Value, dtype: DataType | None = None, *, hides: bool = False
) -> Value:
    """Sums of products in einsum notation, "mk,nk->mn"; of `dtype`, or of the operands' type. `hides`: where
    `a` is 0, `b` contributes nothing, even if it is NaN or infinite."""
    left, right, out = equation.replace("->", ",").split(",")
    label = {c: n for n, c in enumerate(dict.fromkeys(left + right))}
    labels = [tuple(label[c] for c in part) for part in (left, right, out)]
    return apply(Contract(labels[0], labels[1], labels[2], dtype or a.dtype, hides), a, b)


def windows(v: Value, axes: Sequence[Axis], shape: Dims) -> Value:
    """Elements of `v` at affine positions, one `Axis` for each of its axes."""
    return _view(v, shape, tuple(axes))


def reshape(v: Value, shape: Dims) -> Value:
    """The elements of `v` under another shape."""
    return v if shape == v.shape else apply(Reshape(shape), v)


def transpose(v: Value, perm: Sequence[int]) -> Value:
    """Output axis k is axis `perm[k]` of `v`."""
    shape = tuple(v.shape[k] for k in perm)
    return _view(v, shape, tuple(Axis(0, perm.index(k)) for k in range(v.type.rank)))


def expand(v: Value, shape: Dims) -> Value:
    """Axes of size 1 repeated; new axes of `shape` come first."""
    new = len(shape) - v.type.rank
    axes = (
        Axis(0, None) if d == 1 and shape[new + k] != 1 else Axis(0, new + k) for k, d in enumerate(v.shape)
    )
    return _view(v, shape, tuple(axes))


def slice_(v: Value, start: Sequence[Dim], size: Sequence[Dim], step: Sequence[Dim]) -> Value:
    """`size` elements along each axis from `start` on, with stride `step` (negative: backwards)."""
    pairs = zip(start, step, strict=True)
    return _view(v, tuple(size), tuple(Axis(s, k, t) for k, (s, t) in enumerate(pairs)))


def squeeze(v: Value, axes: Sequence[int]) -> Value:
    """`v` without `axes`, which have size 1."""
    for k in axes:
        check_axis(k, v.type.rank, "squeeze")
        if isinstance(v.shape[k], int) and v.shape[k] != 1:
            raise ShapeError("AR116", "squeeze", got=f"axis {k} of {show(v.shape)}", wanted="size 1")
    return reshape(v, tuple(d for k, d in enumerate(v.shape) if k not in axes))


def unsqueeze(v: Value, axes: Sequence[int]) -> Value:
    """`v` with new axes of size 1 at the positions `axes` of the result."""
    shape = list(v.shape)
    for k in sorted(axes):
        shape.insert(k, 1)
    return reshape(v, tuple(shape))


def pad(v: Value, lo: Sequence[Dim], hi: Sequence[Dim], value: float) -> Value:
    """A border of `value` around `v`."""
    same = all(b == 0 for b in (*lo, *hi))
    return v if same else apply(Pad(tuple(lo), tuple(hi), float(value)), v)


def concat(values: Sequence[Value], axis: int) -> Value:
    """All values in order along `axis`."""
    return values[0] if len(values) == 1 else apply(Concat(axis), *values)


def taps(v: Value, axis: int, size: Dim, rule: TapRule) -> Value:
    """`size` weighted sums of elements along `axis` by `rule`."""
    return apply(Taps(axis, size, rule), v)


def gather(v: Value, indices: Value, axis: int, guarded: bool = False) -> Value:
    """Elements of `v` along `axis` at the positions in `indices`, which have the other sizes of `v`."""
    return apply(Gather(axis, guarded), v, indices)


def identity(v: Value) -> Value:
    """A copy of `v` under its own name, for outputs that are inputs."""
    return apply(Map("identity", v.dtype), v)


def volume(v: Value) -> Dim:
    """Number of elements."""
    return product(v.shape)


def _view(v: Value, shape: Dims, axes: tuple[Axis, ...]) -> Value:
    same = shape == v.shape and axes == tuple(Axis(0, k) for k in range(v.type.rank))
    return v if same else apply(View(shape, axes), v)
