"""The plan file, the kernel cache, and the contract between native code and its caller."""
