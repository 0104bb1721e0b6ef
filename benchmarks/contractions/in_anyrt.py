"""Calls as layers of AnyRT. A missing layer is reported by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import anyrt as trt
from benchmarks.contractions.calls import Act, Codes, Weights
from benchmarks.contractions.describe import describe
from benchmarks.contractions.forms import Case, Convolution, Fold, Mask, Window, inputs
from benchmarks.peers import DYNAMIC, UNTILED, Cannot, Task
from benchmarks.peers.anyrt import Sizes, inputs_of
from benchmarks.steps import Element, Shape
from benchmarks.values import Array

FLAGS = 0
FUNCTIONS = {Act.RELU: "RELU", Act.GELU: "GELU_ERF"}
FOLDS = {Fold.MAX: "MAX", Fold.AVERAGE: "AVERAGE"}
CODES = 127
LEAST_CHANNELS = 16


def engines(case: Case) -> tuple[str, ...]:
    """An engine for several sizes, if the case has them; one without Winograd, if it could use that."""
    return (*([DYNAMIC] if case.open else []), *([UNTILED] if _has_tiles(case) else []))


def sizes(case: Case) -> dict[str, tuple[Shape, ...]]:
    """The inputs' shapes at the minimum, optimum and maximum."""
    return {name: tuple((n, *x.shape[1:]) for n in case.open) for name, x in inputs(case).items()}


def add(network: trt.INetworkDefinition, task: Task, sizes: Sizes) -> dict[str, trt.ITensor]:
    """The calls as layers."""
    return {"y": describe(task.case, Layers(network, task.case.dtype), inputs_of(network, task, sizes))}


def _has_tiles(case: Case) -> bool:
    """Whether Winograd can compute the case."""
    form = case.form
    if not isinstance(form, Convolution) or form.window.transposed or case.dtype is Element.I8:
        return False
    window = form.window
    is_plain = (window.kernel, window.stride) == ((3, 3), (1, 1)) and window.groups == window.dilation == 1
    return is_plain and min(form.c_in, form.c_out) >= LEAST_CHANNELS


class Layers:
    """Calls as layers of a network."""

    def __init__(self, network: trt.INetworkDefinition, dtype: Element) -> None:
        self.network = network
        self.dtype = dtype

    def _layer(self, name: str) -> Callable[..., Any]:  # Any: a layer, whose class may not be there yet
        if not hasattr(self.network, name):
            raise Cannot(f"not there yet: {name}")
        method: Callable[..., Any] = getattr(self.network, name)
        return method

    def constant(self, values: Weights) -> trt.ITensor:
        """Codes become an int8 tensor with a dynamic range."""
        array = values.codes if isinstance(values, Codes) else values
        tensor = self.network.add_constant(array.shape, trt.Weights(np.ascontiguousarray(array))).get_output(
            0
        )
        return self.dequantize(tensor, values.scale) if isinstance(values, Codes) else tensor

    def product(self, a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        """Both operands get the same rank."""
        add, plain = self._layer("add_matrix_multiply"), trt.MatrixOperation.NONE
        return _output(add(a, plain, self._raised(b, len(a.shape)), plain))

    def scores(self, q: trt.ITensor, k: trt.ITensor) -> trt.ITensor:
        add, op = self._layer("add_matrix_multiply"), trt.MatrixOperation
        return _output(add(q, op.NONE, k, op.TRANSPOSE))

    def _raised(self, x: trt.ITensor, rank: int) -> trt.ITensor:
        missing = rank - len(x.shape)
        return self.reshape(x, (1,) * missing + tuple(x.shape)) if missing else x

    def convolution(self, x: trt.ITensor, kernel: Weights, bias: Array | None, window: Window) -> trt.ITensor:
        """Codes are passed as float32 weights, which int8 tensors quantize again."""
        array = np.ascontiguousarray(kernel.numbers if isinstance(kernel, Codes) else kernel)
        weights = [trt.Weights(array), *([] if bias is None else [trt.Weights(bias)])]
        name = "add_deconvolution_nd" if window.transposed else "add_convolution_nd"
        maps = array.shape[1] * window.groups if window.transposed else array.shape[0]
        layer = self._layer(name)(x, maps, window.kernel, *weights)
        layer.stride_nd, layer.padding_nd, layer.num_groups = window.stride, window.pad, window.groups
        if window.dilation != 1:
            layer.dilation_nd = (window.dilation,) * len(window.kernel)
        return _output(layer)

    def pool(self, x: trt.ITensor, fold: Fold, window: Window) -> trt.ITensor:
        """By default, means exclude the padding."""
        add = self._layer("add_pooling_nd")
        layer = add(x, getattr(trt.PoolingType, FOLDS[fold]), window.kernel)
        layer.stride_nd, layer.padding_nd = window.stride, window.pad
        return _output(layer)

    def add(self, a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        b = self._raised(b, len(a.shape))
        return _output(self.network.add_elementwise(a, b, trt.ElementWiseOperation.SUM))

    def act(self, x: trt.ITensor, function: Act) -> trt.ITensor:
        return _output(self.network.add_activation(x, trt.ActivationType[FUNCTIONS[function]]))

    def softmax(self, x: trt.ITensor) -> trt.ITensor:
        """Axes are bits of a mask."""
        layer = self._layer("add_softmax")(x)
        layer.axes = 1 << (len(x.shape) - 1)
        return _output(layer)

    def attention(
        self, q: trt.ITensor, k: trt.ITensor, v: trt.ITensor, mask: Mask, added: trt.ITensor | None
    ) -> trt.ITensor:
        add = self._layer("add_attention")
        layer = add(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, mask is Mask.CAUSAL)
        if added is not None:
            layer.mask = added
        return _output(layer)

    def normalize(self, x: trt.ITensor, gain: Array, bias: Array) -> trt.ITensor:
        shape = (1,) * (len(x.shape) - 1) + gain.shape
        scale, shift = (self.constant(a.reshape(shape)) for a in (gain, bias))
        return _output(self.network.add_normalization(x, scale, shift, 1 << (len(x.shape) - 1)))

    def transpose(self, x: trt.ITensor, perm: Shape) -> trt.ITensor:
        layer = self.network.add_shuffle(x)
        layer.first_transpose = perm
        return _output(layer)

    def reshape(self, x: trt.ITensor, shape: Shape) -> trt.ITensor:
        layer = self.network.add_shuffle(x)
        layer.reshape_dims = shape
        return _output(layer)

    def dequantize(self, x: trt.ITensor, scale: float) -> trt.ITensor:
        """The scale is the dynamic range of the tensor."""
        x.dynamic_range = (-CODES * scale, CODES * scale)
        return x

    def quantize(self, x: trt.ITensor, scale: float) -> trt.ITensor:
        """The scale is the dynamic range of the result."""
        return self.dequantize(x, scale)


def _output(layer: Any) -> trt.ITensor:  # Any: see above
    tensor = layer.get_output(0)
    assert isinstance(tensor, trt.ITensor), "a layer has an output"
    return tensor
