"""Forms with weights: products, windows, normalisations, quantisation, resizes, recurrences, branches."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tools.fuzz.forms import drawn, form, kinds
from tools.fuzz.grow import FLOATS, NUMPY, ONNX, Grower, Tensor, Unfit, values

SUMMED = ("usual", "small", "ties")  # their sums do not cancel inf


def weight(g: Grower, kind: str, shape: Any) -> Tensor:
    """Weights, occasionally from an input."""
    mood = g.pick(*SUMMED)
    return g.input(kind, shape, mood, True) if g.some(0.25) else g.constant(values(g.dice, shape, kind, mood))


@form("MatMul")
def _matmul(g: Grower) -> None:
    x = g.tensor(kinds(g, "MatMul"), 1, 4)
    k, n = x.shape[-1], g.pick(1, 2, 3, 8, 15, 16, 17)
    lead = [1 if g.some(0.3) else s for s in x.shape[:-2]][g.int(0, max(0, x.rank - 2)) :]
    shape = (k,) if g.some(0.15) else (*lead, k, n)
    y = weight(g, x.type, shape)
    if g.some(0.2) and x.rank >= 2:
        shape = (*lead, n, x.shape[-2])
        g.node("MatMul", [weight(g, x.type, shape), x])
        return
    g.node("MatMul", [x, y])


@form("Gemm")
def _gemm(g: Grower) -> None:
    x = g.tensor(kinds(g, "Gemm"), 2, 2)
    ta, tb = g.pick(None, 0, 1), g.pick(None, 0, 1)
    m, k = x.shape[::-1] if ta else x.shape
    n = g.pick(1, 3, 8, 16, 17)
    c = [weight(g, x.type, g.pick((n,), (1, n), (m, 1), (m, n), (1,), ()))] if g.some(0.7) else []
    more = {"alpha": g.pick(None, 0.5, 2.0), "beta": g.pick(None, 0.25, 0.0)} if x.type in FLOATS else {}
    g.node("Gemm", [x, weight(g, x.type, (n, k) if tb else (k, n)), *c], transA=ta, transB=tb, **more)


EQUATIONS = ("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ij,ij->", "i,j->ij", "bhid,bhjd->bhij",
             "...i,...i->...", "ij,j", "ijk->j", "ij,jk,kl->il", "ii->", "bij,jk")  # fmt: skip


@form("Einsum")
def _einsum(g: Grower) -> None:
    equation = g.pick(*EQUATIONS)
    kind, sizes = g.pick(*kinds(g, "Einsum")), {c: g.int(1, 5) for c in "bhidjkl"}
    terms = [[sizes[c] for c in term.replace("...", "bh")] for term in equation.split("->")[0].split(",")]
    g.node("Einsum", [weight(g, kind, shape) for shape in terms], equation=equation)


def _windows(g: Grower, rank: int, pool: bool) -> dict[str, Any]:
    """Attributes of windows for this many spatial axes."""
    more: dict[str, Any] = {"kernel_shape": [g.int(1, 3) for _ in range(rank)]}
    if g.some():
        more["strides"] = [g.int(1, 3) for _ in range(rank)]
    if g.some(0.3):
        more["dilations"] = [g.int(1, 2) for _ in range(rank)]
    if g.some():
        most = [k - 1 if pool else 2 for k in more["kernel_shape"]]
        more["pads"] = [g.int(0, m) for m in (*most, *most)]
    elif g.some(0.3):
        more["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return more


def _image(g: Grower, op: str, channels: int | None = None) -> Tensor:
    rank = g.pick(1, 2, 2, 2, 3)
    shape = (g.int(1, 2), channels or g.int(1, 6), *[g.int(3, 9) for _ in range(rank)])
    if channels is None:
        return g.tensor(kinds(g, op), 3, 5, shape if g.some(0.7) else None)
    return g.tensor(kinds(g, op), 3, 5, shape, True)


@form("Conv")
def _conv(g: Grower) -> None:
    group, each = g.pick(1, 1, 2, 3), g.int(1, 4)
    x = _image(g, "Conv", group * each)
    more = _windows(g, x.rank - 2, False)
    out = group * g.int(1, 5)
    w = weight(g, x.type, (out, each, *more["kernel_shape"]))
    b = [weight(g, x.type, (out,))] if g.some() else []
    more["kernel_shape"] = g.pick(None, more["kernel_shape"])
    g.node("Conv", [x, w, *b], group=group if group > 1 else None, **more)


@form("ConvTranspose")
def _deconv(g: Grower) -> None:
    group, each = g.pick(1, 1, 2), g.int(1, 3)
    x = _image(g, "ConvTranspose", group * each)
    more = _windows(g, x.rank - 2, True)
    out = g.int(1, 4)
    w = weight(g, x.type, (group * each, out, *more["kernel_shape"]))
    b = [weight(g, x.type, (group * out,))] if g.some() else []
    if "strides" in more and g.some():
        more["output_padding"] = [g.int(0, s - 1) for s in more["strides"]]
    if more.get("auto_pad", "").startswith("SAME"):
        raise Unfit("the reference pads these otherwise")
    g.node("ConvTranspose", [x, w, *b], group=group if group > 1 else None, **more)


@form("MaxPool")
def _max_pool(g: Grower) -> None:
    x = _image(g, "MaxPool")
    g.node("MaxPool", [x], **_windows(g, x.rank - 2, True), ceil_mode=g.pick(None, 0, 1))


@form("AveragePool")
def _average_pool(g: Grower) -> None:
    x = _image(g, "AveragePool")
    more = _windows(g, x.rank - 2, True)
    if g.opset < 19:
        more.pop("dilations", None)
    g.node("AveragePool", [x], **more, ceil_mode=g.pick(None, 0, 1), count_include_pad=g.pick(None, 0, 1))


@form("LpPool")
def _lp_pool(g: Grower) -> None:
    x = _image(g, "LpPool")
    more = _windows(g, x.rank - 2, True)
    if g.opset < 18:
        more.pop("dilations", None)
    g.node("LpPool", [x], **more, p=g.pick(None, 1, 2, 3))


@form("BatchNormalization")
def _batch_norm(g: Grower) -> None:
    x = g.tensor(kinds(g, "BatchNormalization"), 2, 4)
    rows = [weight(g, x.type, (x.shape[1],)) for _ in range(3)]
    variance = g.constant(np.abs(values(g.dice, (x.shape[1],), x.type, "usual")))
    g.node("BatchNormalization", [x, *rows, variance], epsilon=g.pick(None, 1e-3, 0.5))


@form("InstanceNormalization")
def _instance_norm(g: Grower) -> None:
    x = g.tensor(kinds(g, "InstanceNormalization"), 3, 4)
    g.node(
        "InstanceNormalization",
        [x, *(weight(g, x.type, (x.shape[1],)) for _ in "ab")],
        epsilon=g.pick(None, 1e-2),
    )


@form("LayerNormalization")
def _layer_norm(g: Grower) -> None:
    x = g.tensor(kinds(g, "LayerNormalization"), 1, 4)
    axis = g.axis(x.rank)
    rows = [weight(g, x.type, x.shape[axis:]) for _ in range(g.pick(1, 2))]
    g.node("LayerNormalization", [x, *rows], axis=g.pick(axis), epsilon=g.pick(None, 1e-2))


@form("RMSNormalization")
def _rms_norm(g: Grower) -> None:
    x = g.tensor(kinds(g, "RMSNormalization"), 1, 4)
    axis = g.axis(x.rank)
    g.node("RMSNormalization", [x, weight(g, x.type, x.shape[axis:])], axis=axis, epsilon=g.pick(None, 1e-2))


@form("GroupNormalization")
def _group_norm(g: Grower) -> None:
    if g.opset < 21:
        raise Unfit("scales were those of groups")
    groups = g.int(1, 3)
    x = g.tensor(kinds(g, "GroupNormalization"), 3, 4, (g.int(1, 2), groups * g.int(1, 3), *g.shape(1, 2)))
    g.node("GroupNormalization", [x, *(weight(g, x.type, (x.shape[1],)) for _ in "ab")], num_groups=groups)


@form("MeanVarianceNormalization")
def _mvn(g: Grower) -> None:
    x = g.tensor(kinds(g, "MeanVarianceNormalization"), 4, 4)
    g.node("MeanVarianceNormalization", [x], axes=g.pick(None, sorted(g.dice.sample(range(4), g.int(1, 3)))))


@form("LRN")
def _lrn(g: Grower) -> None:
    x = g.tensor(kinds(g, "LRN"), 4, 4)
    more = {"alpha": (None, 0.1, 1.0), "beta": (None, 0.5, 1.0), "bias": (None, 2.0), "size": (1, 2, 3, 5)}
    g.node("LRN", [x], **drawn(g, more))


def _scale(g: Grower, kind: str, shape: Any) -> Tensor:
    result = (
        np.abs(values(g.dice, shape, kind, "usual").astype(np.float64)) * g.pick(0.01, 0.1, 1.0) + 2.0**-7
    )
    return g.constant(result.astype(NUMPY[kind]))


CODES = ("int8", "uint8")


@form("QuantizeLinear")
def _quantize(g: Grower) -> None:
    x = g.tensor([k for k in kinds(g, "QuantizeLinear") if k in FLOATS], 0, 4)
    if not np.isfinite(x.array.astype(np.float64)).all():
        raise Unfit("no code")
    axis = g.axis(x.rank) if x.rank and g.some(0.4) else None
    shape = () if axis is None else (x.shape[axis],)
    zero = [g.constant(values(g.dice, shape, g.pick(*CODES), g.mood))] if g.some(0.8) else []
    g.node("QuantizeLinear", [x, _scale(g, x.type, shape), *zero], axis=axis)


@form("DequantizeLinear")
def _dequantize(g: Grower) -> None:
    kind = g.pick(*CODES, "int32")
    x = g.tensor([kind], 0, 4)
    axis = g.axis(x.rank) if x.rank and g.some(0.4) else None
    shape = () if axis is None else (x.shape[axis],)
    zero = [g.constant(values(g.dice, shape, kind, g.mood))] if g.some(0.7) and kind != "int32" else []
    scale = g.pick("float", "float", "float16") if g.opset >= 19 else "float"
    g.node("DequantizeLinear", [x, _scale(g, scale, shape), *zero], axis=axis)


@form("DynamicQuantizeLinear")
def _dynamic_quantize(g: Grower) -> None:
    x = g.tensor(["float"], 1, 4)
    if not np.isfinite(x.array).all() or not x.array.size:
        raise Unfit("no range")
    g.node("DynamicQuantizeLinear", [x], 3)


@form("MatMulInteger")
def _matmul_integer(g: Grower) -> None:
    x = g.tensor(list(CODES), 2, 3)
    y = g.pick(*CODES)
    n = g.pick(1, 3, 8, 17)
    w = g.fresh(y, (x.shape[-1], n))
    zeros = [g.constant(values(g.dice, (), k, "usual")) for k in (x.type, y)][: g.int(0, 2)]
    g.node("MatMulInteger", [x, w, *zeros])


@form("ConvInteger")
def _conv_integer(g: Grower) -> None:
    x = g.tensor(list(CODES), 4, 4, (g.int(1, 2), g.int(1, 4), g.int(3, 7), g.int(3, 7)), True)
    more = _windows(g, 2, False)
    w = g.fresh(g.pick(*CODES), (g.int(1, 4), x.shape[1], *more["kernel_shape"]), None, True)
    zeros = [g.constant(values(g.dice, (), k, "usual")) for k in (x.type, w.type)][: g.int(0, 2)]
    g.node("ConvInteger", [x, w, *zeros], **more)


@form("QLinearMatMul")
def _qlinear(g: Grower) -> None:
    x = g.tensor(list(CODES), 2, 3)
    w = g.fresh(g.pick(*CODES), (x.shape[-1], g.pick(1, 3, 8, 17)))
    quant = [
        [_scale(g, "float", ()), g.constant(values(g.dice, (), k, "usual"))] for k in (x.type, w.type, x.type)
    ]
    g.node("QLinearMatMul", [x, *quant[0], w, *quant[1], *quant[2]])


@form("Resize")
def _resize(g: Grower) -> None:
    x = g.tensor([k for k in kinds(g, "Resize") if k in ("float", "double", "float16", "uint8")], 1, 4)
    if 0 in x.shape:
        raise Unfit("no pixels")
    mode = g.pick("nearest", "linear", "cubic")
    where = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    more = {
        "coordinate_transformation_mode": g.pick(
            None, *where, *(["half_pixel_symmetric"] if g.opset >= 19 else [])
        )
    }
    if mode == "nearest":
        more["nearest_mode"] = g.pick(None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if mode == "cubic":
        more |= {"cubic_coeff_a": g.pick(None, -0.5), "exclude_outside": g.pick(None, 0, 1)}
    if mode != "nearest" and g.opset >= 18 and g.some(0.3):
        more["antialias"] = 1
    changed = [g.some(0.7) and (mode == "nearest" or a >= x.rank - 2) for a in range(x.rank)]
    if g.some():
        sizes = [g.int(1, 9) if c else n for n, c in zip(x.shape, changed, strict=True)]
        g.node("Resize", [x, None, None, g.operand(np.array(sizes, np.int64))], mode=mode, **more)
        return
    scales = [g.pick(0.5, 1.5, 2.0, 0.7, 3.0) if c else 1.0 for c in changed]
    g.node("Resize", [x, None, g.operand(np.array(scales, np.float32))], mode=mode, **more)


@form("GridSample")
def _grid_sample(g: Grower) -> None:
    x = g.tensor(["float", "double", "float16"], 4, 4, (g.int(1, 2), g.int(1, 3), g.int(1, 6), g.int(1, 6)))
    grid = g.constant(values(g.dice, (x.shape[0], g.int(1, 4), g.int(1, 4), 2), x.type, "usual"))
    modes = ("bilinear", "nearest", "bicubic") if g.opset < 20 else ("linear", "nearest", "cubic")
    more = {
        "mode": (None, *modes),
        "padding_mode": (None, "zeros", "border", "reflection"),
        "align_corners": (None, 0, 1),
    }
    g.node("GridSample", [x, grid], **drawn(g, more))


@form("Col2Im")
def _col2im(g: Grower) -> None:
    image, block = [g.int(2, 5) for _ in "ab"], [g.int(1, 2) for _ in "ab"]
    places = int(np.prod([i - b + 1 for i, b in zip(image, block, strict=True)]))
    x = g.tensor(
        ["float", "double", "float16"], 3, 3, (g.int(1, 2), int(np.prod(block)) * g.int(1, 3), places)
    )
    kinds(g, "Col2Im")
    g.node("Col2Im", [x, *(g.constant(np.array(v, np.int64)) for v in (image, block))])


def _recurrent(op: str, gates: int) -> None:
    @form(op)
    def add(g: Grower) -> None:
        steps, batch, size, hidden = (g.int(1, 4) for _ in "abcd")
        kind, way = g.pick("float", "double", "float16"), g.pick("forward", "reverse", "bidirectional")
        many = 2 if way == "bidirectional" else 1
        x = g.tensor([kind], 3, 3, (steps, batch, size))
        w, r = (weight(g, kind, (many, gates * hidden, n)) for n in (size, hidden))
        b = weight(g, kind, (many, 2 * gates * hidden)) if g.some() else None
        lengths = None  # the reference ignores it
        start = (
            [weight(g, kind, (many, batch, hidden)) for _ in range(2 if op == "LSTM" else 1)]
            if g.some()
            else []
        )
        more = {"linear_before_reset": g.pick(None, 0, 1)} if op == "GRU" else {}
        outputs = 3 if op == "LSTM" else 2
        all_of = [x, w, r, b, lengths, *start]
        while all_of[-1] is None:
            all_of.pop()
        g.node(op, all_of, outputs, hidden_size=hidden, direction=way, **more)


_recurrent("RNN", 1)
_recurrent("GRU", 3)
_recurrent("LSTM", 4)


@form("Attention")
def _attention(g: Grower) -> None:
    kind = g.pick("float", "float16", "double")
    if g.opset < 23:
        raise Unfit("newer")
    heads, batch, size = g.pick(1, 2, 4), g.int(1, 2), g.pick(1, 4, 8)
    kv = g.dice.choice([h for h in (1, 2, 4) if heads % h == 0])
    rows, keys = g.int(1, 6), g.int(1, 9)
    q = g.tensor([kind], 4, 4, (batch, heads, rows, size), True)
    k, v = (g.fresh(kind, (batch, kv, keys, size), None, True) for _ in "kv")
    mask = g.fresh(*g.pick((kind, (rows, keys)), ("bool", (rows, keys)))) if g.some(0.3) else None
    if mask is not None and mask.type == "bool":
        mask = g.constant(mask.array | (np.arange(keys) == 0))
    more = {"is_causal": (None, 0, 1), "scale": (None, 0.5), "softcap": (None, 2.0)}
    g.node("Attention", [q, k, v, *([] if mask is None else [mask])], **drawn(g, more))


@form("If")
def _if(g: Grower) -> None:
    x = g.tensor(list(FLOATS[:3]), 0, 3)
    branches = {}
    for name, op in (
        ("then_branch", g.pick("Neg", "Identity", "Abs")),
        ("else_branch", g.pick("Relu", "Sigmoid", "Exp")),
    ):
        out = helper.make_tensor_value_info(f"{name}_{len(g.results)}", ONNX[x.type], None)
        node = helper.make_node(op, [x.name], [out.name])
        branches[name] = helper.make_graph([node], name, [], [out])
    g.node("If", [g.fresh("bool", ())], inside=[x], **branches)


@form("Loop")
def _loop(g: Grower) -> None:
    x = g.tensor(list(FLOATS[:3]), 0, 3)
    n = len(g.results)
    info = helper.make_tensor_value_info
    turn, going, state = f"i{n}", f"go{n}", f"s{n}"
    nodes = [helper.make_node(g.pick("Add", "Mul", "Sub"), [state, x.name], [f"n{n}"]),
             helper.make_node("Identity", [going], [f"k{n}"]),
             helper.make_node(g.pick("Tanh", "Neg"), [f"n{n}"], [f"y{n}"])]  # fmt: skip
    body = helper.make_graph(
        nodes, "body",
        [info(turn, TensorProto.INT64, ()), info(going, TensorProto.BOOL, ()),
         info(state, ONNX[x.type], x.shape)],
        [info(f"k{n}", TensorProto.BOOL, ()), *(info(f"{y}{n}", ONNX[x.type], None) for y in "ny")],
    )  # fmt: skip
    turns = g.operand(np.array(g.int(1, 4), np.int64))
    g.node("Loop", [turns, g.constant(np.array(True)), x], 2, [x], body=body)
