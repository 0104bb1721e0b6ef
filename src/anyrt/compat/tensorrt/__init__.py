"""What TensorRT has beside the module `anyrt`: its lean runtime, signatures, and names of TensorRT 8.6."""
