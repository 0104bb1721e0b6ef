"""Stand-in for `cuda.bindings.nvrtc`: its result codes, for error helpers; nothing can be compiled."""

from __future__ import annotations

from enum import IntEnum


class nvrtcResult(IntEnum):
    """Result codes of the run-time compiler."""

    NVRTC_SUCCESS, NVRTC_ERROR_OUT_OF_MEMORY, NVRTC_ERROR_PROGRAM_CREATION_FAILURE = range(3)
    NVRTC_ERROR_INVALID_INPUT, NVRTC_ERROR_INVALID_PROGRAM, NVRTC_ERROR_INVALID_OPTION = range(3, 6)
    NVRTC_ERROR_COMPILATION = 6


def nvrtcGetErrorString(result: nvrtcResult) -> tuple[nvrtcResult, bytes]:
    """The name of a code."""
    return nvrtcResult.NVRTC_SUCCESS, nvrtcResult(result).name.encode()
