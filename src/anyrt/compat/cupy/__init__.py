"""Stand-ins for `cupy` and `cupy.cuda`."""
