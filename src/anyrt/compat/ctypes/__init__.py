"""The libraries of CUDA and TensorRT that programs open with `ctypes`, as Python callables."""
