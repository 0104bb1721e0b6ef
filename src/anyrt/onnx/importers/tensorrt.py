"""Operators that TensorRT's tools export for its layers, in any domain: `TRT_Shuffle` and others.

Attributes are those of the layers, in lowercase; weights are constants of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.weights import Weights
from anyrt.api.plugins.named import restored_layers
from anyrt.core.enums import (
    DataType,
    InterpolationMode,
    KVCacheMode,
    MatrixOperation,
    PoolingType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    ScaleMode,
    TopKOperation,
)
from anyrt.core.trt_enum import TrtEnum
from anyrt.onnx.importers.quantized import FLOAT, dequantized, grain_of, quantized, zero_of
from anyrt.onnx.importers.windows import average_pool, convolution, max_pool, pool_of
from anyrt.onnx.node import ANY, IMPORTERS, Importer, Node, Outputs, importer

T = TypeVar("T", bound=TrtEnum)


def _words(kind: type[T]) -> Mapping[str, T]:
    """The members of an enum by their names in lowercase."""
    return {m.name.lower(): m for m in kind}


def _weights(node: Node, i: int) -> Weights:
    """Input `i`, which must be a constant."""
    held = node.held(node.input(i))
    if held is None:
        raise node.unsupported(f"a computed input {i}", "make it a constant of the model")
    return held


@importer("TRT_Scale", domain=ANY)
def scale(node: Node) -> Tensor:
    """(x · scale + shift) ^ power, each of which may be omitted."""
    there = [n for n in ("scale", "shift", "power") if node.attr(n, 0)]  # the order of the inputs
    places = {n: k for k, n in enumerate(there, 1)}
    weights = [_weights(node, places[n]) if n in places else Weights() for n in ("shift", "scale", "power")]
    return node.layer("add_scale", node.input(0), node.choice("mode", "uniform", _words(ScaleMode)), *weights)


@importer("TRT_Shuffle", domain=ANY)
def shuffle(node: Node) -> Tensor:
    """A transpose, a reshape and a transpose."""
    more: dict[str, object] = {"zero_is_placeholder": bool(node.attr("zero_is_placeholder", 1))}
    for name, to in (("first_perm", "first_transpose"), ("second_perm", "second_transpose")):
        if node.attr(name, ()):
            more[to] = node.attr(name, ())
    if node.has("reshape_dims") and node.optional(1) is None:
        more["reshape_dims"] = node.attr("reshape_dims", ())
    return node.with_inputs(node.add("add_shuffle", node.input(0), **more), {1: node.optional(1)})


@importer("TRT_TopK_Min", domain=ANY)
def top_k_min(node: Node) -> list[Tensor]:
    """The smallest elements along an axis, and their positions."""
    k = node.ints(node.input(1))
    if k is None or len(k) != 1:
        raise node.unsupported("a computed k", "make k a constant of the model")
    axis = node.axis(node.input(0))
    return node.outputs(node.add("add_topk", node.input(0), TopKOperation.MIN, k[0], 1 << axis))


@importer("TRT_MatMul", domain=ANY)
def mat_mul(node: Node) -> Tensor:
    """A matrix product, whose operands may be transposed, or vectors."""
    ops = (node.choice(f"op_{k}", "none", _words(MatrixOperation)) for k in range(2))
    a, b = ((node.input(k), op) for k, op in enumerate(ops))
    return node.layer("add_matrix_multiply", *a, *b)


@importer("TRT_RaggedSoftmax", domain=ANY)
def ragged_softmax(node: Node) -> Tensor:
    """Softmax of the first elements of each row; the second input has their numbers."""
    return node.layer("add_ragged_softmax", node.input(0), node.input(1))


@importer("TRT_MaxAverageBlendPool", domain=ANY)
def blended_pool(node: Node) -> Tensor:
    """Interpolate between the maximum and the mean of each window."""
    pool, blend = pool_of(node, node.input(0)), node.required("blend", 0.0)
    excludes = node.attr("count_include_pad", 0) == 0
    more = {"blend_factor": blend, "average_count_excludes_padding": excludes}
    layer = pool.layer(PoolingType.MAX_AVERAGE_BLEND, pool.mode, **more)
    return pool.finished(node.tensor(layer.get_output(0)))


@importer("TRT_Gather", domain=ANY)
def gather(node: Node) -> Tensor:
    """Slices at indices; with shared axes, each batch element has its own."""
    shared = node.attr("nbElementWiseDims", 0)
    axis = node.axis(node.input(0))
    return node.layer("add_gather", node.input(0), node.input(1), axis, num_elementwise_dims=shared)


@importer("TRT_Slice", domain=ANY)
def slice_(node: Node) -> Tensor:
    """A slice: start, sizes and steps, as attributes or as inputs."""
    x = node.input(0)
    if len(node.arguments) > 1:
        return node.slice(x, node.input(1), node.input(2), node.input(3))
    start, size, step = (node.required(n, ()) for n in ("start", "size", "stride"))
    return node.slice(x, start, size, step)


@importer("TRT_Resize", domain=ANY)
def resize(node: Node) -> Tensor:
    """A resize to sizes or by scales, as attributes or as an input."""
    more: dict[str, object] = {
        "resize_mode": node.choice("mode", "nearest", _MODES),
        "coordinate_transformation": node.choice("coordTransform", "asymmetric", _words(_Transformation)),
        "selector_for_single_pixel": node.choice("resizeSelector", "formula", _words(ResizeSelector)),
        "nearest_rounding": node.choice("round_mode", "floor", _words(ResizeRoundMode)),
    }
    sizes = node.optional(1)
    if sizes is None and node.attr("output_dims", ()):
        more["shape"] = node.attr("output_dims", ())
    elif sizes is None:
        more["scales"] = list(node.required("scales", ()))
    return node.with_inputs(node.add("add_resize", node.input(0), **more), {1: sizes})


@importer("TRT_FloorDiv", domain=ANY)
def floor_div(node: Node) -> Tensor:
    """The quotient rounded down."""
    return node.input(0) // node.input(1)


importer("TRT_Conv", domain=ANY)(convolution)
importer("TRT_MaxPool", domain=ANY)(max_pool)
importer("TRT_AveragePool", domain=ANY)(average_pool)


@importer("TRT_Deconv", domain=ANY)
def deconvolution(node: Node) -> Outputs:
    """A transposed convolution."""
    return IMPORTERS["", "ConvTranspose"](node)


def _codes(to: DataType) -> Importer:
    def importer_(node: Node) -> Tensor:
        zero = zero_of(node, to, (FLOAT,))
        return quantized(node, node.input(0), node.input(1), zero, to, grain_of(node))

    return importer_


def _numbers(node: Node) -> Tensor:
    """Dequantize to the type of the scale."""
    x, scale = node.input(0), node.input(1)
    zero = zero_of(node, x.dtype, (FLOAT,))  # float32 zeros mean that there is no zero point
    return dequantized(node, x, scale, zero, scale.dtype, grain_of(node))


importer("TRT_FP8QuantizeLinear", domain=ANY)(_codes(DataType.FP8))
importer("TRT_INT4QuantizeLinear", domain=ANY)(_codes(DataType.INT4))
importer("TRT_FP8DequantizeLinear", "TRT_INT4DequantizeLinear", domain=ANY)(_numbers)


@importer("TRT_KVCacheUpdate", domain=ANY)
def kv_cache_update(node: Node) -> Tensor:
    """The cache with new tokens at the position of each batch element."""
    cache, update, at = (node.input(k) for k in range(3))
    if node.attr("mode", "linear") != "linear" or node.optional(3) is not None:
        raise node.unsupported("lengths of updates", "use complete updates, with mode linear")
    return node.layer("add_kv_cache_update", cache, update, at, KVCacheMode.LINEAR)


@importer("TRT_PluginV2", domain=ANY)
def plugin_v2(node: Node) -> list[Tensor]:
    """The layer of a plug-in that its creator deserializes."""
    name = (node.required("name", ""), node.required("version", ""), node.attr("namespace", ""))
    return restored_layers(node, name, node.present(), node.required("data", b""))


_Transformation = ResizeCoordinateTransformation
_MODES = {**_words(InterpolationMode), "bilinear": InterpolationMode.LINEAR}
