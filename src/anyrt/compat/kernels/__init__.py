"""Kernels in CUDA's C++, which a C++ compiler of this machine compiles."""
