"""FullyConnected: the product of the last three dimensions and a kernel, plus a bias. TensorRT 10 removed it.

add_fully_connected(x, 10, kernel, bias)    # x: (8, 3, 4, 4), kernel: 10 × 48, bias: 10 → (8, 10, 1, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.core.trt_enum import unlisted
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import check_weights, static_shape
from anyrt.ops._product import Factor, coded, factor, multiplied
from anyrt.ops._record import EMPTY_BLOB, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._record import weights as blob_of
from anyrt.ops._types import FLOATS
from anyrt.prims.build import cast, const, map_, reshape
from anyrt.prims.const import Blob, Const

LABELS = "abcdefgh"
DLA_IMAGE, DLA_OUTPUTS = 32, 8192


@dataclass(frozen=True, slots=True)
class FullyConnectedAttrs(Attrs):
    """Attributes of FullyConnected."""

    num_output_channels: int = attr(Kind.INT, "number of outputs, which are the rows of the kernel")
    kernel: Blob = attr(Kind.WEIGHTS, "C · H · W weights for each output")
    bias: Blob = attr(Kind.WEIGHTS, "one weight per output; empty: no bias", EMPTY_BLOB)


def expand(layer: Layer[FullyConnectedAttrs]) -> tuple[Value, ...]:
    """A `Contract`, which accumulates in float32, or in int32 for int8, and an addition."""
    x, attrs, rank = factor(layer, 0), layer.attrs, layer.input(0).type.rank
    if rank < 3:
        raise ShapeError("AR101", layer.name, f"rank {rank}", "rank >= 3", "add dimensions of size 1")
    shape = x.value.shape
    columns = prod(static_shape(layer.name, shape[-3:], f"axes {rank - 3} to {rank - 1} of sizes"))
    rows, outer = attrs.num_output_channels, shape[:-3]
    if rows < 1:
        raise ShapeError("AR103", layer.name, f"{rows} outputs", "1 or more", "pass the rows of the kernel")
    _check_weights(layer, "kernel", attrs.kernel, (rows, columns))
    labels = LABELS[: len(outer)]
    flat = x.moved(reshape(x.value, (*outer, columns)))
    kernel, step = _kernel(layer, x, (rows, columns))
    y = multiplied(f"{labels}k,nk->{labels}n", flat, kernel, DataType.FLOAT)
    if step is not None:
        y = map_("mul", y, _beside(step, y))
    if attrs.bias.size:
        _check_weights(layer, "bias", attrs.bias, (rows,))
        y = map_("add", y, _beside(cast(apply(Const(attrs.bias, (rows,))), DataType.FLOAT), y))
    return (cast(reshape(y, (*outer, rows, 1, 1)), layer.input(0).dtype),)


def _kernel(
    layer: Layer[FullyConnectedAttrs], x: Factor, shape: tuple[int, int]
) -> tuple[Factor, Value | None]:
    """The kernel in the input's type, and the scale of each row if the kernel is quantized here."""
    blob = layer.attrs.kernel
    kernel = apply(Const(blob, shape))
    if x.step is None:
        return Factor(cast(kernel, x.value.dtype)), None
    if blob.dtype is DataType.INT8:
        return Factor(kernel, 1.0), None
    codes, step = coded(layer.name, blob.fixed().astype(np.float32).reshape(shape), (1,))
    return Factor(const(codes, DataType.INT8), 1.0), const(step.reshape(-1), DataType.FLOAT)


def _beside(row: Value, y: Value) -> Value:
    return reshape(row, (1,) * (y.type.rank - 1) + row.shape)


def _check_weights(layer: Layer[FullyConnectedAttrs], name: str, blob: Blob, shape: tuple[int, ...]) -> None:
    """Weights are FLOAT or of the input's type; an int8 bias is rejected, because sums are not codes."""
    tensor = DataType.INT8 if layer.int8 and name == "kernel" else layer.input(0).dtype
    check_weights(layer.name, blob.dtype, tensor, name)
    if blob.size != prod(shape):
        rows, wanted = shape[0], " x ".join(map(str, shape))
        do = "pass C * H * W weights for each output" if name == "kernel" else "pass one for each output"
        got = f"{blob.size} weights for {name} with {rows} outputs"
        raise ShapeError("AR103", layer.name, got, wanted, do)


def ref(attrs: FullyConnectedAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The sum of the products of each image and each row."""
    x, rows = arrays[0].astype(np.float64), attrs.num_output_channels
    kernel = attrs.kernel.array.astype(np.float64).reshape(rows, *x.shape[-3:])
    bias = attrs.bias.array.astype(np.float64) if attrs.bias.size else np.zeros(rows)
    with np.errstate(all="ignore"):
        y = np.stack([np.sum(x * row, axis=(-3, -2, -1)) for row in kernel], axis=-1) + bias
    return (y[..., None, None],)


def dla(layer: Layer[FullyConnectedAttrs]) -> str | None:
    """Four dimensions, height and width up to 32, at most 8192 outputs."""
    sizes = [d for d in layer.input(0).shape[-2:] if isinstance(d, int) and d <= DLA_IMAGE]
    if layer.input(0).type.rank != 4 or len(sizes) < 2:
        return f"DLA runs FullyConnected on 4 dimensions, with height and width up to {DLA_IMAGE}"
    few = layer.attrs.num_output_channels <= DLA_OUTPUTS
    return None if few else f"DLA runs FullyConnected with at most {DLA_OUTPUTS} outputs"


def _some(count: int, dtype: DataType = DataType.FLOAT) -> Blob:
    """`count` different numbers that every float type represents."""
    return blob_of(*((7 * i % 16 - 8) / 8 for i in range(count)), dtype=dtype)


def cases() -> tuple[Case[FullyConnectedAttrs], ...]:
    """Types, ranks 3 to 8, with and without a bias, empty sums, empty batches."""
    f, half = DataType.FLOAT, DataType.HALF

    def case(
        rows: int, shape: tuple[int, ...], bias: bool, of: DataType = f, to: DataType = f
    ) -> Case[FullyConnectedAttrs]:
        attrs = FullyConnectedAttrs(rows, _some(rows * prod(shape[-3:]), to), _some(rows if bias else 0, to))
        outer = tuple(range(len(shape) - 3))
        return Case(attrs, (shape,), (of,), dynamic=(outer,), atol=2e-5)

    # Rows that int8 represents exactly: the largest magnitude of each is 127 / 4.
    rows = blob_of(*((127 if k % 8 == 0 else k * 37 % 255 - 127) / 4 for k in range(24)))
    codes = FullyConnectedAttrs(3, rows, _some(3))
    return (
        case(5, (3, 2, 3, 4), True),
        case(5, (2, 3, 4), False),
        case(2, (2, 3, 2, 1, 3), True),
        case(2, (1, 2, 1, 2, 1, 3, 1, 2), True),
        case(2, (3, 2, 0, 4), True),
        case(2, (0, 2, 1, 4), True),
        case(33, (3, 2, 3, 3), True, half),
        case(4, (3, 2, 3, 4), True, half, half),
        case(4, (3, 2, 3, 4), True, DataType.BF16, f),
        Case(codes, ((5, 2, 2, 2),), (DataType.INT8,), (), ((0,),), -128, 128, int8=((0.05,), 4.0)),
    )


def mistakes() -> tuple[Mistake[FullyConnectedAttrs], ...]:
    """Ranks, counts and types."""
    good, image = FullyConnectedAttrs(3, _some(24), _some(3)), (5, 2, 3, 4)
    fits = FullyConnectedAttrs(1, _some(24))
    return (
        Mistake("AR101", "an input of fewer than 3 dimensions", fits, ((4, 6),)),
        Mistake("AR103", "a kernel of the wrong size", good, (image,)),
        Mistake("AR103", "a bias of the wrong size", FullyConnectedAttrs(1, _some(24), _some(2)), (image,)),
        Mistake("AR103", "no outputs", FullyConnectedAttrs(0, EMPTY_BLOB), (image,)),
        Mistake("AR117", "a dynamic size among the last three dimensions", fits, (image,), dynamic=True),
        Mistake("AR205", "a kernel of integers", FullyConnectedAttrs(1, _some(24, DataType.INT32)), (image,)),
        Mistake(
            "AR308",
            "a kernel that is not finite, with int8",
            FullyConnectedAttrs(1, blob_of(math.inf)),
            ((1, 1, 1),),
            (DataType.INT8,),
        ),
        Mistake("AR202", "a type that FullyConnected does not support", fits, (image,), (DataType.INT32,)),
    )


OPS = (
    Op(
        layer=unlisted(LayerType, "FULLY_CONNECTED"),
        cls="IFullyConnectedLayer",
        methods=(
            Method(
                "add_fully_connected",
                ("input", "num_outputs", "kernel", "bias"),
                defaults=(("bias", None),),
                renamed=(("num_outputs", "num_output_channels"),),
                example="layer = network.add_fully_connected(x, 10, kernel, bias)",
            ),
        ),
        inputs=(Input("input", FLOATS | {DataType.INT8}),),
        attrs=FullyConnectedAttrs,
        expand=expand,
        ref=ref,
        doc="Flattens the last three dimensions to C · H · W numbers, multiplies them by each row of the "
        "kernel and adds the bias of that row: (…, C, H, W) becomes (…, outputs, 1, 1). Sums are float32, "
        "rounded once. With int8 and dynamic ranges, a float32 kernel is quantized to int8; the largest "
        "magnitude of each row becomes 127. TensorRT 10 removed this layer; programs that run with `python "
        "-m anyrt.compat --api 8.6` can use it.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Gemm",),
        real_int8=lambda attrs: True,
        source="operator page FullyConnected of 8.6",
        removed=True,
    ),
)
