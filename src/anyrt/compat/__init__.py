"""Programs written for TensorRT start unchanged: the name `tensorrt`, and CUDA libraries over host memory.

    python -m anyrt.compat script.py arguments...     runs the script as it is

or, at the top of a program: `import anyrt.compat; anyrt.compat.install()`.
"""

from anyrt.compat.install import install

__all__ = ["install"]
