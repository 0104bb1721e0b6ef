"""The building blocks of models: a form adds an operator with random types, sizes and attributes, and its
operands.

FORMS["Conv"](grower)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tools.fuzz.grow import FLOATS, INTS, NUMPY, ONNX, Grower, Tensor, Unfit, values

Form = Callable[[Grower], Any]
FORMS: dict[str, Form] = {}
NUMBERS = (0.0, 0.01, 0.2, 0.5, 1.0, 1.5, 2.0, -0.5, -1.0, 10.0)

UNARY = [
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh",
    "Erf", "Exp", "Floor", "HardSwish", "Identity", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal",
    "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
    "Size", "NonZero",
]  # fmt: skip
BINARY = [
    "Add", "Sub", "Mul", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual",
    "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
]  # fmt: skip
FOLDS = [
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
]  # fmt: skip
# Attributes of operators with one input, and their values; None leaves the default.
SHAPED: dict[str, dict[str, tuple[Any, ...]]] = {
    "Elu": {"alpha": (None, *NUMBERS)},
    "Selu": {"alpha": (None, *NUMBERS), "gamma": (None, *NUMBERS)},
    "Celu": {"alpha": (None, 0.3, 2.0, 1.0)},
    "LeakyRelu": {"alpha": (None, *NUMBERS)},
    "ThresholdedRelu": {"alpha": (None, *NUMBERS)},
    "HardSigmoid": {"alpha": (None, *NUMBERS), "beta": (None, *NUMBERS)},
    "Shrink": {"lambd": (None, *NUMBERS), "bias": (None, *NUMBERS)},
    "Gelu": {"approximate": (None, "none", "tanh")},
    "IsInf": {"detect_negative": (None, 0, 1), "detect_positive": (None, 0, 1)},
    "Det": {},
    "GlobalAveragePool": {}, "GlobalMaxPool": {},
    "SpaceToDepth": {"blocksize": (1, 2, 3)},
    "DepthToSpace": {"blocksize": (1, 2), "mode": (None, "DCR", "CRD")},
}  # fmt: skip
ALONG = {
    "Softmax": {}, "LogSoftmax": {}, "Hardmax": {},
    "LpNormalization": {"p": (None, 1, 2)},
    "Flatten": {},
    "ArgMax": {"keepdims": (None, 0, 1), "select_last_index": (None, 0, 1)},
    "ArgMin": {"keepdims": (None, 0, 1), "select_last_index": (None, 0, 1)},
}  # fmt: skip


def form(name: str) -> Callable[[Form], Form]:
    """Register a form for its operator."""

    def keep(built: Form) -> Form:
        FORMS[name] = built
        return built

    return keep


def drawn(g: Grower, table: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: g.pick(*choices) for name, choices in table.items()}


def kinds(g: Grower, op: str) -> list[str]:
    """The types that an operator accepts in the model's opset."""
    try:
        result = g.types(op)
    except Exception:
        raise Unfit(f"{op} is newer") from None
    if not result:
        raise Unfit(f"{op} has no types")
    return result


def _unary(op: str) -> Form:
    return lambda g: g.node(op, [g.tensor(kinds(g, op))])


def _binary(op: str) -> Form:
    def add(g: Grower) -> None:
        x = g.tensor(kinds(g, op))
        y = g.like(x)
        g.node(op, [x, y] if g.some() else [y, x])

    return add


def _fold(op: str) -> Form:
    def add(g: Grower) -> None:
        x = g.tensor(kinds(g, op))
        keep = g.pick(None, 0, 1)
        axes = g.axes(x.rank) if x.rank and g.some(0.8) else []
        by_input = g.opset >= 18 or op == "ReduceSum"
        if not by_input:
            g.node(op, [x], axes=axes or None, keepdims=keep)
        elif not axes and g.some():
            g.node(op, [x], keepdims=keep, noop_with_empty_axes=g.pick(None, 0, 1))
        else:
            noop = g.pick(None, 0, 1)
            g.node(op, [x, g.operand(np.array(axes, np.int64))], keepdims=keep, noop_with_empty_axes=noop)

    return add


def _shaped(op: str) -> Form:
    def add(g: Grower) -> None:
        low, high = {"Det": (2, 4), "SpaceToDepth": (4, 4), "DepthToSpace": (4, 4)}.get(op, (0, 4))
        low = 3 if op.startswith("Global") else low
        shape = None
        attributes = drawn(g, SHAPED[op])
        block = attributes.get("blocksize", 1)
        if op == "Det":
            shape = (*g.shape(0, 2), *[g.int(1, 4)] * 2)
        if op == "SpaceToDepth":
            shape = (g.int(1, 2), g.int(1, 3), block * g.int(1, 3), block * g.int(1, 3))
        if op == "DepthToSpace":
            shape = (g.int(1, 2), block**2 * g.int(1, 3), g.int(1, 3), g.int(1, 3))
        g.node(op, [g.tensor(kinds(g, op), low, high, shape, op == "Det")], **attributes)

    return add


def _along(op: str) -> Form:
    def add(g: Grower) -> None:
        x = g.tensor(kinds(g, op), 1)
        if 0 in x.shape and op.startswith("Arg"):
            raise Unfit("nothing to choose from")
        g.node(op, [x], axis=g.pick(None, g.axis(x.rank)), **drawn(g, ALONG[op]))

    return add


for _op in UNARY:
    FORMS[_op] = _unary(_op)
for _op in BINARY:
    FORMS[_op] = _binary(_op)
for _op in FOLDS:
    FORMS[_op] = _fold(_op)
for _op in SHAPED:
    FORMS[_op] = _shaped(_op)
for _op in ALONG:
    FORMS[_op] = _along(_op)


# ---- elements


@form("Div")
def _div(g: Grower) -> None:
    x = g.tensor(kinds(g, "Div"))
    g.node("Div", [x, _divisor(g, x)])


def _divisor(g: Grower, x: Tensor) -> Tensor:
    """Integers other than 0, which is undefined, and −1, whose quotient of the least integer overflows."""
    if x.type in FLOATS:
        return g.like(x)
    y = values(g.dice, [1 if g.some(0.3) else n for n in x.shape], x.type, "usual")
    return g.constant(
        np.where((y == 0) | (y.astype(np.int64) == -1), np.array(3, y.dtype), y).astype(y.dtype)
    )


@form("Mod")
def _mod(g: Grower) -> None:
    x = g.tensor(kinds(g, "Mod"))
    fmod = 1 if x.type in FLOATS else g.pick(None, 0, 1)
    g.node("Mod", [x, _divisor(g, x)], fmod=fmod)


@form("BitShift")
def _shift(g: Grower) -> None:
    x = g.tensor(kinds(g, "BitShift"))
    bits = x.array.dtype.itemsize * 8
    y = np.random.default_rng(g.int(0, 99)).integers(0, bits, x.shape).astype(x.array.dtype)
    g.node("BitShift", [x, g.constant(y)], direction=g.pick("LEFT", "RIGHT"))


def _variadic(op: str) -> Form:
    def add(g: Grower) -> None:
        x = g.tensor(kinds(g, op))
        g.node(op, [x, *[g.like(x) for _ in range(g.int(0, 3))]])

    return add


for _op in ("Max", "Min", "Sum", "Mean"):
    FORMS[_op] = _variadic(_op)


@form("PRelu")
def _prelu(g: Grower) -> None:
    x = g.tensor(kinds(g, "PRelu"), 1)
    g.node("PRelu", [x, g.fresh(x.type, [1 if g.some(0.4) else n for n in x.shape][g.int(0, x.rank - 1) :])])


@form("Where")
def _where(g: Grower) -> None:
    x = g.tensor(kinds(g, "Where"))
    g.node("Where", [g.tensor(["bool"], shape=[1 if g.some(0.3) else n for n in x.shape]), x, g.like(x)])


@form("Clip")
def _clip(g: Grower) -> None:
    x = g.tensor(kinds(g, "Clip"))
    low, high = (g.constant(values(g.dice, (), x.type, g.mood)) if g.some(0.7) else None for _ in "ab")
    g.node("Clip", [x, low, high] if high is not None else [x, low] if low is not None else [x])


@form("Cast")
def _cast(g: Grower) -> None:
    x = g.tensor(list(NUMPY))
    to = g.pick(*NUMPY)
    if x.type in FLOATS and to in INTS:  # out-of-range values are undefined
        info, wide = np.iinfo(NUMPY[to]), x.array.astype(np.float64)
        if not np.all((wide > info.min - 1) & (wide < float(info.max))):
            raise Unfit("undefined")
    g.node("Cast", [x], to=ONNX[to])


@form("CastLike")
def _cast_like(g: Grower) -> None:
    x = g.tensor([*FLOATS, "bool"])
    g.node("CastLike", [x, g.fresh(g.pick(*FLOATS, "bool"), g.shape())])


@form("CumSum")
def _cumsum(g: Grower) -> None:
    x = g.tensor(kinds(g, "CumSum"), 1)
    axis = g.operand(np.array(g.axis(x.rank), g.pick(np.int64, np.int32)))
    g.node("CumSum", [x, axis], exclusive=g.pick(None, 0, 1), reverse=g.pick(None, 0, 1))


@form("TopK")
def _topk(g: Grower) -> None:
    x = g.tensor(kinds(g, "TopK"), 1)
    axis = g.axis(x.rank)
    if not x.shape[axis]:
        raise Unfit("nothing to choose from")
    k = g.operand(np.array([g.int(1, x.shape[axis])], np.int64))
    g.node(
        "TopK",
        [x, k],
        2,
        axis=g.pick(axis, axis, None if axis in (-1, x.rank - 1) else axis),
        largest=g.pick(None, 0, 1),
    )


@form("OneHot")
def _one_hot(g: Grower) -> None:
    depth = g.int(1, 6)
    x = g.tensor(["int64", "int32"], 0, 3)
    both = values(
        g.dice, (2,), g.pick("float", "double", "int64", "int32", "float16", "int8", "bool"), "usual"
    )
    g.node(
        "OneHot",
        [x, g.operand(np.array(depth, np.int64)), g.constant(both)],
        axis=g.pick(None, g.axis(x.rank + 1)),
    )


@form("Trilu")
def _trilu(g: Grower) -> None:
    x = g.tensor(kinds(g, "Trilu"), 2)
    k = [g.operand(np.array(g.int(-5, 5), np.int64))] if g.some(0.7) else []
    g.node("Trilu", [x, *k], upper=g.pick(None, 0, 1))


@form("EyeLike")
def _eye(g: Grower) -> None:
    x = g.tensor(kinds(g, "EyeLike"), 2, 2)
    g.node(
        "EyeLike",
        [x],
        k=g.pick(None, -2, 0, 1, 9),
        dtype=g.pick(None, ONNX["float"], ONNX["int64"], ONNX["double"]),
    )


@form("Range")
def _range(g: Grower) -> None:
    kind = g.pick(*kinds(g, "Range"))
    step = g.pick(1, 2, 3, -1, -2)
    start = g.int(-5, 5)
    end = start + step * g.int(-1, 9) + g.pick(0, 0, 1)
    g.node("Range", [g.operand(np.array(v, NUMPY[kind])) for v in (start, end, step)])


@form("ConstantOfShape")
def _constant_of_shape(g: Grower) -> None:
    import onnx

    kind = g.pick("float", "double", "float16", "int64", "int32", "int8", "uint8", "bool")
    value = onnx.numpy_helper.from_array(values(g.dice, (1,), kind, g.mood))
    g.node("ConstantOfShape", [g.operand(np.array(g.shape(0, 3), np.int64))], value=g.pick(None, value))


@form("Unique")
def _unique(g: Grower) -> None:
    x = g.tensor([k for k in kinds(g, "Unique") if k not in FLOATS] + ["float"], 1, 3)
    if x.array.dtype.kind == "f" and np.isnan(x.array).any():
        raise Unfit("NaN are one or many")
    g.node("Unique", [x], 4, axis=g.pick(None, g.axis(x.rank)), sorted=g.pick(None, 0, 1))


@form("Dropout")
def _dropout(g: Grower) -> None:
    g.node("Dropout", [g.tensor(kinds(g, "Dropout"))], g.pick(1, 2))


# ---- places


@form("Shape")
def _shape(g: Grower) -> None:
    x = g.tensor(list(NUMPY))
    y = g.node("Shape", [x], start=g.pick(None, g.int(-5, 5)), end=g.pick(None, g.int(-5, 5)))[0]
    if g.some(0.4):
        other = g.constant(np.arange(1, y.array.size + 1))
        g.node(g.pick("Add", "Mul", "Div"), [y, other])


@form("Reshape")
def _reshape(g: Grower) -> None:
    x = g.tensor(list(NUMPY))
    sizes, left = [], x.array.size
    while left > 1 and len(sizes) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        sizes.append(g.dice.choice(divisors))
        left //= sizes[-1]
    sizes += [left] if left != 1 or g.some(0.2) else []
    if sizes and x.array.size and g.some(0.6):
        sizes[g.int(0, len(sizes) - 1)] = -1
    zero = g.pick(None, 0, 1)
    for i, n in enumerate(x.shape[: len(sizes)]):
        if sizes[i] == n and n and not zero and g.some():
            sizes[i] = 0
    g.node("Reshape", [x, g.operand(np.array(sizes, np.int64))], allowzero=zero)


@form("Transpose")
def _transpose(g: Grower) -> None:
    x = g.tensor(list(NUMPY))
    g.node("Transpose", [x], perm=g.pick(None, g.dice.sample(range(x.rank), x.rank)))


@form("Concat")
def _concat(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1)
    axis = g.axis(x.rank)
    more = []
    for _ in range(g.int(0, 3)):
        shape = list(x.shape)
        shape[axis] = g.int(0 if g.some(0.1) else 1, 5)
        more.append(g.fresh(x.type, shape))
    parts = [x, *more, *([x] if g.some(0.2) else [])]
    g.dice.shuffle(parts)
    g.node("Concat", parts, axis=axis)


@form("Split")
def _split(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1)
    axis = g.axis(x.rank)
    size, count = x.shape[axis], g.int(1, 3)
    if g.opset >= 18 and g.some(0.4):
        g.node("Split", [x], count, axis=axis, num_outputs=count)
        return
    cuts = sorted(g.int(0, size) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, size]).astype(np.int64)
    g.node("Split", [x, g.operand(sizes)], count, axis=g.pick(axis, None) if axis == 0 else axis)


@form("Slice")
def _slice(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1)
    axes = g.axes(x.rank)
    index = g.pick(np.int64, np.int32)
    far = (np.iinfo(index).max, np.iinfo(index).min, 100, -100)
    steps = [g.pick(1, 1, 1, 2, 3, -1, -1, -2) for _ in axes]
    ends = [[g.pick(g.int(-x.shape[a], x.shape[a]), g.int(0, x.shape[a]), far[s < 0 < b], *far[2:])
             for a, s in zip(axes, steps, strict=True)] for b in (0, 1)]  # fmt: skip
    rest = [axes, steps][: g.pick(1, 2, 2)]
    g.node("Slice", [x, *(g.operand(np.array(v, index)) for v in (*ends, *rest))])


@form("Pad")
def _pad(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1)
    mode = g.pick(None, "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else []))
    axes = g.axes(x.rank) if g.opset >= 18 and g.some(0.3) else None
    over = range(x.rank) if axes is None else axes
    most = [max(0, x.shape[a] - 1) if mode == "reflect" else x.shape[a] if mode else 4 for a in over]
    least = -1 if mode in (None, "constant") else 0
    pads = [
        g.int(least if x.shape[a] > 2 else 0, min(4, m))
        for _ in "be"
        for a, m in zip(over, most, strict=True)
    ]
    value = g.constant(values(g.dice, (), x.type, g.mood)) if g.some() else None
    inputs = [x, g.operand(np.array(pads, np.int64)), value]
    inputs += [] if axes is None else [g.constant(np.array(axes, np.int64))]
    g.node("Pad", inputs[:2] if inputs[2:] == [None] else inputs, mode=mode)


@form("Tile")
def _tile(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    g.node(
        "Tile",
        [x, g.operand(np.array([g.pick(1, 1, 2, 3, 0 if g.some(0.1) else 1) for _ in x.shape], np.int64))],
    )


@form("Expand")
def _expand(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 0, 3)
    shape = [g.int(1, 4) if n == 1 else g.pick(n, 1) for n in x.shape]
    shape = [*g.shape(0, 2), *shape] if g.some(0.4) else shape[g.int(0, min(1, len(shape))) :]
    g.node("Expand", [x, g.operand(np.array(shape, np.int64))])


@form("Squeeze")
def _squeeze(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1)
    ones = [a for a, n in enumerate(x.shape) if n == 1]
    if g.open and not ones:
        raise Unfit("nothing to squeeze")
    some = g.dice.sample(ones, g.int(int(g.open), len(ones)))  # it would be unknown which axes are 1
    g.node(
        "Squeeze", [x, g.operand(np.array([a - g.pick(0, x.rank) for a in some], np.int64))] if some else [x]
    )


@form("Unsqueeze")
def _unsqueeze(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 0, 3)
    count = g.int(1, 2)
    axes = g.dice.sample(range(x.rank + count), count)
    g.node("Unsqueeze", [x, g.operand(np.array([a - g.pick(0, x.rank + count) for a in axes], np.int64))])


def _index(g: Grower, size: int, shape: Any, unique: bool = False) -> Tensor:
    """Positions on an axis, from either end."""
    if size == 0:
        raise Unfit("no positions")
    count = int(np.prod(shape))
    result = g.dice.sample(range(size), count) if unique else [g.int(0, size - 1) for _ in range(count)]
    result = [n - size if g.some(0.3) else n for n in result]
    return g.operand(np.array(result, g.pick(np.int64, np.int32)).reshape(shape))


@form("Gather")
def _gather(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    axis = g.axis(x.rank)
    g.node("Gather", [x, _index(g, x.shape[axis], g.shape(0, 2))], axis=axis)


@form("GatherElements")
def _gather_elements(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    axis = g.axis(x.rank)
    shape = [g.int(1, max(n, 1)) for n in x.shape]
    shape[axis] = g.int(1, 5)
    if 0 in x.shape:
        raise Unfit("nothing to read")
    g.node("GatherElements", [x, _index(g, x.shape[axis], shape)], axis=axis)


def _points(g: Grower, x: Tensor, lead: tuple[int, ...], depth: int, batch: int, unique: bool) -> Tensor:
    if 0 in x.shape:
        raise Unfit("nothing to index")
    sizes = x.shape[batch : batch + depth]
    every = int(np.prod(sizes))
    count = int(np.prod(lead))
    if unique and count > every:
        raise Unfit("more places than there are")
    flat = g.dice.sample(range(every), count) if unique else [g.int(0, every - 1) for _ in range(count)]
    at = np.stack(np.unravel_index(np.array(flat, np.int64), sizes), -1) if count else np.zeros((0, depth))
    at = np.where(np.random.default_rng(g.int(0, 999)).random(at.shape) < 0.2, at - np.array(sizes), at)
    return g.operand(at.reshape(*lead, depth).astype(np.int64))


@form("GatherND")
def _gather_nd(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    batch = g.int(0, min(1, x.rank - 1))
    depth = g.int(1, x.rank - batch)
    lead = (*x.shape[:batch], *g.shape(0 if batch else 1, 2))
    g.node(
        "GatherND",
        [x, _points(g, x, lead, depth, batch, False)],
        batch_dims=batch or g.pick(None, 0),
    )


FOLDING = {16: (None, "none", "add", "mul"), 18: (None, "none", "add", "mul", "max", "min")}


@form("ScatterElements")
def _scatter_elements(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    axis, how = g.axis(x.rank), g.pick(*FOLDING[18 if g.opset >= 18 else 16])
    shape = [g.int(1, max(n, 1)) for n in x.shape]
    if 0 in x.shape or (x.type == "bool" and how not in (None, "none")):
        raise Unfit("nothing to combine")
    if how in (None, "none"):  # the order of several updates of one position is undefined
        shape = [1] * x.rank
        shape[axis] = g.int(1, x.shape[axis])
    unique = how in (None, "none")
    index = _index(g, x.shape[axis], shape, unique)
    g.node("ScatterElements", [x, index, g.fresh(x.type, shape)], axis=axis, reduction=how)


@form("ScatterND")
def _scatter_nd(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    how, depth, lead = g.pick(*FOLDING[18 if g.opset >= 18 else 16]), g.int(1, x.rank), g.shape(1, 2)
    if x.type == "bool" and how not in (None, "none"):
        raise Unfit("nothing to combine")
    at = _points(g, x, lead, depth, 0, how in (None, "none"))
    g.node("ScatterND", [x, at, g.fresh(x.type, (*lead, *x.shape[depth:]))], reduction=how)


@form("Compress")
def _compress(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 3)
    axis = g.pick(None, g.axis(x.rank))
    size = x.array.size if axis is None else x.shape[axis]
    g.node("Compress", [x, g.fresh("bool", (g.int(0, size),))], axis=axis)


@form("ReverseSequence")
def _reverse(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 2, 4)
    batch = g.int(0, 1)
    lengths = np.array([g.int(1, max(1, x.shape[1 - batch])) for _ in range(x.shape[batch])], np.int64)
    if 0 in x.shape:
        raise Unfit("no steps")
    g.node("ReverseSequence", [x, g.operand(lengths)], batch_axis=batch, time_axis=1 - batch)


@form("CenterCropPad")
def _crop(g: Grower) -> None:
    x = g.tensor(list(NUMPY), 1, 4)
    axes = g.axes(x.rank) if g.some() else None
    sizes = [g.int(1, 7) for _ in (axes if axes is not None else range(x.rank))]
    kinds(g, "CenterCropPad")
    g.node("CenterCropPad", [x, g.operand(np.array(sizes, np.int64))], axes=axes)
