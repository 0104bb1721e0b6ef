"""Programs written for TensorRT start unchanged: the name `tensorrt`, and CUDA libraries over host memory.

    python -m anyrt.compat script.py arguments...     runs the script as it is
    python -m anyrt.compat --api 8.6 script.py        one that was written for TensorRT 8

or, at the top of a program: `import anyrt.compat; anyrt.compat.install()`.
"""

from anyrt.compat.install import install

__all__ = ["install"]
