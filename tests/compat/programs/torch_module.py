"""A module around an engine, as in libraries for PyTorch: state_dict hooks, output allocators."""

import copy
import io
import logging

import numpy as np
import tensorrt as trt
import torch

logger = logging.getLogger(__name__)


def unified_dtype_converter(dtype, to):
    table = {
        trt.DataType.FLOAT: torch.float32,
        trt.DataType.HALF: torch.float16,
        trt.DataType.INT32: torch.int32,
        trt.DataType.INT64: torch.int64,
        trt.DataType.BOOL: torch.bool,
        trt.DataType.BF16: torch.bfloat16,
        trt.DataType.INT8: torch.int8,
        trt.DataType.UINT8: torch.uint8,
    }
    return table[dtype]


class DynamicOutputAllocator(trt.IOutputAllocator):
    def __init__(self, output_dtypes):
        trt.IOutputAllocator.__init__(self)
        self.buffers = {}
        self.shapes = {}
        self.dtypes = output_dtypes

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        shape = (size,)
        if tensor_name not in self.buffers or self.buffers[tensor_name].numel() < size:
            self.buffers[tensor_name] = torch.empty(
                shape, dtype=torch.int8, device=torch.cuda.current_device()
            )
        return self.buffers[tensor_name].data_ptr()

    def notify_shape(self, tensor_name, shape):
        self.shapes[tensor_name] = tuple(shape)


class TRTModule(torch.nn.Module):
    def __init__(self, serialized_engine=None):
        super().__init__()
        self.serialized_engine = serialized_engine
        self.engine = None
        self.initialized = False
        self._register_state_dict_hook(TRTModule._on_state_dict) if hasattr(
            self, "_register_state_dict_hook"
        ) else None
        if serialized_engine is not None:
            self.setup_engine()

    def setup_engine(self):
        runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self.engine = runtime.deserialize_cuda_engine(self.serialized_engine)
        assert self.engine is not None
        self.context = self.engine.create_execution_context()
        self.context.set_optimization_profile_async(0, torch.cuda.current_stream().cuda_stream)
        self.input_names = [
            n for n in self.engine if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT
        ]
        self.output_names = [n for n in self.engine if n not in self.input_names]
        self.output_dtypes = {
            n: unified_dtype_converter(self.engine.get_tensor_dtype(n), 0) for n in self.output_names
        }
        self.initialized = True
        if self.engine.streamable_weights_size > 0:
            self.engine.weight_streaming_budget_v2 = self.engine.streamable_weights_size

    def _on_state_dict(self, state_dict, prefix, local_metadata):
        state_dict[prefix + "engine"] = bytearray(self.engine.serialize())
        state_dict[prefix + "input_names"] = self.input_names

    def _load_from_state_dict(self, state_dict, prefix, *a):
        self.serialized_engine = bytes(state_dict[prefix + "engine"])
        self.setup_engine()

    def __getstate__(self):
        state = self.__dict__.copy()
        state["engine"] = bytearray(self.engine.serialize())
        state.pop("context", None)
        state.pop("_state_dict_hooks", None)
        return state

    def __deepcopy__(self, memo):
        return TRTModule(self.serialized_engine)

    def forward(self, *inputs):
        with torch.autograd.profiler.record_function("TRT:ProcessInputs"):
            inputs = tuple(i.to(torch.cuda.current_device()).contiguous() for i in inputs)
            for n, t in zip(self.input_names, inputs, strict=False):
                assert self.engine.get_tensor_location(n) == trt.TensorLocation.DEVICE
                if self.engine.is_shape_inference_io(n):
                    self.context.set_tensor_address(n, t.cpu().to(torch.int64).data_ptr())
                else:
                    self.context.set_input_shape(n, tuple(t.shape))
                    self.context.set_tensor_address(n, t.data_ptr())
        uninferred = self.context.infer_shapes()
        assert not uninferred
        alloc = DynamicOutputAllocator(self.output_dtypes)
        for n in self.output_names:
            assert self.context.set_output_allocator(n, alloc)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            assert self.context.execute_async_v3(stream.cuda_stream)
        torch.cuda.current_stream().wait_stream(stream)
        outs = [
            alloc.buffers[n]
            .clone()
            .detach()[: int(np.prod(alloc.shapes[n])) * self.output_dtypes[n].itemsize]
            .view(self.output_dtypes[n])
            .reshape(alloc.shapes[n])
            for n in self.output_names
        ]
        return outs[0] if len(outs) == 1 else tuple(outs)


L = trt.Logger(trt.Logger.ERROR)
b = trt.Builder(L)
n = b.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
p = trt.OnnxParser(n, L)
assert p.parse_from_file("model_dyn.onnx")
c = b.create_builder_config()
pr = b.create_optimization_profile()
pr.set_shape("input", (1, 3, 32, 32), (4, 3, 32, 32), (8, 3, 32, 32))
c.add_optimization_profile(pr)
c.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
c.builder_optimization_level = 3
c.hardware_compatibility_level = trt.HardwareCompatibilityLevel.NONE
c.engine_capability = trt.EngineCapability.STANDARD
c.avg_timing_iterations = 1
plan = b.build_serialized_network(n, c)
m = TRTModule(bytes(plan))
x = torch.rand(3, 3, 32, 32).cuda()
y = m(x)
buf = io.BytesIO()
torch.save(m.state_dict(), buf)
buf.seek(0)
m2 = TRTModule()
m2.load_state_dict(torch.load(buf, weights_only=False))
torch.testing.assert_close(m2(x), y)
torch.testing.assert_close(copy.deepcopy(m)(x), y)
torch.testing.assert_close(torch.nn.Sequential(m, torch.nn.Identity())(x), y)
print("PASSED")
