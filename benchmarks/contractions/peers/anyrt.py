"""AnyRT through its public API, bound to memory. A layer that is not there yet is named."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import anyrt as trt
from benchmarks.contractions.calls import Act, Codes, Weights
from benchmarks.contractions.describe import describe
from benchmarks.contractions.forms import Case, Convolution, Fold, Mask, Window, inputs, result
from benchmarks.contractions.peers import UNTILED, Peer
from benchmarks.peers import Cannot, Way
from benchmarks.peers.anyrt import DTYPES, DYNAMIC
from benchmarks.steps import Element, Shape
from benchmarks.values import Array, aligned

LOGGER = trt.Logger(trt.Logger.ERROR)
FUNCTIONS = {Act.RELU: "RELU", Act.GELU: "GELU_ERF"}
FOLDS = {Fold.MAX: "MAX", Fold.AVERAGE: "AVERAGE"}
LOADS = 5
CODES = 127
LEAST_CHANNELS = 16


def prepare(case: Case, given: dict[str, Array], threads: int) -> tuple[Way, ...]:
    """A static engine, with the seconds that building it cold and loading it warm take; one for several
    sizes, where the case has them; and one without Winograd's tiles, where sums could have these."""
    plan, build_s = _plan(case, threads)
    facts = (("build_s", build_s), ("load_s", _load_seconds(plan)), *_mapped_seconds(plan))
    ways: tuple[Way, ...] = (_bound(case, given, plan, "", facts),)
    if case.open:
        ways += (_bound(case, given, _plan(case, threads, case.open)[0], DYNAMIC),)
    if _has_tiles(case):
        ways += (_bound(case, given, _plan(case, threads, winograd="off")[0], UNTILED),)
    return ways


def _has_tiles(case: Case) -> bool:
    """Whether Winograd's tiles could compute it."""
    form = case.form
    if not isinstance(form, Convolution) or form.transposed or case.dtype is Element.I8:
        return False
    window = form.window
    is_plain = (window.kernel, window.stride) == ((3, 3), (1, 1)) and window.groups == window.dilation == 1
    return is_plain and min(form.c_in, form.c_out) >= LEAST_CHANNELS


def _plan(
    case: Case, threads: int, sizes: Shape = (), winograd: str = "auto"
) -> tuple[trt.IHostMemory, float]:
    """(plan, seconds)."""
    builder, network, config = described(case, threads, sizes)
    config.winograd = winograd
    start = time.perf_counter()
    plan = builder.build_serialized_network(network, config)
    assert plan is not None, "the network is refused"
    return plan, time.perf_counter() - start


def _bound(
    case: Case,
    given: dict[str, Array],
    plan: trt.IHostMemory,
    label: str,
    facts: tuple[tuple[str, float], ...] = (),
) -> Way:
    """The engine of a plan on the case's memory."""
    context, out = _load(plan).create_execution_context(), aligned(result(case))
    assert context is not None, f"{case.name}: no context"
    for name, array in given.items():
        assert context.set_input_shape(name, array.shape), f"{case.name}: shape {array.shape} is refused"
    for name, array in (*given.items(), ("y", out)):
        context.set_tensor_address(name, array.ctypes.data)
    return Way(label, partial(context.execute_async_v3, 0), lambda: out, facts)


def described(
    case: Case, threads: int, sizes: Shape = ()
) -> tuple[trt.Builder, trt.INetworkDefinition, trt.IBuilderConfig]:
    """The case's network with its configuration; sizes: as `Case.open`, where that engine is meant."""
    builder = trt.Builder(LOGGER)
    network, config = builder.create_network(), builder.create_builder_config()
    config.num_threads = threads
    given = {}
    profile = builder.create_optimization_profile()
    for name, tensor in inputs(case).items():
        rest = tensor.shape[1:]
        given[name] = network.add_input(name, DTYPES[tensor.dtype], (-1, *rest) if sizes else tensor.shape)
        if sizes:
            profile.set_shape(name, *((n, *rest) for n in sizes))
    if sizes:
        config.add_optimization_profile(profile)
    y = describe(case, Layers(network, case.dtype), given)
    y.name = "y"
    network.mark_output(y)
    return builder, network, config


def _load(plan: trt.IHostMemory | Path, verified: bool = True) -> trt.ICudaEngine:
    runtime = trt.Runtime(LOGGER)
    runtime.check_weights = verified
    engine = runtime.deserialize_cuda_engine(plan)
    assert engine is not None, "the plan is refused"
    return engine


def _mapped_seconds(plan: trt.IHostMemory) -> tuple[tuple[str, float], ...]:
    """From a file to a context, with a warm cache: weights verified, and not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.plan"
        path.write_bytes(plan)
        return ("mapped_s", _load_seconds(path)), ("unverified_s", _load_seconds(path, verified=False))


def _load_seconds(plan: trt.IHostMemory | Path, verified: bool = True) -> float:
    """The median time from a plan to a context, with a warm cache."""
    times = []
    for _ in range(LOADS):
        start = time.perf_counter()
        _load(plan, verified).create_execution_context()
        times.append(time.perf_counter() - start)
    return sorted(times)[LOADS // 2]


class Layers:
    """Calls as layers of a network."""

    def __init__(self, network: trt.INetworkDefinition, dtype: Element) -> None:
        self.network = network
        self.dtype = dtype

    def _layer(self, name: str) -> Callable[..., Any]:  # Any: a layer, whose class may not be there yet
        if not hasattr(self.network, name):
            raise Cannot(f"not there yet: {name}")
        found: Callable[..., Any] = getattr(self.network, name)
        return found

    def constant(self, values: Weights) -> trt.ITensor:
        """Codes are an int8 tensor that has a range."""
        array = values.codes if isinstance(values, Codes) else values
        made = self.network.add_constant(array.shape, trt.Weights(np.ascontiguousarray(array))).get_output(0)
        return self.dequantize(made, values.scale) if isinstance(values, Codes) else made

    def product(self, a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        """Both sides have as many axes."""
        add, plain = self._layer("add_matrix_multiply"), trt.MatrixOperation.NONE
        return _output(add(a, plain, self._raised(b, len(a.shape)), plain))

    def _raised(self, x: trt.ITensor, rank: int) -> trt.ITensor:
        missing = rank - len(x.shape)
        return self.reshape(x, (1,) * missing + tuple(x.shape)) if missing else x

    def convolution(self, x: trt.ITensor, kernel: Weights, bias: Array | None, window: Window) -> trt.ITensor:
        """Codes as the numbers that they mean, which int8 tensors make codes again."""
        array = kernel.numbers if isinstance(kernel, Codes) else kernel
        return self._windowed("add_convolution_nd", x, array, array.shape[0], bias, window)

    def deconvolution(
        self, x: trt.ITensor, kernel: Weights, bias: Array | None, window: Window
    ) -> trt.ITensor:
        """As convolution."""
        array = kernel.numbers if isinstance(kernel, Codes) else kernel
        maps = array.shape[1] * window.groups
        return self._windowed("add_deconvolution_nd", x, array, maps, bias, window)

    def _windowed(
        self, name: str, x: trt.ITensor, kernel: Array, maps: int, bias: Array | None, window: Window
    ) -> trt.ITensor:
        weights = [trt.Weights(np.ascontiguousarray(kernel))]
        weights += [] if bias is None else [trt.Weights(bias)]
        layer = self._layer(name)(x, maps, window.kernel, *weights)
        layer.stride_nd, layer.padding_nd, layer.num_groups = window.stride, window.pad, window.groups
        if window.dilation != 1:
            layer.dilation_nd = (window.dilation,) * len(window.kernel)
        return _output(layer)

    def pool(self, x: trt.ITensor, fold: Fold, window: Window) -> trt.ITensor:
        """Means are of what lies inside by default."""
        add = self._layer("add_pooling_nd")
        layer = add(x, getattr(trt.PoolingType, FOLDS[fold]), window.kernel)
        layer.stride_nd, layer.padding_nd = window.stride, window.pad
        return _output(layer)

    def add(self, a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        """A sum of tensors with as many axes."""
        b = self._raised(b, len(a.shape))
        return _output(self.network.add_elementwise(a, b, trt.ElementWiseOperation.SUM))

    def act(self, x: trt.ITensor, function: Act) -> trt.ITensor:
        """An activation."""
        return _output(self.network.add_activation(x, trt.ActivationType[FUNCTIONS[function]]))

    def softmax(self, x: trt.ITensor) -> trt.ITensor:
        """Axes are bits of a mask."""
        layer = self._layer("add_softmax")(x)
        layer.axes = 1 << (len(x.shape) - 1)
        return _output(layer)

    def attention(
        self, q: trt.ITensor, k: trt.ITensor, v: trt.ITensor, mask: Mask, added: trt.ITensor | None
    ) -> trt.ITensor:
        """The layer of that name."""
        add = self._layer("add_attention")
        layer = add(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, mask is Mask.CAUSAL)
        if added is not None:
            layer.mask = added
        return _output(layer)

    def normalize(self, x: trt.ITensor, gain: Array, bias: Array) -> trt.ITensor:
        """Layer normalisation."""
        shape = (1,) * (len(x.shape) - 1) + gain.shape
        scale, shift = (self.constant(a.reshape(shape)) for a in (gain, bias))
        return _output(self.network.add_normalization(x, scale, shift, 1 << (len(x.shape) - 1)))

    def transpose(self, x: trt.ITensor, perm: Shape) -> trt.ITensor:
        """A shuffle."""
        layer = self.network.add_shuffle(x)
        layer.first_transpose = perm
        return _output(layer)

    def reshape(self, x: trt.ITensor, shape: Shape) -> trt.ITensor:
        """A shuffle."""
        layer = self.network.add_shuffle(x)
        layer.reshape_dims = shape
        return _output(layer)

    def dequantize(self, x: trt.ITensor, scale: float) -> trt.ITensor:
        """A property of the tensor: what its codes mean."""
        x.dynamic_range = (-CODES * scale, CODES * scale)
        return x

    def quantize(self, x: trt.ITensor, scale: float) -> trt.ITensor:
        """Likewise: layers of int8 tensors give int8."""
        return self.dequantize(x, scale)


def _output(layer: Any) -> trt.ITensor:  # Any: see above
    made = layer.get_output(0)
    assert isinstance(made, trt.ITensor), "a layer has an output"
    return made


PEER = Peer("AnyRT", trt.__anyrt_version__, prepare)
