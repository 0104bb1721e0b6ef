"""Resizes and convolutions whose input ends at a protected page: a read past the end crashes this process."""

import ctypes
import mmap

import numpy as np

import anyrt as trt

PAGE = mmap.PAGESIZE
PROT_NONE = 0
libc = ctypes.CDLL(None, use_errno=True)

LINEAR, CUBIC, NEAREST = (getattr(trt.InterpolationMode, n) for n in ("LINEAR", "CUBIC", "NEAREST"))


def resized(shape, mode):
    def describe(net, x):
        layer = net.add_resize(x if x.dtype != trt.uint8 else net.add_cast(x, trt.float32).get_output(0))
        layer.shape, layer.resize_mode = shape, mode
        return layer

    return describe


def convolved(size):
    """Each channel with its own kernel, and a function of the sums; neither fills whole registers."""

    def describe(net, x):
        channels = x.shape[1]
        layer = net.add_convolution_nd(x, channels, size, np.ones((channels, 1, *size), np.float32))
        layer.num_groups = channels
        return net.add_activation(layer.get_output(0), trt.ActivationType.TANH)

    return describe


CASES = [
    (trt.uint8, (1, 23, 67, 3), resized((1, 31, 90, 3), LINEAR)),
    (trt.uint8, (1, 67, 111, 3), resized((1, 40, 64, 3), LINEAR)),
    (trt.float32, (1, 2, 19, 33), resized((1, 2, 30, 64), LINEAR)),
    (trt.float32, (1, 2, 40, 64), resized((1, 2, 30, 31), CUBIC)),
    (trt.float16, (1, 2, 19, 50), resized((1, 2, 19, 100), LINEAR)),
    (trt.float32, (1, 1, 40, 16), resized((1, 1, 80, 33), NEAREST)),
    (trt.float32, (1, 1, 3, 35), convolved((1, 2))),
    (trt.float32, (2, 3, 4, 35), convolved((1, 3))),
    (trt.float32, (1, 7, 5, 50), convolved((2, 1))),
]


def at_the_end(nbytes):
    """Address of `nbytes` directly before a protected page."""
    size = (nbytes + PAGE - 1) // PAGE * PAGE
    space = mmap.mmap(-1, size + PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    assert libc.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(PAGE), PROT_NONE) == 0
    return space, start + size - nbytes


for dtype, shape, describe in CASES:
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    layer = describe(network, network.add_input("x", dtype, shape))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context = engine.create_execution_context()
    numbers = np.random.default_rng(0).integers(0, 255, shape).astype(trt.nptype(dtype))
    wanted = engine.run(x=numbers)["y"]
    _space, address = at_the_end(numbers.nbytes)
    ctypes.memmove(address, numbers.ctypes.data, numbers.nbytes)
    got = np.zeros_like(wanted)
    context.set_tensor_address("x", address)
    context.set_tensor_address("y", got.ctypes.data)
    assert context.execute_async_v3(0)
    assert np.array_equal(got, wanted), (dtype, shape)
    print("ok", flush=True)
