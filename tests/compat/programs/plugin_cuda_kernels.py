"""A clipped ramp as an IPluginV3 with a kernel in CUDA C++; nvrtc compiles it, or CuPy for another tactic.

usage: plugin_cuda_kernels.py
"""

import common
import cupy as cp
import numpy as np
import tensorrt as trt
from cuda.bindings import driver, nvrtc

TEXT = r"""
#include <cuda_fp16.h>
template <typename T> __device__ void ramp(const T *x, T *y, float low, float high, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float value = x[i];
        y[i] = T(value < low ? 0.0f : value > high ? 1.0f : (value - low) / (high - low));
    }
}
extern "C" __global__ void ramp_float(const float *x, float *y, float low, float high, int n) {
    ramp(x, y, low, high, n);
}
extern "C" __global__ void ramp_half(const half *x, half *y, float low, float high, int n) {
    ramp(x, y, low, high, n);
}
"""
NVRTC, CUPY = 1, 2
used = set()


def done(answer):
    """The return values of a call after its status code, which must be success."""
    if answer[0].value:
        raise RuntimeError(f"{answer[0].name}")
    return answer[1] if len(answer) == 2 else answer[1:]


def compile_by_nvrtc(name):
    program = done(nvrtc.nvrtcCreateProgram(TEXT.encode(), b"ramp.cu", 0, [], []))
    options = [b"--gpu-architecture=sm_80", b"--std=c++17"]
    done(nvrtc.nvrtcCompileProgram(program, len(options), options))
    image = b" " * done(nvrtc.nvrtcGetCUBINSize(program))
    done(nvrtc.nvrtcGetCUBIN(program, image))
    module = done(driver.cuModuleLoadData(np.char.array(image)))
    return done(driver.cuModuleGetFunction(module, name.encode()))


class Ramp(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    def __init__(self, limits):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuild.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace, self.num_outputs = "Ramp", "1", "", 1
        self.limits = np.asarray(limits, np.float32)
        self.tactic, self.functions = NVRTC, {}

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        return [trt.DimsExprs(inputs[0])]

    def get_fields_to_serialize(self):
        limits = trt.PluginField("limits", self.limits, trt.PluginFieldType.FLOAT32)
        return trt.PluginFieldCollection([limits])

    def supports_format_combination(self, pos, in_out, num_inputs):
        desc = in_out[pos].desc
        types = (trt.float32, trt.float16) if pos == 0 else (in_out[0].desc.type,)
        return desc.format == trt.TensorFormat.LINEAR and desc.type in types

    def configure_plugin(self, inp, out):
        pass

    def on_shape_change(self, inp, out):
        pass

    def get_valid_tactics(self):
        return [NVRTC, CUPY]

    def set_tactic(self, tactic):
        self.tactic = tactic

    def attach_to_context(self, context):
        return self.clone()

    def clone(self):
        copied = Ramp(self.limits)
        copied.tactic = self.tactic
        return copied

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        n, dtype = trt.volume(input_desc[0].dims), trt.nptype(input_desc[0].type)
        name = "ramp_float" if dtype == np.float32 else "ramp_half"
        low, high = self.limits
        used.add(self.tactic)
        if self.tactic == NVRTC:
            if name not in self.functions:
                self.functions[name] = compile_by_nvrtc(name)
            values = [np.uint64(inputs[0]), np.uint64(outputs[0]), low, high, np.int32(n)]
            held = [np.array([v]) for v in values]
            addresses = np.array([v.ctypes.data for v in held], np.uint64)
            grid, block = (8, 1, 1), (128, 1, 1)
            done(driver.cuLaunchKernel(self.functions[name], *grid, *block, 0, stream, addresses, 0))
            return
        lent = (cp.cuda.UnownedMemory(p, n * np.dtype(dtype).itemsize, self) for p in (*inputs, *outputs))
        places = [cp.cuda.MemoryPointer(x, 0) for x in lent]
        x, y = (cp.ndarray(n, dtype, memptr=p) for p in places)
        with cp.cuda.ExternalStream(stream):
            cp.RawKernel(TEXT, name)((8,), (128,), (x, y, low, high, np.int32(n)))


class RampCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Ramp", "1", ""
        field = trt.PluginField("limits", np.array([], np.float32), trt.PluginFieldType.FLOAT32)
        self.field_names = trt.PluginFieldCollection([field])

    def create_plugin(self, name, fc, phase):
        return Ramp(next(f.data for f in fc if f.name == "limits"))


def main():
    logger = trt.Logger(trt.Logger.WARNING)
    trt.get_plugin_registry().register_creator(RampCreator(), "")
    for kind, tolerance in ((trt.float32, 1e-6), (trt.float16, 2e-3)):
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        x = network.add_cast(network.add_input("x", trt.float32, (5, 77)), kind).get_output(0)
        y = network.add_plugin_v3([x], [], Ramp([-1, 2])).get_output(0)
        network.mark_output(network.add_cast(y, trt.float32).get_output(0))
        plan = builder.build_serialized_network(network, builder.create_builder_config())
        engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
        inputs, outputs, bindings, stream = common.allocate_buffers(engine)
        values = np.random.default_rng(0).normal(0, 2, (5, 77)).astype(np.float32)
        inputs[0].host = values
        context = engine.create_execution_context()
        (result,) = common.do_inference(context, engine, bindings, inputs, outputs, stream)
        assert np.allclose(result.reshape(5, 77), np.clip((values + 1) / 3, 0, 1), atol=tolerance)
        common.free_buffers(inputs, outputs, stream)
    assert used == {NVRTC, CUPY}, used
    print("PASSED")


if __name__ == "__main__":
    main()
