"""Slice: a strided window; only in mode STRICT_BOUNDS must it lie inside the input.

add_slice(x, start=(0, 2), shape=(3, 2), stride=(1, 2))      # x[0:3, 2:6:2]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, add, always_le, maximum, minimum, mul, product
from anyrt.core.enums import DataType, LayerType, SampleMode
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, check_axis, checked, need, normalized_axes, show
from anyrt.ops._elements import vector, with_counts
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, STORAGE
from anyrt.prims.build import const, identity, map_, pad, reshape, slice_, taps
from anyrt.prims.build import expand as repeat
from anyrt.prims.const import Const
from anyrt.prims.taprules import Border

M = SampleMode
FAR = 2**31 - 1  # kernels compute positions in 32 bits: from -FAR to FAR


@dataclass(frozen=True, slots=True)
class SliceAttrs(Attrs):
    """Attributes of Slice; connected inputs of the same names replace them."""

    start: tuple[int, ...] | None = attr(Kind.DIMS, "first position on each axis", None, drops=1)
    shape: tuple[int, ...] | None = attr(Kind.DIMS, "size of the output on each axis", None, drops=2)
    stride: tuple[int, ...] | None = attr(
        Kind.DIMS, "distance between positions; negative: backwards, 0: the same position", None, drops=3
    )
    mode: SampleMode = attr(
        Kind.ENUM, "result for positions outside the input", M.STRICT_BOUNDS, enum=SampleMode
    )
    axes: tuple[int, ...] | None = attr(
        Kind.DIMS, "axes of start, shape and stride; unset: all", None, drops=5
    )


@dataclass(frozen=True, slots=True)
class Window:
    """The positions of one axis: `start + step·i` for i < `size`, on an input axis of `length`."""

    start: Dim
    size: Dim
    step: Dim
    length: Dim

    @property
    def last(self) -> Dim:
        """The last position."""
        return add(self.start, mul(self.step, add(self.size, -1)))

    @property
    def low(self) -> Dim:
        """The lowest position."""
        return minimum(self.start, self.last)

    @property
    def high(self) -> Dim:
        """The highest position."""
        return maximum(self.start, self.last)

    @property
    def inside(self) -> bool:
        """Whether every position is known to lie in the input."""
        return always_le(0, self.low) and always_le(add(self.high, 1), self.length)


def expand(layer: Layer[SliceAttrs]) -> tuple[Value, ...]:
    """A `View` for positions inside the input, `Taps` for WRAP, CLAMP and REFLECT, and a `Pad`
    for FILL."""
    x, mode = layer.input(0), layer.attrs.mode
    windows, rules = _windows(layer, x)
    if layer.optional(4) is not None and mode is not M.FILL:
        do = "remove input 4 or set mode to FILL"
        raise ArgumentError("AR304", layer.name, f"a fill value in mode {mode.name}", "mode FILL", do)
    if mode is not M.STRICT_BOUNDS:
        rules += tuple(r for axis, w in enumerate(windows) for r in _near(layer, axis, w))
    match mode:
        case M.STRICT_BOUNDS:
            y = _strict(layer, x, windows)
        case M.FILL:
            y = _filled(layer, x, windows)
        case _:
            y, more = _bordered(layer, x, windows)
            rules += more
    return (with_counts(layer, checked(identity(y) if y == x else y, rules), *WINDOW),)


WINDOW = (1, 2, 3)  # operands: start, size and stride


def _windows(layer: Layer[SliceAttrs], x: Value) -> tuple[list[Window], Requirements]:
    elements = _elements(layer, 5, "axes", layer.attrs.axes)
    axes = range(x.type.rank) if elements is None else _axes(layer, elements, x.type.rank)
    starts, sizes, steps = (
        _one_each(layer, i, name, value, len(axes))
        for i, name, value in (
            (1, "start", layer.attrs.start),
            (2, "shape", layer.attrs.shape),
            (3, "stride", layer.attrs.stride),
        )
    )
    windows = [Window(0, d, 1, d) for d in x.shape]
    rules: Requirements = ()
    for axis, start, size, step in zip(axes, starts, sizes, steps, strict=True):
        got, do = f"size {size} for axis {axis}", "pass sizes of 0 or more"
        rules += need(layer.name, 0, Relation.LE, size, "AR120", got, "a size of 0 or more", do)
        windows[axis] = Window(start, size, step, x.shape[axis])
    return windows, rules


def _elements(
    layer: Layer[SliceAttrs], i: int, name: str, static: tuple[int, ...] | None
) -> tuple[Dim, ...] | None:
    value = layer.optional(i)
    return static if value is None else vector(layer, i, name)


def _axes(layer: Layer[SliceAttrs], elements: tuple[Dim, ...], rank: int) -> tuple[int, ...]:
    axes = tuple(a for a in elements if isinstance(a, int))
    if len(axes) < len(elements):
        raise ShapeError(
            "AR121", layer.name, "axes that are not constant", "build-time constants", "use a constant"
        )
    for axis in axes:
        check_axis(layer.name, axis, rank)
    return normalized_axes(layer.name, axes, rank)


def _one_each(
    layer: Layer[SliceAttrs], i: int, name: str, static: tuple[int, ...] | None, count: int
) -> tuple[Dim, ...]:
    values = _elements(layer, i, name, static)
    if values is None:
        raise ArgumentError("AR306", layer.name, f"no {name}", "one value for each axis", f"set {name}")
    if len(values) != count:
        got, do = f"{name} {show(values)}", "pass one value for each sliced axis"
        raise ShapeError("AR108", layer.name, got, f"{count} values", do)
    return values


def _strict(layer: Layer[SliceAttrs], x: Value, windows: list[Window]) -> Value:
    for axis, w in enumerate(windows):
        if always_le(1, w.size) and (always_le(w.length, w.high) or always_le(w.low, -1)):
            got = f"positions {w.start} to {w.last} of axis {axis}, whose size is {w.length}"
            do = "change the window or the mode"
            raise ShapeError("AR114", layer.name, got, "positions inside the input", do)
    return slice_(x, [w.start for w in windows], [w.size for w in windows], [w.step for w in windows])


def _near(layer: Layer[SliceAttrs], axis: int, w: Window) -> Requirements:
    """The condition that every position fits in 32 bits, if any is read."""
    if w.size == 0 or w.inside:
        return ()
    got, do = f"positions {w.start} to {w.last} of axis {axis}", "move start nearer to the input"
    wanted = f"positions from -{FAR} to {FAR}"
    rules = need(layer.name, -FAR, Relation.LE, w.low, "AR125", got, wanted, do)
    return rules + need(layer.name, w.high, Relation.LE, FAR, "AR125", got, wanted, do)


def _bordered(layer: Layer[SliceAttrs], x: Value, windows: list[Window]) -> tuple[Value, Requirements]:
    """WRAP, CLAMP and REFLECT: a view for axes whose positions lie inside, one `Taps` for each other."""
    rules: Requirements = ()
    viewed = [w if w.inside else Window(0, w.length, 1, w.length) for w in windows]
    y = slice_(x, [w.start for w in viewed], [w.size for w in viewed], [w.step for w in viewed])
    for axis, w in enumerate(windows):
        if w.inside:
            continue
        got = f"size {w.size} for the empty axis {axis} in mode {layer.attrs.mode.name}"
        do = "set the size to 0, or use mode FILL"
        some = minimum(w.size, 1)
        rules += need(layer.name, some, Relation.LE, w.length, "AR114", got, "an axis with elements", do)
        y = taps(y, axis, w.size, Border(layer.attrs.mode, w.start, w.step))
    return y, rules


def _filled(layer: Layer[SliceAttrs], x: Value, windows: list[Window]) -> Value:
    """A view of the padded input; a fill value that a `Pad` cannot represent is selected by a mask."""
    fill, rank = layer.optional(4), x.type.rank
    if fill is not None:
        got, many = f"a fill value of shape {show(fill.shape)}", product(fill.shape)
        rules = need(layer.name, many, Relation.EQ, 1, "AR123", got, "one element", "pass a single value")
        fill = checked(fill, rules)
    lo = [0 if w.inside else maximum(0, mul(w.low, -1)) for w in windows]
    hi = [0 if w.inside else maximum(0, add(add(w.high, 1), mul(w.length, -1))) for w in windows]

    def window(value: Value, border: float) -> Value:
        starts = [add(w.start, before) for w, before in zip(windows, lo, strict=True)]
        padded = pad(value, lo, hi, border)
        return slice_(padded, starts, [w.size for w in windows], [w.step for w in windows])

    constant = 0.0 if fill is None else _constant(fill)
    if constant is not None or fill is None or all(w.inside for w in windows):
        return window(x, constant or 0.0)
    mask = window(repeat(const(np.ones((1,) * rank, bool), DataType.BOOL), x.shape), 0.0)
    return map_("select", mask, window(x, 0.0), reshape(fill, (1,) * rank))


def _constant(fill: Value) -> float | None:
    """The constant, if a `Pad` represents it exactly: not NaN, −0, or a large integer."""
    if not isinstance(fill.op, Const):
        return None
    number = fill.op.blob.fixed().item()
    exact = float(number) == number and math.copysign(1, float(number)) == (-1 if number < 0 else 1)
    return float(number) if exact else None


def ref(attrs: SliceAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Axis by axis: the elements at the positions, mapped by the mode, or the fill value."""
    x = arrays[0]
    extra = [*arrays[1:], *(ABSENT,) * 5][:5]
    static = (attrs.start, attrs.shape, attrs.stride, attrs.axes or tuple(range(x.ndim)))
    start, shape, stride, axes = (
        tuple(a.tolist()) if a is not ABSENT else s or ()
        for a, s in zip((*extra[:3], extra[4]), static, strict=True)
    )
    fill = extra[3] if extra[3] is not ABSENT else np.zeros((), x.dtype)
    for axis, first, size, step in zip(axes, start, shape, stride, strict=True):
        places = [BRING[attrs.mode](first + step * i, x.shape[axis]) for i in range(size)]
        nothing = np.take(x, np.array([], np.int64), axis)
        x = np.concatenate([nothing, *(_row(x, axis, p, fill) for p in places)], axis)
    return (x,)


def _row(x: Array, axis: int, position: int | None, fill: Array) -> Array:
    if position is not None:
        return np.take(x, np.array([position]), axis)
    shape = list(x.shape)
    shape[axis] = 1
    return np.full(shape, fill.reshape(()), x.dtype)


def _reflect(p: int, n: int) -> int:
    if n == 1:
        return 0
    c = abs(p) % (2 * n - 2)
    return 2 * n - 2 - c if c >= n else c


BRING = {
    M.STRICT_BOUNDS: lambda p, n: p,
    M.WRAP: lambda p, n: p % n,
    M.CLAMP: lambda p, n: min(max(p, 0), n - 1),
    M.FILL: lambda p, n: p if 0 <= p < n else None,
    M.REFLECT: _reflect,
}


def dla(layer: Layer[SliceAttrs]) -> str | None:
    """None for float16, 4 dimensions, constant attributes, stride 1 and a whole batch axis."""
    attrs, x = layer.attrs, layer.input(0)
    if x.dtype is DataType.INT8:
        return "DLA slices float16 only"
    if x.type.rank != 4 or any(layer.optional(i) is not None for i in range(1, 6)):
        return "DLA slices 4 dimensions with constant start, shape and stride, and fills with 0"
    if attrs.mode not in (M.STRICT_BOUNDS, M.WRAP, M.FILL):
        return f"DLA does not slice in mode {attrs.mode.name}"
    windows, _ = _windows(layer, x)
    if any(w.step != 1 for w in windows):
        return "DLA slices with stride 1 only"
    first = windows[0]
    return None if (first.start, first.size) == (0, first.length) else "DLA does not slice axis 0"


def cases() -> tuple[Case[SliceAttrs], ...]:
    """Every mode and type; strides of every sign; axes; inputs for attributes; fill values; empty tensors."""
    s = SliceAttrs
    modes = (M.WRAP, M.CLAMP, M.FILL, M.REFLECT)
    out = [Case(s((0, 1), (2, 3), (1, 2)), ((3, 7),), (t,)) for t in sorted(STORAGE, key=int)]
    out += [
        Case(s((-2, 1), (5, 3), (1, 2), m), ((3, 5),), (t,)) for m in modes for t in sorted(STORAGE, key=int)
    ]
    out += [
        Case(s((start, 0), (size, 2), (step, 1), m), ((n, 2),))
        for m in modes
        for n, start, size, step in (
            (3, 7, 9, -2),
            (1, -2, 5, 1),
            (5, -9, 17, 3),
            (5, 2, 3, 0),
            (5, 9, 2, 0),
            (2, 0, 0, 1),
        )
    ]
    plain = [
        (s((6,), (4,), (-2,)), (7,)),
        (s((2,), (5,), (0,)), (3,)),
        (s((0, 0), (0, 2), (1, 1)), (3, 2)),
        (s((5,), (0,), (1,)), (3,)),
        (s((), (), ()), ()),
        (s((1,), (2,), (1,), axes=(1,)), (2, 3)),
        (s((1, 0), (2, 1), (1, 1), axes=(2, 0)), (2, 3, 5)),
        (s((0,) * 8, (1,) * 8, (1,) * 8), (1, 2, 1, 2, 1, 3, 1, 2)),
        (s((-1,), (3,), (1,), M.FILL), (0,)),
        (s((0, 0), (3, 2), (1, 1)), (3, 2)),
    ]
    out += [Case(attrs, (shape,)) for attrs, shape in plain]
    f, i = DataType.FLOAT, DataType.INT64
    run = (np.array([1, 0]), np.array([2, 2]), np.array([1, 2]))
    out += [
        Case(s(None, None, None, m), ((3, 4), (2,), (2,), (2,)), (f, i, DataType.INT32, i), (None, *run))
        for m in SampleMode
    ]
    below = np.array([-2, 3])
    out += [Case(s(None, (4, 3), (1, -1), m), ((3, 4), (2,)), (f, i), (None, below)) for m in modes]
    out += [
        Case(
            s((-1, 0), (5, 3), (1, 2), M.FILL), ((3, 4), None, None, None, ()), (t, t, t, t, t), low=1, high=5
        )
        for t in (DataType.FLOAT, DataType.INT32, DataType.INT64, DataType.BOOL, DataType.HALF)
    ]
    out += [
        Case(s((-1, 0), (5, 3), (1, 2), M.FILL), ((3, 4), None, None, None, one), (f,) * 5, low=1, high=5)
        for one in ((1,), (1, 1), (1, 1, 1))
    ]
    out.append(
        Case(s((1,), (2,), (1,)), ((2, 3), None, None, None, None, (1,)), (f, i, i, i, f, i),
             (None,) * 5 + (np.array([1]),), static_only=True)  # axes are constants
    )  # fmt: skip
    out.append(Case(s((0,), (3,), (2,)), ((7,),), (DataType.INT8,), low=-100, high=100, int8=((0.5,), 0.25)))
    return tuple(out)


def mistakes() -> tuple[Mistake[SliceAttrs], ...]:
    """Wrong bounds, numbers of values, axes and fill values."""
    s, x, f = SliceAttrs, ((3, 4),), DataType.FLOAT
    fill = ((3, 4), None, None, None, ())
    run, ints = ((3, 4), (2,)), (f, DataType.INT64)
    far = (None, np.array([2, 0]))
    return (
        Mistake("AR114", "a window beyond the input in STRICT_BOUNDS", s((2, 0), (2, 4), (1, 1)), x),
        Mistake("AR114", "a window beyond the input, even if another axis is empty",
                s((2, 0), (2, 0), (1, 1)), x),
        Mistake("AR114", "a negative position in STRICT_BOUNDS", s((1, 0), (3, 4), (-1, 1)), x),
        Mistake("AR114", "CLAMP, REFLECT or WRAP of an empty axis", s((0,), (2,), (1,), M.CLAMP), ((0,),)),
        Mistake("AR125", "a position beyond 32 bits", s((0, 0), (2, 4), (2**33, 1), M.FILL), x),
        Mistake("AR108", "start, shape or stride of a wrong length", s((0,), (2, 2), (1, 1)), x),
        Mistake("AR306", "no start, shape or stride", s(None, (2, 2), (1, 1)), x),
        Mistake("AR120", "a negative size", s((0, 0), (-1, 2), (1, 1)), x),
        Mistake("AR303", "an axis outside the rank", s((0,), (1,), (1,), axes=(2,)), x),
        Mistake("AR305", "a repeated axis", s((0, 0), (1, 1), (1, 1), axes=(1, 1)), x),
        Mistake("AR304", "a fill value in a mode other than FILL", s((0, 0), (1, 1), (1, 1)), fill),
        Mistake("AR203", "a fill value of a different type", s((0, 0), (5, 1), (1, 1), M.FILL), fill,
                (f, f, f, f, DataType.HALF)),
        Mistake("AR123", "a fill value of more than one element", s((0, 0), (5, 1), (1, 1), M.FILL),
                ((3, 4), None, None, None, (2,))),
        Mistake("AR202", "an unsupported element type", s((0, 0), (1, 1), (1, 1)), x, (DataType.E8M0,)),
        Mistake("AR114", "a window beyond the input at run time", s(None, (2, 4), (1, 1)), run, ints,
                far, True),
        Mistake("AR114", "a window beyond the input at run time, even if another axis is empty",
                s(None, (2, 0), (1, 1)), run, ints, far, True),
        Mistake("AR120", "a negative size at run time", s((0, 0), None, (1, 1)), ((3, 4), None, (2,)),
                (f, f, DataType.INT64), (None, None, np.array([-1, 2])), True),
        Mistake("AR125", "a position beyond 32 bits at run time", s(None, (2, 4), (1, 1), M.WRAP), run,
                ints, (None, np.array([-(2**31), 0])), True),
        Mistake("AR114", "WRAP, empty axis, at run time", s((0,), (2,), (1,), M.WRAP), ((0,),), dynamic=True),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.SLICE,
        cls="ISliceLayer",
        methods=(
            Method(
                "add_slice",
                ("input", "start", "shape", "stride"),
                example="layer = network.add_slice(x, (0, 0, 0, 1), (1, 3, 4, 2), (1, 1, 1, 2))",
            ),
        ),
        inputs=(
            Input("input", STORAGE),
            Input("start", INTS, required=False, shape_values=True, clears=("start",)),
            Input("size", INTS, required=False, shape_values=True, clears=("shape",)),
            Input("stride", INTS, required=False, shape_values=True, clears=("stride",)),
            Input("fill", STORAGE, required=False, same_as=0),
            Input("axes", INTS, required=False, shape_values=True, build_time=True, clears=("axes",)),
        ),
        attrs=SliceAttrs,
        expand=expand,
        ref=ref,
        doc="Output position i reads start + stride·i on every sliced axis. For a position outside the "
        "input, STRICT_BOUNDS raises an error, even if another axis is empty; WRAP continues at the other "
        "end, CLAMP repeats the edge, REFLECT mirrors without repeating the edge, and FILL returns the fill "
        "value (one element, of any rank) or 0. uint8 and fp4, and CLAMP, FILL and REFLECT of int64 and "
        "bfloat16, are extensions.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Slice", "Pad", "Expand", "TRT_Slice"),
        source="operator page Slice",
    ),
)
