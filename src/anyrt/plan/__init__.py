"""The plan file, the kernel cache, and the interface between native code and its caller."""
