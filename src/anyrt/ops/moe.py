"""MoE, mixture of experts: the weighted sum of the results of each token's selected experts.

layer = network.add_moe(tokens, experts, scores)
layer.set_gated_weights(gate, up, down, MoEActType.SILU)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, add, floordiv, maximum, minimum, mul
from anyrt.core.dtype import numpy_dtype, short_name
from anyrt.core.enums import DataType, LayerType, MoEActType
from anyrt.core.errors import DTypeError, GraphError, NotSupportedError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import checked, need
from anyrt.ops._math import number
from anyrt.ops._quantized import LARGEST, check_scale, codes
from anyrt.ops._record import (
    ABSENT,
    Array,
    Attrs,
    Case,
    Input,
    Kind,
    Layer,
    Method,
    Mistake,
    Op,
    Setter,
    attr,
)
from anyrt.ops._types import FLOATS, INTS
from anyrt.prims.build import cast, contract, gather, iota, map_, reduce_, reshape, scalar
from anyrt.prims.build import expand as expand_
from anyrt.prims.scan import Scan
from anyrt.prims.scatter import Scatter

FLOAT, FP8, INT32 = DataType.FLOAT, DataType.FP8, DataType.INT32
EXPERTS, SCORES, GATE, UP, DOWN, GATE_BIAS, UP_BIAS, DOWN_BIAS, SCALE = range(1, 10)
BIAS = GATE_BIAS - GATE
BLOCK = 8  # rows
INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class MoEAttrs(Attrs):
    """Attributes of MoE."""

    activation_type: MoEActType = attr(
        Kind.ENUM, "the activation of the gate", MoEActType.NONE, enum=MoEActType
    )
    quantization_to_type: DataType | None = attr(
        Kind.ENUM,
        "the type that gate · up is quantized to: FP8",
        None,
        enum=DataType,
        optional=True,
    )
    quantization_block_shape: tuple[int, ...] | None = attr(
        Kind.DIMS, "stored only: dynamic quantization is not supported, as in TensorRT", None
    )
    dyn_q_output_scale_type: DataType | None = attr(
        Kind.ENUM,
        "stored only: dynamic quantization is not supported, as in TensorRT",
        None,
        enum=DataType,
        optional=True,
    )
    swiglu_param_limit: float = attr(
        Kind.FLOAT, "upper bound of gate, and of the magnitude of up; an extension", INFINITE
    )
    swiglu_param_alpha: float = attr(Kind.FLOAT, "factor of the gate inside its sigmoid; an extension", 1.0)
    swiglu_param_beta: float = attr(Kind.FLOAT, "addend of up; an extension", 0.0)


EXAMPLE = """\
tokens = network.add_shuffle(x)  # an image's rows, of 4 numbers each
tokens.reshape_dims = (1, 12, 4)
experts = network.add_constant((1, 12, 1), np.arange(12, dtype=np.int32) % 2).get_output(0)
scores = network.add_constant((1, 12, 1), np.ones(12, np.float32)).get_output(0)
up = network.add_constant((2, 4, 3), np.ones((2, 4, 3), np.float32)).get_output(0)
down = network.add_constant((2, 3, 4), np.ones((2, 3, 4), np.float32)).get_output(0)
layer = network.add_moe(tokens.get_output(0), experts, scores)
layer.set_gated_weights(up, up, down, trt.MoEActType.SILU)"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the pairs of a token and a selected expert are computed: rows in blocks, one expert per block.

    expert: of each block. token: of each row. row: of each pair. count: the number of rows in a block.
    """

    expert: Value
    token: Value
    row: Value
    count: int


def expand(layer: Layer[MoEAttrs]) -> tuple[Value, ...]:
    """`Scan` and `Scatter` sort the pairs of tokens and experts into blocks of one expert each. Three
    `Contract`s compute all blocks, each with the weights that a `Gather` selects for it. So only selected
    experts are computed, with at most one partial block each. Few pairs are not sorted: each is a block."""
    layer = _checked(layer)
    x, selected = layer.input(0), layer.input(EXPERTS)
    (batch, length, hidden), chosen, many = x.shape, selected.shape[2], layer.input(GATE).shape[0]
    tokens = mul(batch, length)
    pairs = mul(tokens, chosen)
    selected = reshape(selected, (pairs,))
    rows = _rows(selected, many, chosen)
    lines = _lines(reshape(x, (tokens, hidden)), rows.token)
    answers = _lines(_answers(layer, rows, lines), rows.row)
    own = map_("mul", answers, reshape(cast(layer.input(SCORES), FLOAT), (pairs, 1)))
    above, below = map_("le", scalar(0, selected), selected), map_("lt", selected, number(many, selected))
    is_there = reshape(map_("and", above, below), (pairs, 1))
    kept = map_("select", is_there, own, scalar(0.0, own))
    total = reduce_("sum", reshape(kept, (tokens, chosen, hidden)), (1,))
    return (cast(reshape(total, x.shape), x.dtype),)


def _rows(selected: Value, many: Dim, chosen: Dim) -> Rows:
    """Pairs in blocks. A pair whose expert does not exist has no row of its own and reads any row."""
    (pairs,) = selected.shape
    count, pair = _block(pairs, many), iota((pairs,), 0, INT32)
    if count == 1:
        return Rows(selected, _token(pair, chosen), pair, 1)
    own = map_("eq", reshape(selected, (pairs, 1)), iota((1, many), 1, selected.dtype))
    ones = cast(own, INT32)
    blocks = _quotient(map_("add", reduce_("sum", ones, (0,)), scalar(count - 1, ones)), count)
    end = apply(Scan("sum", 1), blocks)
    first = map_("mul", map_("sub", end, blocks), scalar(count, end))
    before = map_("sub", apply(Scan("sum", 0), ones), scalar(1, ones))  # pairs of the expert until this one
    place = map_("select", own, map_("add", first, before), scalar(-1, ones))
    row = reshape(reduce_("max", place, (1,)), (pairs,))
    used = floordiv(add(pairs, mul(minimum(many, pairs), count - 1)), count)
    ended = cast(map_("le", end, iota((used, 1), 0, INT32)), INT32)
    room = mul(used, count)
    outside = map_("lt", row, scalar(0, row))
    at = map_("select", outside, number(room, row), row)
    owner = apply(Scatter(0), expand_(scalar(0, row), (room,)), at, pair)
    return Rows(reshape(reduce_("sum", ended, (1,)), (used,)), _token(owner, chosen), row, count)


def _block(pairs: Dim, many: Dim) -> int:
    """The number of rows in a block: 1 for few pairs. 16 rows are no faster on a CPU, which reads weights
    from its caches, and leave more rows unused."""
    if not isinstance(pairs, int) or not isinstance(many, int):
        return BLOCK
    return 1 if pairs <= BLOCK or pairs * 2 <= many else BLOCK


def _quotient(v: Value, by: int) -> Value:
    return map_("div", v, scalar(by, v))


def _token(pair: Value, chosen: Dim) -> Value:
    return map_("div", pair, number(maximum(chosen, 1), pair))


def _lines(v: Value, at: Value) -> Value:
    """The rows of a matrix at these positions."""
    return gather(v, expand_(reshape(at, (*at.shape, 1)), (*at.shape, v.shape[1])), 0)


def _answers(layer: Layer[MoEAttrs], rows: Rows, lines: Value) -> Value:
    """The results of the experts for these rows, in float32."""
    (blocks,), (room, hidden) = rows.expert.shape, lines.shape
    x = reshape(lines, (blocks, rows.count, hidden))
    middle = _gated(layer.attrs, _projected(layer, rows, x, GATE), _projected(layer, rows, x, UP))
    scale = layer.optional(SCALE)
    if scale is None:
        return reshape(_projected(layer, rows, cast(middle, x.dtype), DOWN), (room, hidden))
    step = cast(_own(scale, rows), FLOAT)
    steps = codes(map_("div", middle, step), FP8)
    return reshape(_projected(layer, rows, cast(steps, x.dtype), DOWN, step), (room, hidden))


def _gated(attrs: MoEAttrs, gate: Value, up: Value) -> Value:
    limit, alpha, beta = attrs.swiglu_param_limit, attrs.swiglu_param_alpha, attrs.swiglu_param_beta
    if limit != INFINITE:
        most = scalar(limit, gate)
        gate, up = map_("min", gate, most), map_("max", map_("min", up, most), scalar(-limit, up))
    if attrs.activation_type is MoEActType.SILU:
        inner = gate if alpha == 1 else map_("mul", gate, scalar(alpha, gate))
        gate = map_("mul", gate, map_("sigmoid", inner))
    return map_("mul", gate, up if beta == 0 else map_("add", up, scalar(beta, up)))


def _projected(layer: Layer[MoEAttrs], rows: Rows, x: Value, which: int, step: Value | None = None) -> Value:
    """Products with an expert's weights, scaled by `step`, plus its bias."""
    sums = contract("bmh,bhi->bmi", x, _own(layer.input(which), rows), FLOAT)
    if step is not None:
        sums = map_("mul", sums, step)
    bias = layer.optional(which + BIAS)
    return sums if bias is None else map_("add", sums, cast(_own(bias, rows), FLOAT))


def _own(v: Value, rows: Rows) -> Value:
    """The values of each block's expert, with three axes."""
    (blocks,), shape = rows.expert.shape, v.shape
    if not shape:
        return reshape(v, (1, 1, 1))
    matrices = v if len(shape) == 3 else reshape(v, (shape[0], 1, *(shape[1:] or (1,))))
    rest = matrices.shape[1:]
    return gather(matrices, expand_(reshape(rows.expert, (blocks, 1, 1)), (blocks, *rest)), 0)


# ---- the checks of operands -------------------------------------------------------------------------


def _checked(layer: Layer[MoEAttrs]) -> Layer[MoEAttrs]:
    """The layer, with the requirement of at least one expert."""
    _check_settings(layer)
    do = "pass the weights of at least one expert"
    many = layer.input(GATE).shape[0]
    rules = need(layer.name, 1, Relation.LE, many, "AR123", "no expert", "at least one", do)
    return replace(layer, inputs=(checked(layer.input(0), rules), *layer.inputs[1:]))


def _check_settings(layer: Layer[MoEAttrs]) -> None:
    attrs, names = layer.attrs, [x.name for x in OPERANDS]
    for i in (GATE, UP, DOWN):
        if layer.optional(i) is None:
            raise GraphError("AR406", layer.name, f"no {names[i]}", "a tensor", "call set_gated_weights")
    biases = [i for i in (GATE_BIAS, UP_BIAS, DOWN_BIAS) if layer.optional(i) is not None]
    if len(biases) not in (0, 3):
        got = f"{' and '.join(names[i] for i in biases)} alone"
        raise GraphError("AR406", layer.name, got, "all three biases or none", "call set_gated_biases")
    if attrs.dyn_q_output_scale_type is not None or attrs.quantization_block_shape is not None:
        got, do = "dynamic quantization", "call set_quantization_static, or remove it"
        raise NotSupportedError("AR901", layer.name, got, "a static scale, as in TensorRT", do)
    if attrs.quantization_to_type not in (None, FP8):
        got = f"quantization_to_type {short_name(attrs.quantization_to_type)}"
        raise DTypeError("AR206", layer.name, got, "fp8", "call set_quantization_static with it")
    scale = layer.optional(SCALE)
    if (scale is None) != (attrs.quantization_to_type is None):
        got = "a quantized type without a scale" if scale is None else "a scale without a quantized type"
        raise GraphError("AR406", layer.name, got, "both or none", "call set_quantization_static")
    if scale is not None:
        check_scale(layer.name, scale)


# ---- reference and cases ----------------------------------------------------------------------------


def ref(attrs: MoEAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Token by token, expert by expert."""
    x, selected, scores = arrays[:3]
    weights = [a.astype(np.float64) for a in arrays[GATE : DOWN + 1]]
    biases = [_operand(arrays, i) for i in (GATE_BIAS, UP_BIAS, DOWN_BIAS)]
    scale, out = _operand(arrays, SCALE), np.zeros(x.shape)
    for at in np.ndindex(selected.shape):
        expert = int(selected[at])
        if not 0 <= expert < weights[0].shape[0]:
            continue
        own = [w[expert] for w in weights]
        rest = [0.0 if b is None else b[expert] for b in biases]
        token = x[at[:2]].astype(np.float64)
        middle = _ref_gated(attrs, token @ own[0] + rest[0], token @ own[1] + rest[1])
        if scale is not None:
            middle = _ref_rounded(middle, float(scale if scale.ndim == 0 else scale[expert]))
        out[at[:2]] += float(scores[at]) * (middle @ own[2] + rest[2])
    return (out,)


def _operand(arrays: tuple[Array, ...], i: int) -> NDArray[np.float64] | None:
    return None if len(arrays) <= i or arrays[i] is ABSENT else arrays[i].astype(np.float64)


def _ref_gated(attrs: MoEAttrs, gate: NDArray[np.float64], up: NDArray[np.float64]) -> NDArray[np.float64]:
    limit = attrs.swiglu_param_limit
    gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    if attrs.activation_type is MoEActType.SILU:
        gate = gate / (1 + np.exp(-attrs.swiglu_param_alpha * gate))
    return gate * (up + attrs.swiglu_param_beta)


def _ref_rounded(middle: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    most = LARGEST[FP8]
    return np.clip(middle / scale, -most, most).astype(numpy_dtype(FP8)).astype(np.float64) * scale


def cases() -> tuple[Case[MoEAttrs], ...]:
    """Both activations, biases, limits, rounding to FP8; few and many pairs; repeated, single, no and
    nonexistent experts; every type; no elements."""
    m, silu, ints = MoEAttrs, MoEActType.SILU, sorted(INTS, key=int)
    a, fp8 = m(silu), m(MoEActType.NONE, FP8)
    oss = m(silu, swiglu_param_limit=0.7, swiglu_param_alpha=1.702, swiglu_param_beta=1.0)
    far = np.array([[[0, 3], [-1, 1], [2, 2], [1 << 30, -(1 << 31)]] * 3])
    sizes = ((1, 1, 4, 2), (1, 3, 9, 2), (1, 40, 2, 1), (1, 90, 1, 1))
    nothing = ((0, 5, 3, 2), (2, 0, 3, 2), (2, 5, 3, 0))
    return (
        *(
            _case(m(), dtype=t, index=i, plain=True)
            for t in sorted(FLOATS, key=int)
            for i in sorted(INTS, key=int)
        ),
        *(_case(a, index=i) for i in ints),
        *(_case(a, size) for size in (*sizes, *nothing)),
        *(_case(c, biases=b) for c in (m(), a, oss) for b in (False, True)),
        *(_case(fp8, biases=b, scale=s) for b in (False, True) for s in ((), (3,))),
        *(_case(fp8, (1, 2, 3, 2), scale=s) for s in ((), (3,))),
        _case(fp8, scale=(3,), dtype=DataType.HALF),
        *(_case(a, (1, n, 3, 2), far[:, :n]) for n in (4, 12)),
        _case(a, (1, 12, 3, 2), np.full((1, 12, 2), 1)),
        *(replace(_case(a, size), data=(), dynamic=()) for size in ((2, 9, 3, 2), (1, 4, 3, 2))),
    )


def _case(
    attrs: MoEAttrs, size: tuple[int, int, int, int] = (2, 9, 3, 2), selected: Array | None = None,
    biases: bool = False, scale: tuple[int, ...] | None = None, dtype: DataType = FLOAT,
    index: DataType = INT32, plain: bool = False,
) -> Case[MoEAttrs]:  # fmt: skip
    """`size`: batches, tokens, experts, experts per token. `plain`: numbers whose products and sums are exact
    in a half type, also before the rounding to FP8."""
    (batch, tokens, many, chosen), hidden, inner = size, 7, 5
    if selected is None:
        selected = np.arange(batch * tokens * chosen).reshape(batch, tokens, chosen) ** 2 % 11 % many
    pairs, wide = (batch, tokens, chosen), (many, hidden, inner)
    rest = ((many, inner), (many, inner), (many, hidden)) if biases else (None,) * 3
    shapes = ((batch, tokens, hidden), pairs, pairs, wide, wide, (many, inner, hidden), *rest, scale)
    data: list[Array | None] = [None, selected, *(None,) * 8]
    if scale is not None or plain:
        data = [None if s is None else _plain(s) for s in shapes]
        data[EXPERTS] = selected
        data[SCALE] = None if scale is None else np.exp2(np.arange(int(np.prod(scale))) - 5.0).reshape(scale)
    types = (dtype, index, *(dtype,) * 8)
    open_axes = ((0, 1), (0, 1, 2), (0, 1, 2), *((),) * 7)
    return Case(attrs, shapes, types, tuple(data), open_axes, -1, 1, rtol=1e-5, atol=1e-5)


def _plain(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Powers of two of both signs, between zeros."""
    k = np.arange(int(np.prod(shape)))
    return np.where(k % 3 == 0, np.exp2(k % 4 - 2.0) * (1 - k % 5 % 2 * 2), 0.0).reshape(shape)


def mistakes() -> tuple[Mistake[MoEAttrs], ...]:
    """Missing operands, shapes, types, settings."""
    a, fp8, h, i = MoEAttrs(), MoEAttrs(quantization_to_type=FP8), DataType.HALF, INT32
    x, pairs, wide, long = (2, 9, 7), (2, 9, 2), (3, 7, 5), (3, 5, 7)
    small, big, kinds = (3, 5), (3, 7), (FLOAT, i, FLOAT)
    shapes = (x, pairs, pairs, wide, wide, long)
    biased = (*shapes, small, small, big)
    return (
        Mistake("AR406", "no weights", a, shapes[:3], kinds),
        Mistake("AR406", "no weights of fc_down", a, shapes[:5], kinds),
        Mistake("AR406", "one bias alone", a, (*shapes, small), kinds),
        Mistake("AR406", "a scale without a quantized type", a, (*shapes, None, None, None, ()), kinds),
        Mistake("AR406", "a quantized type without a scale", fp8, shapes, kinds),
        Mistake("AR206", "a quantized type that is not fp8", replace(fp8, quantization_to_type=h),
                shapes, kinds),
        Mistake("AR901", "dynamic quantization", replace(a, dyn_q_output_scale_type=FLOAT), shapes, kinds),
        Mistake("AR901", "blocks of dynamic quantization", replace(a, quantization_block_shape=(1, 16)),
                shapes, kinds),
        Mistake("AR123", "tokens of a rank other than 3", a, ((18, 7), *shapes[1:]), kinds),
        Mistake("AR123", "experts for a different number of tokens", a, (x, (2, 8, 2), *shapes[2:]), kinds),
        Mistake("AR123", "experts for fewer tokens at run time", a, (x, (2, 8, 2), *shapes[2:]), kinds,
                dynamic=True),
        Mistake("AR123", "different numbers of scores and experts", a, (x, pairs, (2, 9, 3), *shapes[3:]),
                kinds),
        Mistake("AR123", "weights of another hidden size", a, (*shapes[:3], (3, 6, 5), wide, long), kinds),
        Mistake("AR123", "weights of fc_down that are not (experts, inner, hidden)", a, (*shapes[:5], wide),
                kinds),
        Mistake("AR123", "weights with two axes", a, (*shapes[:3], (7, 5), (7, 5), (5, 7)),
                kinds),
        Mistake("AR123", "biases of a different size", a, (*shapes, small, small, small), kinds),
        Mistake("AR123", "different numbers of scales and experts", fp8, (*biased, (2,)), kinds),
        Mistake("AR123", "no expert", a, (*shapes[:3], (0, 7, 5), (0, 7, 5), (0, 5, 7)), kinds),
        Mistake("AR202", "a type that MoE does not support", a, shapes, (i,)),
        Mistake("AR202", "experts that are not integers", a, shapes, (FLOAT,)),
        Mistake("AR203", "scores and tokens of different types", a, shapes, (FLOAT, i, h, FLOAT)),
        Mistake("AR203", "weights and tokens of different types", a, shapes, (FLOAT, i, FLOAT, h)),
    )  # fmt: skip


def _later(name: str, axes: str) -> Input:
    """An operand that a setter of the layer connects."""
    return Input(name, FLOATS, required=False, same_as=0, axes=axes)


OPERANDS = (
    Input("hidden_states", FLOATS, axes="batch tokens hidden"),
    Input("selected_experts_for_tokens", INTS, axes="batch tokens chosen"),
    Input("scores_for_selected_experts", FLOATS, same_as=0, axes="batch tokens chosen"),
    _later("fc_gate_weights", "experts hidden inner"),
    _later("fc_up_weights", "experts hidden inner"),
    _later("fc_down_weights", "experts inner hidden"),
    _later("fc_gate_biases", "experts inner"),
    _later("fc_up_biases", "experts inner"),
    _later("fc_down_biases", "experts hidden"),
    Input("fc_down_activation_scale", FLOATS, required=False, axes="| experts"),
)
SETTERS = (
    Setter(
        "set_gated_weights",
        "Connect the experts' weights, gate and up of shape (experts, hidden, inner), down of (experts, "
        "inner, hidden), and set the activation of the gate.",
        (*((x.name, x.name) for x in OPERANDS[GATE : DOWN + 1]), ("activation_type", "activation_type")),
    ),
    Setter(
        "set_gated_biases",
        "Connect the experts' biases, gate and up of shape (experts, inner), down of (experts, hidden).",
        tuple((x.name, x.name) for x in OPERANDS[GATE_BIAS : DOWN_BIAS + 1]),
    ),
    Setter(
        "set_quantization_static",
        "Quantize gate · up to FP8 before fc_down multiplies it. The scale is one number, or one per expert.",
        (("fc_down_activation_scale", OPERANDS[SCALE].name), ("data_type", "quantization_to_type")),
        ("quantization_block_shape", "dyn_q_output_scale_type"),
    ),
    Setter(
        "set_quantization_dynamic_dbl_q",
        "Stored only: the builder rejects dynamic quantization (AR901), which TensorRT does not support yet "
        "either.",
        (
            ("fc_down_activation_dbl_q_scale", OPERANDS[SCALE].name),
            ("data_type", "quantization_to_type"),
            ("block_shape", "quantization_block_shape"),
            ("dyn_q_output_scale_type", "dyn_q_output_scale_type"),
        ),
    ),
    Setter(
        "set_swiglu_params",
        "Set the limit, the factor alpha and the addend beta of the activation; an extension.",
        tuple((n, f"swiglu_param_{n}") for n in ("limit", "alpha", "beta")),
    ),
)
DOC = (
    "For each token (batch, position), sums the results of the selected experts, times their scores: "
    "down(act(gate(x)) · up(x)). gate, up and down multiply by an expert's weights and add its biases; act "
    "is x · sigmoid(x) (SILU) or the identity (NONE). As an extension, an expert that does not exist, such "
    "as one of another device, adds nothing. An expert that is selected twice counts twice. Sums and "
    "intermediate values are float32; gate · up is rounded to the tensors' type, or to FP8. SwiGLU "
    "parameters, an extension: with g the smaller of gate and limit, g · sigmoid(alpha · g) · (clamp(up, "
    "−limit, limit) + beta). Only selected experts are computed: p pairs of a token and an expert take p "
    "rows of products, plus up to 7 unused rows for each expert. With at most 8 pairs, or at most half as "
    "many as experts, no rows are unused. Weights are read in place, once for each 8 rows."
)
OPS = (
    Op(
        layer=LayerType.MOE,
        cls="IMoELayer",
        methods=(
            Method(
                "add_moe",
                tuple(x.name for x in OPERANDS[:GATE]),
                example=EXAMPLE,
            ),
        ),
        inputs=OPERANDS,
        attrs=MoEAttrs,
        expand=expand,
        ref=ref,
        doc=DOC,
        cases=cases,
        mistakes=mistakes,
        setters=SETTERS,
        source="operator page MoE; from 10.16",
    ),
)
