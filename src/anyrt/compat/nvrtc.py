"""Stand-in for `cuda.bindings.nvrtc`: its result codes, for error helpers; nothing can be compiled.

>>> nvrtcVersion()
(<nvrtcResult.NVRTC_SUCCESS: 0>, 12, 8)
"""

from __future__ import annotations

from enum import IntEnum

from anyrt.compat.device import CUDA_VERSION
from anyrt.compat.refusing import refusing


class nvrtcResult(IntEnum):
    """Result codes of the run-time compiler."""

    NVRTC_SUCCESS, NVRTC_ERROR_OUT_OF_MEMORY, NVRTC_ERROR_PROGRAM_CREATION_FAILURE = range(3)
    NVRTC_ERROR_INVALID_INPUT, NVRTC_ERROR_INVALID_PROGRAM, NVRTC_ERROR_INVALID_OPTION = range(3, 6)
    NVRTC_ERROR_COMPILATION = 6


def nvrtcGetErrorString(result: nvrtcResult) -> tuple[nvrtcResult, bytes]:
    """The name of a code."""
    return nvrtcResult.NVRTC_SUCCESS, nvrtcResult(result).name.encode()


def nvrtcVersion() -> tuple[nvrtcResult, int, int]:
    """A version of CUDA 12."""
    return nvrtcResult.NVRTC_SUCCESS, CUDA_VERSION // 1000, CUDA_VERSION % 1000 // 10


nvrtcCreateProgram = refusing("nvrtcCreateProgram")
nvrtcCompileProgram = refusing("nvrtcCompileProgram")
nvrtcAddNameExpression = refusing("nvrtcAddNameExpression")
nvrtcGetProgramLog = refusing("nvrtcGetProgramLog")
nvrtcGetPTX = refusing("nvrtcGetPTX")
nvrtcGetCUBIN = refusing("nvrtcGetCUBIN")
