"""CUDA C++ kernels, which a C++ compiler compiles for this machine."""
