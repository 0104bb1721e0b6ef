"""Shared libraries that programs open with `ctypes`: CUDA's and TensorRT's, as callables."""
