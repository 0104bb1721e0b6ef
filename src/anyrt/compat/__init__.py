"""Runs programs written for TensorRT unchanged: provides `tensorrt`, and CUDA libraries over host memory.

    python -m anyrt.compat script.py arguments...     run a script
    python -m anyrt.compat --api 8.6 script.py        run a script for TensorRT 8

or, at the top of a program: `import anyrt.compat; anyrt.compat.install()`.
"""

from anyrt.compat.install import install

__all__ = ["install"]
