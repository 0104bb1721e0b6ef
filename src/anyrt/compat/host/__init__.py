"""Host memory as a device: allocations, streams, events, captured work; the return values of CUDA's
functions."""
