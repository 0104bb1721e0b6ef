"""Stand-ins for the modules of cuda-python: runtime, driver, nvrtc and `cuda.core`."""
