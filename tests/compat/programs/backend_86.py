"""Bindings as objects over pycuda arrays, as in backends for ONNX."""

import numpy as np
import pycuda.autoinit
import pycuda.driver
import pycuda.gpuarray
import tensorrt as trt


def squeeze_hw(x):
    return x.reshape(x.shape[:-2]) if x.shape[-2:] == (1, 1) else x


class Binding:
    def __init__(self, engine, idx_or_name):
        if isinstance(idx_or_name, str):
            self.name = idx_or_name
            self.index = engine.get_binding_index(self.name)
            if self.index == -1:
                raise IndexError(f"Binding name not found: {self.name}")
        else:
            self.index = idx_or_name
            self.name = engine.get_binding_name(self.index)
            if self.name is None:
                raise IndexError(f"Binding index out of range: {self.index}")
        self.is_input = engine.binding_is_input(self.index)
        dtype = engine.get_binding_dtype(self.index)
        dtype_map = {
            trt.DataType.FLOAT: np.float32,
            trt.DataType.HALF: np.float16,
            trt.DataType.INT8: np.int8,
            trt.DataType.BOOL: np.bool_,
        }
        if hasattr(trt.DataType, "INT32"):
            dtype_map[trt.DataType.INT32] = np.int32
        self.dtype = dtype_map[dtype]
        self.shape = tuple(engine.get_binding_shape(self.index))
        self._host_buf = None
        self._device_buf = None

    @property
    def host_buffer(self):
        if self._host_buf is None:
            self._host_buf = pycuda.driver.pagelocked_empty(self.shape, self.dtype)
        return self._host_buf

    @property
    def device_buffer(self):
        if self._device_buf is None:
            self._device_buf = pycuda.gpuarray.empty(self.shape, self.dtype)
        return self._device_buf

    def get_async(self, stream):
        src = self.device_buffer
        dst = self.host_buffer
        src.get_async(stream, dst)
        return dst


class Engine:
    def __init__(self, trt_engine):
        self.engine = trt_engine
        nbinding = self.engine.num_bindings
        bindings = [Binding(self.engine, i) for i in range(nbinding)]
        self.binding_addrs = [b.device_buffer.ptr for b in bindings]
        self.inputs = [b for b in bindings if b.is_input]
        self.outputs = [b for b in bindings if not b.is_input]
        for binding in self.inputs + self.outputs:
            _ = binding.device_buffer
        self.context = self.engine.create_execution_context()
        self.stream = pycuda.driver.Stream()

    def __del__(self):
        if self.engine is not None:
            del self.engine

    def run(self, inputs):
        if len(inputs) < len(self.inputs):
            raise ValueError("Not enough inputs.")
        if isinstance(inputs, dict):
            inputs = [inputs[b.name] for b in self.inputs]
        for _i, (input_array, input_binding) in enumerate(zip(inputs, self.inputs, strict=False)):
            input_array = np.ascontiguousarray(input_array, input_binding.dtype)
            assert input_array.shape == input_binding.shape
            input_binding.device_buffer.set_async(input_array, self.stream)
        self.context.execute_async_v2(self.binding_addrs, self.stream.handle)
        results = [output.get_async(self.stream) for output in self.outputs]
        self.stream.synchronize()
        return results

    def run_no_dma(self):
        self.context.execute_async_v2(self.binding_addrs, self.stream.handle)


L = trt.Logger(trt.Logger.WARNING)
b = trt.Builder(L)
n = b.create_network(flags=1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
p = trt.OnnxParser(n, L)
with open("model_b4.onnx", "rb") as f:
    assert p.parse(f.read()), p.get_error(0)
config = b.create_builder_config()
config.max_workspace_size = 1 << 20
if b.platform_has_fast_fp16:
    config.set_flag(trt.BuilderFlag.FP16)
p2 = b.create_optimization_profile()
config.add_optimization_profile(p2)
e = Engine(b.build_engine(n, config))
(y,) = e.run([np.random.rand(4, 3, 32, 32)])
assert y.shape == (4, 10)
assert y.any()
e.run_no_dma()
print("PASSED")
