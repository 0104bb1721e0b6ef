"""Writes kernels in C, which c++ compiles."""
