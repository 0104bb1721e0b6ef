"""A case as an ONNX model, for the peers that read these."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.contractions.calls import Act, Codes, Weights
from benchmarks.contractions.describe import describe
from benchmarks.contractions.forms import Attention, Case, Fold, Mask, Window, inputs, result
from benchmarks.peers.onnx_model import DTYPES
from benchmarks.steps import Element, Shape
from benchmarks.values import Array

OPSET, IR_VERSION = 23, 11  # the first with Attention
EPSILON = 1e-5


def model_of(case: Case, fused: bool = True, unsigned: bool = False) -> onnx.ModelProto:
    """The model; fused: attention is one node, else two products and what is between them; unsigned: what is
    int8 at its ends is uint8, 128 more."""
    composed = case.form if isinstance(case.form, Attention) and not fused else None
    writer = Nodes(composed, np.array(128, np.uint8) if unsigned else np.array(0, np.int8))
    names = {name: name for name in inputs(case)}
    describe(case, writer, names)
    writer.nodes[-1].output[0] = "y"
    dtype = DTYPES[Element.U8 if unsigned else case.dtype]
    given = [helper.make_tensor_value_info(n, dtype, t.shape) for n, t in inputs(case).items()]
    taken = helper.make_tensor_value_info("y", dtype, result(case).shape)
    graph = helper.make_graph(writer.nodes, case.name, given, [taken], writer.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


class Nodes:
    """Calls as nodes; values are names."""

    def __init__(self, composed: Attention | None, zero: Array) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.composed = composed
        self.zero = zero

    def _node(self, kind: str, *given: str, **attributes: Any) -> str:  # Any: as make_node takes them
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(given), [out], **attributes))
        return out

    def constant(self, values: Weights) -> str:
        """An initialiser; codes go through a node that says what they mean."""
        array = values.codes if isinstance(values, Codes) else values
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        if not isinstance(values, Codes):
            return name
        return self._node("DequantizeLinear", name, *self._scale(values.scale, np.array(0, np.int8)))

    def product(self, a: str, b: str) -> str:
        """MatMul."""
        return self._node("MatMul", a, b)

    def convolution(self, x: str, kernel: Weights, bias: Array | None, window: Window) -> str:
        """Conv."""
        return self._windowed("Conv", x, kernel, bias, window)

    def deconvolution(self, x: str, kernel: Weights, bias: Array | None, window: Window) -> str:
        """ConvTranspose."""
        return self._windowed("ConvTranspose", x, kernel, bias, window)

    def _windowed(self, kind: str, x: str, kernel: Weights, bias: Array | None, window: Window) -> str:
        weights = [self.constant(kernel)] + ([] if bias is None else [self.constant(bias)])
        return self._node(
            kind, x, *weights, kernel_shape=window.kernel, strides=window.stride, pads=window.pad * 2,
            group=window.groups, dilations=(window.dilation,) * len(window.kernel),
        )  # fmt: skip

    def pool(self, x: str, fold: Fold, window: Window) -> str:
        """MaxPool, AveragePool."""
        kind = "MaxPool" if fold is Fold.MAX else "AveragePool"
        return self._node(
            kind, x, kernel_shape=window.kernel, strides=window.stride, pads=window.pad * 2
        )  # fmt: skip

    def add(self, a: str, b: str) -> str:
        """Add."""
        return self._node("Add", a, b)

    def act(self, x: str, function: Act) -> str:
        """Relu, Gelu."""
        return self._node("Relu" if function is Act.RELU else "Gelu", x)

    def softmax(self, x: str) -> str:
        """Softmax."""
        return self._node("Softmax", x, axis=-1)

    def attention(self, q: str, k: str, v: str, mask: Mask, added: str | None) -> str:
        """Attention, or a composition."""
        if self.composed is not None:
            return self._composed(self.composed, q, k, v, added)
        extra = [] if added is None else [added]
        return self._node("Attention", q, k, v, *extra, scale=1.0, is_causal=int(mask is Mask.CAUSAL))

    def _composed(self, form: Attention, q: str, k: str, v: str, added: str | None) -> str:
        """Heads that share keys are more rows of queries."""
        rows = (form.batch, form.heads // form.shared, form.shared * form.queries, form.size)
        if form.shared > 1:
            q = self.reshape(q, rows)
        if form.mask is Mask.CAUSAL:
            later = np.triu(np.full((form.queries, form.keys), -np.inf, np.float32), 1)
            added = self.constant(np.tile(later, (form.shared, 1)))
        scores = self.product(q, self.transpose(k, (0, 1, 3, 2)))
        y = self.product(self.softmax(scores if added is None else self.add(scores, added)), v)
        return self.reshape(y, form.result) if form.shared > 1 else y

    def normalize(self, x: str, gain: Array, bias: Array) -> str:
        """LayerNormalization."""
        affine = (self.constant(gain), self.constant(bias))
        return self._node("LayerNormalization", x, *affine, axis=-1, epsilon=EPSILON)

    def transpose(self, x: str, perm: Shape) -> str:
        """Transpose."""
        return self._node("Transpose", x, perm=perm)

    def reshape(self, x: str, shape: Shape) -> str:
        """Reshape."""
        return self._node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def dequantize(self, x: str, scale: float) -> str:
        """DequantizeLinear."""
        return self._node("DequantizeLinear", x, *self._scale(scale, self.zero))

    def quantize(self, x: str, scale: float) -> str:
        """QuantizeLinear."""
        return self._node("QuantizeLinear", x, *self._scale(scale, self.zero))

    def _scale(self, scale: float, zero: Array) -> tuple[str, str]:
        return self.constant(np.array(scale, np.float32)), self.constant(zero)
