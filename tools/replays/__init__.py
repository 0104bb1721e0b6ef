"""Kernels of many networks for many machines, and their digests: `python -m tools.replay --help`."""
