"""PyTorch's device "cuda" over host memory, for a PyTorch without CUDA."""
