"""What any LLVM target shares: kernels to LLVM text, text to objects; llvmlite behind one module."""
