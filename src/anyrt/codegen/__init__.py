"""Kernels to machine code: LLVM text, objects, images, the thread pool; llvmlite behind one module."""
