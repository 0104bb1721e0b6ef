"""`tensorrt_libs`: in TensorRT a folder of shared objects; AnyRT has none.

Programs open libraries in this folder by path, and `ctypes` identifies them by their names
(`compat/ctypes/libraries.py`).
"""

from __future__ import annotations
