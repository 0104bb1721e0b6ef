"""An engine that resizes images of any size for another engine with a fixed size, run one after the other.

usage: dynamic_shapes.py
"""

import ctypes

import numpy as np
import onnx_graphs
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
SIDE = 28
libcudart = ctypes.CDLL("libcudart.so")


def check(code):
    if code != 0:
        libcudart.cudaGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(libcudart.cudaGetErrorString(code))


class DeviceBuffer:
    """Device memory that grows for larger shapes, through libcudart."""

    def __init__(self, shape, dtype=np.float32):
        self.dtype = np.dtype(dtype)
        self.buf, self.capacity, self.shape = ctypes.c_void_p(), 0, None
        self.resize(shape)

    def resize(self, shape):
        self.shape = tuple(shape)
        nbytes = int(np.prod(self.shape)) * self.dtype.itemsize
        if nbytes > self.capacity:
            self.free()
            check(libcudart.cudaMalloc(ctypes.byref(self.buf), ctypes.c_size_t(nbytes)))
            self.capacity = nbytes
        return self

    def copy_from(self, array):
        array = np.ascontiguousarray(array, self.dtype)
        self.resize(array.shape)
        source = ctypes.c_void_p(array.ctypes.data)
        check(libcudart.cudaMemcpy(self.buf, source, ctypes.c_size_t(array.nbytes), 1))

    def copy_to_host(self):
        array = np.empty(self.shape, self.dtype)
        to = ctypes.c_void_p(array.ctypes.data)
        check(libcudart.cudaMemcpy(to, self.buf, ctypes.c_size_t(array.nbytes), 2))
        return array

    def free(self):
        if self.capacity:
            check(libcudart.cudaFree(self.buf))
        self.capacity = 0


def build_preprocessor(builder):
    network, config = builder.create_network(0), builder.create_builder_config()
    x = network.add_input("input", trt.float32, (-1, 1, -1, -1))
    resize = network.add_resize(x)
    resize.resize_mode = trt.InterpolationMode.LINEAR
    shape = network.add_constant((4,), np.array([1, 1, SIDE, SIDE], np.int32)).get_output(0)
    resize.set_input(1, shape)
    resize.get_output(0).name = "output"
    network.mark_output(resize.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("input", min=(1, 1, 1, 1), opt=(1, 1, 64, 64), max=(1, 1, 256, 256))
    config.add_optimization_profile(profile)
    return builder.build_engine_with_config(network, config)


def build_prediction(builder):
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((10, SIDE * SIDE)).astype(np.float32) / SIDE}
    nodes = [
        ("Flatten", ["image"], ["flat"], {"axis": 1}),
        ("Gemm", ["flat", "w"], ["scores"], {"transB": 1}),
        ("Softmax", ["scores"], ["probabilities"], {"axis": 1}),
    ]
    model = onnx_graphs.model(nodes, {"image": [-1, 1, SIDE, SIDE]}, ["probabilities"], weights)
    network, config = builder.create_network(0), builder.create_builder_config()
    parser = trt.OnnxParser(network, TRT_LOGGER)
    assert parser.parse(model.SerializeToString()), parser.get_error(0)
    # Other names, and the best class next to the probabilities.
    network.get_input(0).shape = trt.Dims([1, 1, SIDE, SIDE])
    best = network.add_topk(network.get_output(0), trt.TopKOperation.MAX, 1, 1 << 1)
    best.get_output(1).name = "class"
    network.mark_output(best.get_output(1))
    return builder.build_engine_with_config(network, config), weights["w"]


def main():
    builder = trt.Builder(TRT_LOGGER)
    pre = build_preprocessor(builder)
    predict, w = build_prediction(builder)
    contexts = pre.create_execution_context(), predict.create_execution_context()
    raw, image = DeviceBuffer((1, 1, 64, 64)), DeviceBuffer((1, 1, SIDE, SIDE))
    scores, best = DeviceBuffer((1, 10)), DeviceBuffer((1, 1), np.int32)
    assert tuple(pre.get_tensor_shape("input")) == (-1, 1, -1, -1)
    stream = ctypes.c_void_p()
    check(libcudart.cudaStreamCreate(ctypes.byref(stream)))
    for side in ((28, 28), (56, 56), (100, 37), (256, 256), (1, 1)):
        pixels = np.random.default_rng(sum(side)).random((1, 1, *side), dtype=np.float32)
        raw.copy_from(pixels)
        assert contexts[0].set_input_shape("input", pixels.shape)
        for context, names, buffers in zip(
            contexts,
            (("input", "output"), ("image", "probabilities", "class")),
            ((raw, image), (image, scores, best)),
            strict=True,
        ):
            for name, buffer in zip(names, buffers, strict=True):
                assert context.set_tensor_address(name, buffer.buf.value)
            assert context.execute_async_v3(stream.value or 0)
        check(libcudart.cudaStreamSynchronize(stream))
        small = image.copy_to_host()
        if side == (28, 28):
            np.testing.assert_array_equal(small, pixels)
        logits = small.reshape(1, -1).astype(np.float64) @ w.T
        want = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        np.testing.assert_allclose(scores.copy_to_host(), want, rtol=1e-4, atol=1e-6)
        assert best.copy_to_host()[0, 0] == want.argmax()
    contexts[0].set_input_shape("input", (1, 1, 300, 10))
    assert tuple(contexts[0].get_tensor_shape("input")) != (1, 1, 300, 10)
    print("PASSED")


if __name__ == "__main__":
    main()
