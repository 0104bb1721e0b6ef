"""Parts of TensorRT outside the module `anyrt`: lean runtime, signatures, and names of TensorRT 8.6."""
