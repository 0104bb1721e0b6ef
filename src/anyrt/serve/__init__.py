"""Models behind HTTP and gRPC: the Open Inference Protocol, version 2, by `anyrt serve`."""
