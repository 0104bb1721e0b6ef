"""Computes nothing: counts the kernels and the bytes that they move."""
