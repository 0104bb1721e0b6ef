"""Outputs with data-dependent dimensions: NonZero and NMS, with allocators that grow, over cuda-python.

usage: output_allocator.py
"""

import common
import numpy as np
import tensorrt as trt
from cuda import cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
KIND = cudart.cudaMemcpyKind


class GrowingAllocator(trt.IOutputAllocator):
    def __init__(self):
        trt.IOutputAllocator.__init__(self)
        self.buffers, self.sizes, self.shapes = {}, {}, {}

    def reallocate_output(self, tensor_name, memory, size, alignment):
        if size > self.sizes.get(tensor_name, 0):
            if memory:
                assert memory == self.buffers[tensor_name]
                common.cuda_call(cudart.cudaFree(memory))
            self.buffers[tensor_name] = common.cuda_call(cudart.cudaMalloc(max(size, 1)))
            self.sizes[tensor_name] = size
        assert self.buffers[tensor_name] % alignment == 0
        return self.buffers[tensor_name]

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        return self.reallocate_output(tensor_name, memory, size, alignment)

    def notify_shape(self, tensor_name, shape):
        self.shapes[tensor_name] = tuple(shape)


def constant(network, values, dtype):
    array = np.array(values, dtype)
    return network.add_constant(array.shape, array).get_output(0)


def build(populate, **shapes):
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    inputs = [network.add_input(n, trt.float32, (-1, *s[1:])) for n, s in shapes.items()]
    for name, tensor in populate(network, *inputs).items():
        tensor.name = name
        network.mark_output(tensor)
    profile = builder.create_optimization_profile()
    for name, shape in shapes.items():
        profile.set_shape(name, (1, *shape[1:]), shape, shape)
    config.add_optimization_profile(profile)
    return builder.build_engine_with_config(network, config)


def nonzero(network, x):
    positive = network.add_elementwise(
        x, constant(network, [[0]], np.float32), trt.ElementWiseOperation.GREATER
    )
    return {"where": network.add_non_zero(positive.get_output(0)).get_output(0)}


def nms(network, boxes, scores):
    most = constant(network, 10, np.int32)
    layer = network.add_nms(boxes, scores, most)
    layer.bounding_box_format = trt.BoundingBoxFormat.CORNER_PAIRS
    layer.topk_box_limit = 50
    layer.set_input(3, constant(network, 0.5, np.float32))
    layer.set_input(4, constant(network, 0.3, np.float32))
    return {"selected": layer.get_output(0), "count": layer.get_output(1)}


def run(engine, context, allocator, **feeds):
    stream = common.cuda_call(cudart.cudaStreamCreate())
    for name, array in feeds.items():
        pointer = common.cuda_call(cudart.cudaMalloc(array.nbytes))
        copied = cudart.cudaMemcpy(pointer, array.ctypes.data, array.nbytes, KIND.cudaMemcpyHostToDevice)
        common.cuda_call(copied)
        assert context.set_input_shape(name, array.shape)
        assert context.set_tensor_address(name, pointer)
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    outputs = [n for n in names if engine.get_tensor_mode(n) == trt.TensorIOMode.OUTPUT]
    for name in outputs:
        assert context.set_output_allocator(name, allocator)
        assert context.get_output_allocator(name) is allocator
    assert context.infer_shapes() == []
    assert context.execute_async_v3(stream)
    results = {}
    for name in outputs:
        results[name] = np.empty(allocator.shapes[name], trt.nptype(engine.get_tensor_dtype(name)))
        if results[name].nbytes:
            to, source = results[name].ctypes.data, allocator.buffers[name]
            common.cuda_call(cudart.cudaMemcpy(to, source, results[name].nbytes, KIND.cudaMemcpyDeviceToHost))
    return results


def overlaps(a, b):
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    inter = np.maximum(high - low, 0).prod()
    return inter / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inter) > 0.5


def kept(boxes, scores):
    results = []
    for c in range(scores.shape[1]):
        mine = []
        for i in np.argsort(-scores[:, c], kind="stable"):
            if scores[i, c] > 0.3 and len(mine) < 10 and not any(overlaps(boxes[j], boxes[i]) for j in mine):
                mine.append(i)
        results += [(0, c, i) for i in mine]
    return results


def main():
    rng = np.random.default_rng(0)
    engine, allocator = build(nonzero, x=(8, 16)), GrowingAllocator()
    assert tuple(engine.get_tensor_shape("where")) == (2, -1)
    context = engine.create_execution_context()
    for rows, shift in ((2, 0), (8, 0), (1, 9), (4, -9)):
        x = (rng.standard_normal((rows, 16)) - shift).astype(np.float32)
        where = run(engine, context, allocator, x=x)["where"]
        np.testing.assert_array_equal(where, np.stack(np.nonzero(x > 0)))
    corners = rng.uniform(0, 1, (1, 40, 4)).astype(np.float32)
    boxes = np.concatenate([corners[..., :2], corners[..., :2] + corners[..., 2:] * 0.5], -1)
    scores = rng.uniform(0, 1, (1, 40, 3)).astype(np.float32)
    engine, allocator = build(nms, boxes=boxes.shape, scores=scores.shape), GrowingAllocator()
    actual = run(engine, engine.create_execution_context(), allocator, boxes=boxes, scores=scores)
    want = kept(boxes[0], scores[0])
    assert sorted(map(tuple, actual["selected"].tolist())) == sorted(want)
    assert actual["count"].sum() == len(want)
    print("PASSED")


if __name__ == "__main__":
    main()
