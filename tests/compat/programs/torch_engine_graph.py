"""Inference of an engine as a CUDA graph, with PyTorch tensors."""

from collections import OrderedDict

import numpy as np
import tensorrt as trt
import torch

try:
    from cuda.bindings import runtime as cudart
except ImportError:
    from cuda import cudart
TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
numpy_to_torch_dtype_dict = {
    np.uint8: torch.uint8,
    np.int8: torch.int8,
    np.int32: torch.int32,
    np.int64: torch.int64,
    np.float16: torch.float16,
    np.float32: torch.float32,
    np.bool_: torch.bool,
}


def CUASSERT(cuda_ret):
    err = cuda_ret[0]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(
            f"CUDA ERROR: {err}, error code reference: https://nvidia.github.io/cuda-python/module/cudart.html#cuda.cudart.cudaError_t"
        )
    if len(cuda_ret) > 1:
        return cuda_ret[1]
    return None


class Engine:
    def __init__(self, engine_path):
        self.engine_path = engine_path
        self.engine = self.context = None
        self.buffers = OrderedDict()
        self.tensors = OrderedDict()
        self.cuda_graph_instance = None

    def __del__(self):
        del self.engine
        del self.context
        del self.buffers
        del self.tensors

    def build(self, onnx_path):
        builder = trt.Builder(TRT_LOGGER)
        network = builder.create_network()
        parser = trt.OnnxParser(network, TRT_LOGGER)
        assert parser.parse_from_file(onnx_path)
        c = builder.create_builder_config()
        p = builder.create_optimization_profile()
        p.set_shape("input", (1, 3, 32, 32), (2, 3, 32, 32), (4, 3, 32, 32))
        c.add_optimization_profile(p)
        self.engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(
            builder.build_serialized_network(network, c)
        )

    def activate(self, device_memory=None):
        if device_memory is not None:
            self.context = self.engine.create_execution_context_without_device_memory()
            self.context.device_memory = device_memory
        else:
            self.context = self.engine.create_execution_context()

    def allocate_buffers(self, shape_dict=None, device="cuda"):
        for binding in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(binding)
            shape = (
                shape_dict[name] if shape_dict and name in shape_dict else self.engine.get_tensor_shape(name)
            )
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.context.set_input_shape(name, shape)
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            self.tensors[name] = torch.empty(tuple(shape), dtype=numpy_to_torch_dtype_dict[dtype]).to(
                device=device
            )

    def infer(self, feed_dict, stream, use_cuda_graph=False):
        for name, buf in feed_dict.items():
            self.tensors[name].copy_(buf)
        for name, tensor in self.tensors.items():
            self.context.set_tensor_address(name, tensor.data_ptr())
        if use_cuda_graph:
            if self.cuda_graph_instance is not None:
                CUASSERT(cudart.cudaGraphLaunch(self.cuda_graph_instance, stream))
                CUASSERT(cudart.cudaStreamSynchronize(stream))
            else:
                noerror = self.context.execute_async_v3(stream)
                if not noerror:
                    raise ValueError("ERROR: inference failed.")
                CUASSERT(
                    cudart.cudaStreamBeginCapture(
                        stream, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
                    )
                )
                self.context.execute_async_v3(stream)
                self.graph = CUASSERT(cudart.cudaStreamEndCapture(stream))
                self.cuda_graph_instance = CUASSERT(cudart.cudaGraphInstantiate(self.graph, 0))
        else:
            noerror = self.context.execute_async_v3(stream)
            if not noerror:
                raise ValueError("ERROR: inference failed.")
        return self.tensors


e = Engine("x")
e.build("model_dyn.onnx")
stream = CUASSERT(cudart.cudaStreamCreate())
mem = CUASSERT(cudart.cudaMalloc(max(1, e.engine.device_memory_size)))
e.activate(mem)
e.allocate_buffers({"input": (2, 3, 32, 32), "output": (2, 10)})
xs = [torch.rand(2, 3, 32, 32).cuda() for _ in range(4)]
plain = [e.infer({"input": x}, stream)["output"].clone() for x in xs]
graph = [e.infer({"input": x}, stream, True)["output"].clone() for x in xs]
for a, b in zip(plain, graph, strict=False):
    torch.testing.assert_close(a, b)
assert not torch.equal(plain[0], plain[1])
CUASSERT(cudart.cudaGraphExecDestroy(e.cuda_graph_instance))
CUASSERT(cudart.cudaGraphDestroy(e.graph))
CUASSERT(cudart.cudaStreamDestroy(stream))
CUASSERT(cudart.cudaFree(mem))
print("PASSED")
