"""Host memory as a device: allocation, streams, events, captured work; how CUDA's functions answer."""
