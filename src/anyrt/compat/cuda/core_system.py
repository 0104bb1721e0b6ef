"""Stand-in for `cuda.core.system`: the number of devices.

>>> num_devices, get_num_devices(), driver_version
(1, 1, (12, 8))
"""

from __future__ import annotations

from anyrt.compat.host.device import CUDA_VERSION

num_devices = 1
driver_version = CUDA_VERSION // 1000, CUDA_VERSION % 1000 // 10


def get_num_devices() -> int:
    """The number of devices: 1."""
    return num_devices


def get_driver_version() -> tuple[int, int]:
    """The driver version that is reported: CUDA 12."""
    return driver_version
