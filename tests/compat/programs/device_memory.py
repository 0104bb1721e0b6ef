"""Memory for contexts from the program, one block for several contexts, and an allocator of its own.

usage: device_memory.py
"""

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


def cuda(result):
    assert result[0] == cudart.cudaError_t.cudaSuccess, result
    return result[1] if len(result) > 1 else None


class CountingAllocator(trt.IGpuAllocator):
    def __init__(self):
        trt.IGpuAllocator.__init__(self)
        self.live, self.total = {}, 0

    def allocate(self, size, alignment, flags):
        pointer = cuda(cudart.cudaMalloc(size))
        self.live[pointer] = size
        self.total += size
        return pointer

    def allocate_async(self, size, alignment, flags, stream):
        return self.allocate(size, alignment, flags)

    def reallocate(self, address, alignment, new_size):
        return 0

    def deallocate(self, memory):
        if memory not in self.live:
            return False
        del self.live[memory]
        cuda(cudart.cudaFree(memory))
        return True

    def deallocate_async(self, memory, stream):
        return self.deallocate(memory)


def build():
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1, 64))
    rng = np.random.default_rng(0)
    y = x
    for _ in range(3):
        w = rng.standard_normal((64, 64)).astype(np.float32) / 8
        w = network.add_constant((64, 64), w).get_output(0)
        op = trt.MatrixOperation.NONE
        y = network.add_matrix_multiply(y, op, w, op).get_output(0)
        softmax = network.add_softmax(y)
        softmax.axes = 1 << 1
        y = softmax.get_output(0)
    y.name = "y"
    network.mark_output(y)
    for rows in (4, 32):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, 64), (rows, 64), (rows, 64))
        config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def infer(context, x):
    y = np.empty_like(x)
    assert context.set_input_shape("x", x.shape)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    return y


def main():
    plan, runtime = build(), trt.Runtime(TRT_LOGGER)
    engine = runtime.deserialize_cuda_engine(plan)
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    want = infer(engine.create_execution_context(), x)
    sizes = [engine.get_device_memory_size_for_profile_v2(i) for i in range(engine.num_optimization_profiles)]
    assert engine.device_memory_size_v2 == max(sizes)
    shared = cuda(cudart.cudaMalloc(max(engine.device_memory_size_v2, 1)))
    contexts = [
        engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED),
        engine.create_execution_context_without_device_memory(),
    ]
    contexts[0].set_device_memory(shared, engine.device_memory_size_v2)
    contexts[1].device_memory = shared
    for context in contexts:
        np.testing.assert_array_equal(infer(context, x), want)
    late = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
    late.set_optimization_profile_async(1, 0)
    assert late.set_input_shape("x", (20, 64))
    needed = late.update_device_memory_size_for_shapes()
    assert 0 <= needed <= engine.device_memory_size_v2
    late.set_device_memory(cuda(cudart.cudaMalloc(max(needed, 1))), needed)
    many = np.tile(x, (5, 1))
    np.testing.assert_allclose(infer(late, many), np.tile(want, (5, 1)), rtol=1e-5, atol=1e-7)

    allocator = CountingAllocator()
    runtime.gpu_allocator = allocator
    other = runtime.deserialize_cuda_engine(plan)
    context = other.create_execution_context()
    np.testing.assert_array_equal(infer(context, x), want)
    print(f"{engine.device_memory_size_v2} bytes a context; the allocator was asked for {allocator.total}")
    del context, other
    assert not allocator.live
    print("PASSED")


if __name__ == "__main__":
    main()
