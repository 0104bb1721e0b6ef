"""Stand-in for `cuda.core.system`: how many devices there are.

>>> num_devices, get_num_devices(), driver_version
(1, 1, (12, 8))
"""

from __future__ import annotations

from anyrt.compat.host.device import CUDA_VERSION

num_devices = 1
driver_version = CUDA_VERSION // 1000, CUDA_VERSION % 1000 // 10


def get_num_devices() -> int:
    """One device."""
    return num_devices


def get_driver_version() -> tuple[int, int]:
    """A version of CUDA 12."""
    return driver_version
