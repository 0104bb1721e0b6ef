"""Resizes whose input ends where the next page may not be touched: a read beyond it ends this process."""

import ctypes
import mmap

import numpy as np

import anyrt as trt

PAGE = mmap.PAGESIZE
PROT_NONE = 0
libc = ctypes.CDLL(None, use_errno=True)

CASES = [
    (trt.uint8, (1, 23, 67, 3), (1, 31, 90, 3), trt.InterpolationMode.LINEAR),
    (trt.uint8, (1, 67, 111, 3), (1, 40, 64, 3), trt.InterpolationMode.LINEAR),
    (trt.float32, (1, 2, 19, 33), (1, 2, 30, 64), trt.InterpolationMode.LINEAR),
    (trt.float32, (1, 2, 40, 64), (1, 2, 30, 31), trt.InterpolationMode.CUBIC),
    (trt.float16, (1, 2, 19, 50), (1, 2, 19, 100), trt.InterpolationMode.LINEAR),
    (trt.float32, (1, 1, 40, 16), (1, 1, 80, 33), trt.InterpolationMode.NEAREST),
]


def at_the_end(nbytes):
    """Address of `nbytes` in front of a page that is not to be touched."""
    size = (nbytes + PAGE - 1) // PAGE * PAGE
    space = mmap.mmap(-1, size + PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    assert libc.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(PAGE), PROT_NONE) == 0
    return space, start + size - nbytes


for dtype, shape, out, mode in CASES:
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    x = network.add_input("x", dtype, shape)
    layer = network.add_resize(x if dtype != trt.uint8 else network.add_cast(x, trt.float32).get_output(0))
    layer.shape, layer.resize_mode = out, mode
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
