"""Buffers and inference as many TensorRT programs share them, over cuda-python."""

import ctypes

import numpy as np
import tensorrt as trt
from cuda import cuda, cudart


def check_cuda_err(err):
    if isinstance(err, cuda.CUresult):
        if err != cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"Cuda Error: {err}")
    elif isinstance(err, cudart.cudaError_t):
        if err != cudart.cudaError_t.cudaSuccess:
            raise RuntimeError(f"Cuda Runtime Error: {err}")
    else:
        raise RuntimeError(f"Unknown error type: {err}")


def cuda_call(call):
    err, res = call[0], call[1:]
    check_cuda_err(err)
    if len(res) == 1:
        res = res[0]
    return res


class HostDeviceMem:
    """A pinned host array and device memory of the same size."""

    def __init__(self, size: int, dtype: np.dtype):
        nbytes = size * dtype.itemsize
        host_mem = cuda_call(cudart.cudaMallocHost(nbytes))
        pointer_type = ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype))
        self._host = np.ctypeslib.as_array(ctypes.cast(host_mem, pointer_type), (size,))
        self._device = cuda_call(cudart.cudaMalloc(nbytes))
        self._nbytes = nbytes

    @property
    def host(self) -> np.ndarray:
        return self._host

    @host.setter
    def host(self, arr: np.ndarray):
        if arr.size > self._host.size:
            raise ValueError(
                f"Tried to fit an array of size {arr.size} into memory of size {self._host.size}"
            )
        np.copyto(self._host[: arr.size], arr.flat, casting="safe")

    @property
    def device(self) -> int:
        return self._device

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def __repr__(self):
        return f"Host:\n{self.host}\nDevice:\n{self.device}\nSize:\n{self.nbytes}\n"

    def free(self):
        cuda_call(cudart.cudaFree(self._device))
        cuda_call(cudart.cudaFreeHost(self._host.ctypes.data))


def allocate_buffers(engine: trt.ICudaEngine, profile_idx: int | None = None):
    inputs, outputs, bindings = [], [], []
    stream = cuda_call(cudart.cudaStreamCreate())
    tensor_names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    for binding in tensor_names:
        # get_tensor_profile_shape returns (min, opt, max); the largest shape counts. Outputs have none.
        shape = engine.get_tensor_shape(binding)
        if profile_idx is not None and engine.get_tensor_mode(binding) == trt.TensorIOMode.INPUT:
            shape = engine.get_tensor_profile_shape(binding, profile_idx)[-1]
        if not np.all([s >= 0 for s in shape]):
            raise ValueError(f"Binding {binding} has dynamic shape, but no profile was specified.")
        memory = HostDeviceMem(trt.volume(shape), np.dtype(trt.nptype(engine.get_tensor_dtype(binding))))
        bindings.append(int(memory.device))
        if engine.get_tensor_mode(binding) == trt.TensorIOMode.INPUT:
            inputs.append(memory)
        else:
            outputs.append(memory)
    return inputs, outputs, bindings, stream


def free_buffers(inputs, outputs, stream):
    for mem in inputs + outputs:
        mem.free()
    cuda_call(cudart.cudaStreamDestroy(stream))


def do_inference(context, engine, bindings, inputs, outputs, stream):
    for i in range(engine.num_io_tensors):
        context.set_tensor_address(engine.get_tensor_name(i), bindings[i])
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    for inp in inputs:
        cuda_call(cudart.cudaMemcpyAsync(inp.device, inp.host, inp.nbytes, kind, stream))
    context.execute_async_v3(stream_handle=stream)
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    for out in outputs:
        cuda_call(cudart.cudaMemcpyAsync(out.host, out.device, out.nbytes, kind, stream))
    cuda_call(cudart.cudaStreamSynchronize(stream))
    return [out.host for out in outputs]
