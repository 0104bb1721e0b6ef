"""A case as an ONNX model, for the peers that read these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from onnx import TensorProto

from benchmarks.contractions.calls import Act, Codes, Weights
from benchmarks.contractions.describe import describe
from benchmarks.contractions.forms import Attention, Case, Fold, Mask, Window
from benchmarks.onnx_writer import DTYPES, Writer
from benchmarks.peers import Model, Task
from benchmarks.steps import Element, Shape, Tensor
from benchmarks.values import Array, aligned

OPSET, IR_VERSION = 23, 11  # the first with Attention
EPSILON = 1e-5
PRECISIONS = {Element.BF16: "bf16", Element.F16: "f16"}
ENTRIES = {"session.qdqisint8allowed": "1"}


def models(task: Task) -> dict[str, Callable[[], Model]]:
    """The model of a case; float32 attention also as several nodes, half types also in float32 between casts,
    int8 also as uint8."""
    case: Case = task.case
    makers = {"": _model}
    if isinstance(case.form, Attention) and case.dtype is Element.F32:
        makers["composed"] = lambda task: _written(task, Nodes(composed=task.case.form))
    if case.dtype in PRECISIONS:
        makers["in float32"] = _widened
    if case.dtype is Element.I8:
        makers["uint8"] = _unsigned
    return {label: partial(make, task) for label, make in makers.items()}


def _model(task: Task) -> Model:
    return _written(task, Nodes())


def _unsigned(task: Task) -> Model:
    """With uint8 codes, which are 128 larger."""
    inputs = {name: shifted(x).view(np.uint8) for name, x in task.inputs.items()}
    outputs = tuple(y.view(np.uint8) for y in task.outputs)
    nodes = Nodes(zero=np.array(128, np.uint8))
    return replace(_written(replace(task, inputs=inputs, outputs=outputs), nodes), read=shifted)


def _widened(task: Task) -> Model:
    """In float32; the weights are float32 and not rounded to the half type."""
    nodes = Nodes()
    names = {name: nodes.node("Cast", name, to=TensorProto.FLOAT) for name in task.inputs}
    y = describe(replace(task.case, dtype=Element.F32), nodes, names)
    nodes.node("Cast", y, to=DTYPES[task.case.dtype])
    return _finished(task, nodes)


def _written(task: Task, nodes: Nodes) -> Model:
    describe(task.case, nodes, {name: name for name in task.inputs})
    return _finished(task, nodes)


def _finished(task: Task, nodes: Nodes) -> Model:
    (output,) = task.outputs
    text = nodes.model(task.case.name, task.inputs, output, OPSET, IR_VERSION)
    precision = PRECISIONS.get(task.case.dtype, "f32")
    return Model(text, task.inputs, task.outputs, precision=precision, entries=ENTRIES)


def shifted(x: Array) -> Array:
    """int8 codes as uint8 (128 larger), or the reverse: both flip the highest bit."""
    out = aligned(Tensor(x.shape, Element.I8))
    np.bitwise_xor(x.view(np.uint8), 128, out=out.view(np.uint8))
    return out


class Nodes(Writer):
    """Calls as nodes; composed: attention as several nodes; zero: the zero point of inputs and outputs."""

    def __init__(self, composed: Attention | None = None, zero: Array | None = None) -> None:
        super().__init__()
        self.composed = composed
        self.zero = np.array(0, np.int8) if zero is None else zero

    def constant(self, values: Weights) -> str:
        """An initializer; codes pass through DequantizeLinear."""
        if not isinstance(values, Codes):
            return self.array(values)
        name = self.array(values.codes)
        return self.node("DequantizeLinear", name, *self._scale(values.scale, np.array(0, np.int8)))

    def product(self, a: str, b: str) -> str:
        return self.node("MatMul", a, b)

    def scores(self, q: str, k: str) -> str:
        return self.product(q, self.transpose(k, (0, 1, 3, 2)))

    def convolution(self, x: str, kernel: Weights, bias: Array | None, window: Window) -> str:
        weights = [self.constant(kernel)] + ([] if bias is None else [self.constant(bias)])
        kind = "ConvTranspose" if window.transposed else "Conv"
        return self.node(
            kind, x, *weights, kernel_shape=window.kernel, strides=window.stride, pads=window.pad * 2,
            group=window.groups, dilations=(window.dilation,) * len(window.kernel),
        )  # fmt: skip

    def pool(self, x: str, fold: Fold, window: Window) -> str:
        kind = "MaxPool" if fold is Fold.MAX else "AveragePool"
        return self.node(
            kind, x, kernel_shape=window.kernel, strides=window.stride, pads=window.pad * 2
        )  # fmt: skip

    def add(self, a: str, b: str) -> str:
        return self.node("Add", a, b)

    def act(self, x: str, function: Act) -> str:
        return self.node("Relu" if function is Act.RELU else "Gelu", x)

    def softmax(self, x: str) -> str:
        return self.node("Softmax", x, axis=-1)

    def attention(self, q: str, k: str, v: str, mask: Mask, added: str | None) -> str:
        """Attention as one node, or as several."""
        if self.composed is not None:
            return self._in_parts(self.composed, q, k, v, added)
        extra = [] if added is None else [added]
        return self.node("Attention", q, k, v, *extra, scale=1.0, is_causal=int(mask is Mask.CAUSAL))

    def _in_parts(self, form: Attention, q: str, k: str, v: str, added: str | None) -> str:
        """Attention as several nodes. Heads that share keys become more rows of queries."""
        rows = (form.batch, form.heads // form.shared, form.shared * form.queries, form.size)
        if form.shared > 1:
            q = self.reshape(q, rows)
        if form.mask is Mask.CAUSAL:
            later = np.triu(np.full((form.queries, form.keys), -np.inf, np.float32), 1)
            added = self.constant(np.tile(later, (form.shared, 1)))
        scores = self.scores(q, k)
        y = self.product(self.softmax(scores if added is None else self.add(scores, added)), v)
        return self.reshape(y, form.result) if form.shared > 1 else y

    def normalize(self, x: str, gain: Array, bias: Array) -> str:
        affine = (self.constant(gain), self.constant(bias))
        return self.node("LayerNormalization", x, *affine, axis=-1, epsilon=EPSILON)

    def transpose(self, x: str, perm: Shape) -> str:
        return self.node("Transpose", x, perm=perm)

    def reshape(self, x: str, shape: Shape) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def dequantize(self, x: str, scale: float) -> str:
        return self.node("DequantizeLinear", x, *self._scale(scale, self.zero))

    def quantize(self, x: str, scale: float) -> str:
        return self.node("QuantizeLinear", x, *self._scale(scale, self.zero))

    def _scale(self, scale: float, zero: Array) -> tuple[str, str]:
        return self.constant(np.array(scale, np.float32)), self.constant(zero)
