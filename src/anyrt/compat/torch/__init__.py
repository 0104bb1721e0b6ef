"""PyTorch's device "cuda" over host memory, where PyTorch has no CUDA."""
