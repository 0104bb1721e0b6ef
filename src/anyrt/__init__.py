"""AnyRT: an open implementation of the TensorRT Python API that compiles networks for any machine."""
