"""The part that all LLVM targets share: kernels to LLVM text, text to objects; llvmlite behind one module."""
