"""Converts PyTorch modules by running them: hooked functions of torch add layers for each call. The tensors
carry their TensorRT counterparts as `_trt`.
"""

import contextlib

import numpy as np
import tensorrt as trt
import torch
import torch.nn.functional as F

LOGGER = trt.Logger(trt.Logger.ERROR)
CONVERTERS = []


def converter(owner, name):
    def register(convert):
        CONVERTERS.append((owner, name, convert))
        return convert

    return register


@contextlib.contextmanager
def hooked(network):
    """Torch functions that also add layers."""
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in CONVERTERS]

    def wrap(original, convert):
        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            if any(
                hasattr(a, "_trt") for a in (*args, *(args[0] if isinstance(args[0], (list, tuple)) else ()))
            ):
                first = result[0] if isinstance(result, tuple) else result
                first._trt = convert(network, result, *args, **kwargs)
            return result

        return call

    for (owner, name, original), (_, _, convert) in zip(kept, CONVERTERS, strict=True):
        setattr(owner, name, wrap(original, convert))
    try:
        yield
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)


def numpy(x):
    return np.ascontiguousarray(x.detach().cpu().numpy())


def constant(network, array):
    return network.add_constant(array.shape, np.ascontiguousarray(array)).get_output(0)


def tensor(network, x, rank):
    if hasattr(x, "_trt"):
        return x._trt
    array = numpy(x) if isinstance(x, torch.Tensor) else np.float32(x)
    return constant(network, array.reshape((1,) * (rank - array.ndim) + array.shape))


def pair(x):
    return (x, x) if isinstance(x, int) else tuple(x)


@converter(F, "conv2d")
def conv2d(network, result, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    bias = trt.Weights() if bias is None else trt.Weights(numpy(bias))
    layer = network.add_convolution_nd(x._trt, weight.shape[0], tuple(weight.shape[2:]), numpy(weight), bias)
    layer.stride_nd, layer.padding_nd, layer.dilation_nd = pair(stride), pair(padding), pair(dilation)
    layer.num_groups = groups
    return layer.get_output(0)


@converter(F, "conv_transpose2d")
def conv_transpose2d(network, result, x, weight, bias=None, stride=1, padding=0, *rest):
    bias = trt.Weights() if bias is None else trt.Weights(numpy(bias))
    layer = network.add_deconvolution_nd(
        x._trt, weight.shape[1], tuple(weight.shape[2:]), numpy(weight), bias
    )
    layer.stride_nd, layer.padding_nd = pair(stride), pair(padding)
    return layer.get_output(0)


@converter(F, "batch_norm")
def batch_norm(network, result, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    scale = numpy(weight) / np.sqrt(numpy(var) + eps)
    shift = numpy(bias) - numpy(mean) * scale
    power = np.ones_like(scale)
    return network.add_scale(x._trt, trt.ScaleMode.CHANNEL, shift, scale, power).get_output(0)


@converter(F, "relu")
def relu(network, result, x, inplace=False):
    return network.add_activation(x._trt, trt.ActivationType.RELU).get_output(0)


@converter(torch, "sigmoid")
def sigmoid(network, result, x):
    return network.add_activation(x._trt, trt.ActivationType.SIGMOID).get_output(0)


@converter(F, "max_pool2d")
def max_pool2d(
    network, result, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, **others
):
    layer = network.add_pooling_nd(x._trt, trt.PoolingType.MAX, pair(kernel_size))
    layer.stride_nd, layer.padding_nd = pair(stride or kernel_size), pair(padding)
    layer.padding_mode = (
        trt.PaddingMode.EXPLICIT_ROUND_UP if ceil_mode else trt.PaddingMode.EXPLICIT_ROUND_DOWN
    )
    return layer.get_output(0)


@converter(F, "adaptive_avg_pool2d")
def adaptive_avg_pool2d(network, result, x, output_size):
    kernel = tuple(a // b for a, b in zip(x.shape[2:], pair(output_size), strict=True))
    layer = network.add_pooling_nd(x._trt, trt.PoolingType.AVERAGE, kernel)
    layer.stride_nd = kernel
    return layer.get_output(0)


@converter(F, "interpolate")
def interpolate(
    network, result, x, size=None, scale_factor=None, mode="nearest", align_corners=None, **others
):
    layer = network.add_resize(x._trt)
    layer.shape = tuple(result.shape)
    linear = mode == "bilinear"
    layer.resize_mode = trt.InterpolationMode.LINEAR if linear else trt.InterpolationMode.NEAREST
    kinds = trt.ResizeCoordinateTransformation
    corners = kinds.ALIGN_CORNERS if align_corners else kinds.HALF_PIXEL
    layer.coordinate_transformation = corners if linear else kinds.ASYMMETRIC
    return layer.get_output(0)


@converter(F, "linear")
def linear(network, result, x, weight, bias=None):
    none, transpose = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
    w = constant(network, numpy(weight).reshape((1,) * (x.dim() - 2) + tuple(weight.shape)))
    y = network.add_matrix_multiply(x._trt, none, w, transpose).get_output(0)
    if bias is None:
        return y
    b = tensor(network, bias, x.dim())
    return network.add_elementwise(y, b, trt.ElementWiseOperation.SUM).get_output(0)


@converter(torch, "flatten")
def flatten(network, result, x, start_dim=0, end_dim=-1):
    layer = network.add_shuffle(x._trt)
    layer.reshape_dims = tuple(result.shape)
    return layer.get_output(0)


@converter(torch, "cat")
def cat(network, result, tensors, dim=0):
    layer = network.add_concatenation([t._trt for t in tensors])
    layer.axis = dim % result.dim()
    return layer.get_output(0)


@converter(torch.Tensor, "mean")
def mean(network, result, x, dim, keepdim=False):
    return network.add_reduce(x._trt, trt.ReduceOperation.AVG, 1 << dim, keepdim).get_output(0)


@converter(torch.Tensor, "__add__")
def add(network, result, a, b):
    both = (tensor(network, t, result.dim()) for t in (a, b))
    return network.add_elementwise(*both, trt.ElementWiseOperation.SUM).get_output(0)


@converter(torch.nn.LSTM, "forward")
def lstm(network, result, module, x, state=None):
    """One loop for each layer, over the steps of (batch, steps, features)."""
    actual, kinds, op = x._trt, trt.ActivationType, trt.ElementWiseOperation
    none, transpose = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
    count, steps, hidden = x.shape[0], x.shape[1], module.hidden_size
    for k in range(module.num_layers):
        own = {
            n: numpy(getattr(module, f"{n}_l{k}")) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        w, u = constant(network, own["weight_ih"]), constant(network, own["weight_hh"])
        b = constant(network, (own["bias_ih"] + own["bias_hh"])[None])
        loop = network.add_loop()
        limit = network.add_constant((), np.array(steps, np.int32)).get_output(0)
        loop.add_trip_limit(limit, trt.TripLimit.COUNT)
        zeros = constant(network, np.zeros((count, hidden), np.float32))
        h, c = loop.add_recurrence(zeros), loop.add_recurrence(zeros)
        step = loop.add_iterator(actual, 1, False).get_output(0)
        gates = network.add_matrix_multiply(step, none, w, transpose).get_output(0)
        again = network.add_matrix_multiply(h.get_output(0), none, u, transpose).get_output(0)
        gates = network.add_elementwise(gates, again, op.SUM).get_output(0)
        gates = network.add_elementwise(gates, b, op.SUM).get_output(0)
        gate = []
        for g, kind in enumerate((kinds.SIGMOID, kinds.SIGMOID, kinds.TANH, kinds.SIGMOID)):
            part = network.add_slice(gates, (0, g * hidden), (count, hidden), (1, 1)).get_output(0)
            gate.append(network.add_activation(part, kind).get_output(0))
        kept = network.add_elementwise(gate[1], c.get_output(0), op.PROD).get_output(0)
        new = network.add_elementwise(gate[0], gate[2], op.PROD).get_output(0)
        cell = network.add_elementwise(kept, new, op.SUM).get_output(0)
        tanh = network.add_activation(cell, kinds.TANH).get_output(0)
        out = network.add_elementwise(gate[3], tanh, op.PROD).get_output(0)
        h.set_input(1, out)
        c.set_input(1, cell)
        every = loop.add_loop_output(out, trt.LoopOutput.CONCATENATE, 1)
        every.set_input(1, limit)
        actual = every.get_output(0)
    return actual


class DatasetCalibrator(trt.IInt8EntropyCalibrator2):
    def __init__(self, batches):
        super().__init__()
        self.batches, self.at = batches, 0
        self.buffer = torch.zeros_like(batches[0]).cuda()

    def get_batch(self, names, p=None):
        if self.at == len(self.batches):
            return None
        self.buffer.copy_(self.batches[self.at])
        self.at += 1
        return [int(self.buffer.data_ptr())]

    def get_batch_size(self):
        return len(self.buffer)

    def read_calibration_cache(self, *args, **kwargs):
        return None

    def write_calibration_cache(self, cache, *args, **kwargs):
        pass


class TRTModule(torch.nn.Module):
    def __init__(self, engine):
        super().__init__()
        self.engine, self.context = engine, engine.create_execution_context()

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(tuple(self.engine.get_tensor_shape("output_0")), dtype=torch.float32, device="cuda")
        self.context.set_tensor_address("input_0", x.data_ptr())
        self.context.set_tensor_address("output_0", y.data_ptr())
        assert self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        torch.cuda.current_stream().synchronize()
        return y

    def state_dict(self, *args, **kwargs):
        return {"engine": bytearray(self.engine.serialize())}

    @classmethod
    def from_state_dict(cls, state):
        return cls(trt.Runtime(LOGGER).deserialize_cuda_engine(state["engine"]))


def torch2trt(module, x, fp16_mode=False, int8_mode=False, dataset=None):
    builder = trt.Builder(LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    x = x.clone()
    x._trt = network.add_input("input_0", trt.float32, tuple(x.shape))
    with hooked(network), torch.no_grad():
        y = module(x)
    y._trt.name = "output_0"
    network.mark_output(y._trt)
    if fp16_mode:
        config.set_flag(trt.BuilderFlag.FP16)
    if int8_mode:
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = DatasetCalibrator(dataset)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None
    return TRTModule(trt.Runtime(LOGGER).deserialize_cuda_engine(plan))
