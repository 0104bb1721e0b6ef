"""Stand-ins for the modules of `pycuda`."""
