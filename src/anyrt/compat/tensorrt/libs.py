"""`tensorrt_libs`: in TensorRT a folder of shared objects; nothing here has any.

Programs open what they expect in this folder by path, and `ctypes` finds it by its name
(`compat/ctypes/libraries.py`).
"""

from __future__ import annotations
