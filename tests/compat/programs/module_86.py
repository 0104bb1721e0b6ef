"""A module around an engine, and an engine of two profiles, as in libraries for TensorRT 8."""

import numpy as np
import tensorrt as trt
from cuda import cudart

LOGGER = trt.Logger(trt.Logger.ERROR)
RANGES = (((1, 4), (2, 4), (4, 4)), ((8, 4), (8, 4), (16, 4)))


def build(fp16_mode=False, max_workspace_size=1 << 25, max_batch_size=16):
    builder = trt.Builder(LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    a = network.add_input("a", trt.float32, (-1, 4))
    b = network.add_input("b", trt.float32, (1, 4))
    total = network.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)
    total.name = "total"
    network.mark_output(total)
    config = builder.create_builder_config()
    if hasattr(config, "max_workspace_size"):
        config.max_workspace_size = max_workspace_size
    else:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, max_workspace_size)
    builder.max_batch_size = max_batch_size
    if fp16_mode:
        config.set_flag(trt.BuilderFlag.FP16)
    for low, best, high in RANGES:
        profile = builder.create_optimization_profile()
        profile.set_shape("a", low, best, high)
        config.add_optimization_profile(profile)
    return builder.build_engine(network, config)


class TRTModule:
    """Calls an engine with arrays, by the names of its bindings."""

    def __init__(self, engine, input_names, output_names):
        self.engine = engine
        self.context = engine.create_execution_context()
        self.input_names, self.output_names = input_names, output_names

    def __call__(self, *inputs):
        bindings = [None] * (len(self.input_names) + len(self.output_names))
        for array, name in zip(inputs, self.input_names, strict=True):
            index = self.engine.get_binding_index(name)
            bindings[index] = array.ctypes.data
            if not self.context.set_binding_shape(index, tuple(array.shape)):
                raise ValueError(f"{name} does not take {array.shape}")
        outputs = []
        for name in self.output_names:
            index = self.engine.get_binding_index(name)
            dtype = trt.nptype(self.engine.get_binding_dtype(index))
            assert self.engine.get_location(index) == trt.TensorLocation.DEVICE
            outputs.append(np.empty(tuple(self.context.get_binding_shape(index)), dtype))
            bindings[index] = outputs[-1].ctypes.data
        self.context.execute_async_v2(bindings, 0)
        return outputs[0] if len(outputs) == 1 else outputs


def run_profile(engine, selected):
    """One inference with one profile, whose bindings follow those of the previous profiles."""
    rows = RANGES[selected][2][0]
    a, b = np.full((rows, 4), selected, np.float32), np.arange(4, dtype=np.float32)[None]
    per_profile = engine.num_bindings // engine.num_optimization_profiles
    offset = selected * per_profile
    context = engine.create_execution_context()
    context.active_optimization_profile = selected
    for i in range(per_profile):
        if engine.binding_is_input(offset + i):
            shape = engine.get_profile_shape(selected, offset + i)[2] if i == 0 else b.shape
            assert context.set_binding_shape(offset + i, shape)
    assert context.all_binding_shapes_specified
    total = np.empty(tuple(context.get_binding_shape(offset + 2)), np.float32)
    _, stream = cudart.cudaStreamCreate()
    memory = [cudart.cudaMalloc(x.nbytes)[1] for x in (a, b, total)]
    to_device = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    for pointer, x in zip(memory, (a, b), strict=False):
        cudart.cudaMemcpyAsync(pointer, x.ctypes.data, x.nbytes, to_device, stream)
    context.execute_async_v2(bindings=[0] * offset + memory, stream_handle=stream)
    to_host = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    cudart.cudaMemcpyAsync(total.ctypes.data, memory[2], total.nbytes, to_host, stream)
    cudart.cudaStreamSynchronize(stream)
    return np.array_equal(total, a + b)


def main():
    engine = build()
    names = [engine.get_binding_name(i) for i in range(engine.num_bindings)]
    passed = names == ["a", "b", "total", "a [profile 1]", "b [profile 1]", "total [profile 1]"]
    passed &= names == list(engine) and engine["total"] == 2 and engine[4] == "b [profile 1]"
    module = TRTModule(engine, ["a", "b"], ["total"])
    ones = np.ones((3, 4), np.float32)
    passed &= np.array_equal(module(ones, ones[:1]), ones * 2)
    try:
        module(np.ones((5, 4), np.float32), ones[:1])
        passed = False
    except ValueError as error:
        print(error)
    passed &= run_profile(engine, 0) and run_profile(engine, 1)
    print("PASSED" if passed else "FAILED")


if __name__ == "__main__":
    main()
