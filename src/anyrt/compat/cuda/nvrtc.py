"""Stand-in for `cuda.bindings.nvrtc`: a C++ compiler compiles kernels for this machine.

The cubin or PTX that it returns is an image that `cuModuleLoadData` of this package loads.

>>> nvrtcVersion()
(<nvrtcResult.NVRTC_SUCCESS: 0>, 12, 8)
>>> nvrtcGetProgramLogSize(nvrtcProgram(0))
(<nvrtcResult.NVRTC_ERROR_INVALID_PROGRAM: 4>, None)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, SupportsIndex

from anyrt.codegen.foreign import Rejected
from anyrt.compat.cuda.driver_types import _Handle
from anyrt.compat.host.answers import Answering
from anyrt.compat.host.device import CUDA_VERSION, DeviceFault, Fault, write
from anyrt.compat.kernels.module import compiled


class nvrtcResult(IntEnum):
    """Result codes of the run-time compiler."""

    NVRTC_SUCCESS, NVRTC_ERROR_OUT_OF_MEMORY, NVRTC_ERROR_PROGRAM_CREATION_FAILURE = range(3)
    NVRTC_ERROR_INVALID_INPUT, NVRTC_ERROR_INVALID_PROGRAM, NVRTC_ERROR_INVALID_OPTION = range(3, 6)
    NVRTC_ERROR_COMPILATION = 6


class nvrtcProgram(_Handle):
    """A program: its source, its image and its log."""


@dataclass(slots=True)
class _Program:
    text: str
    names: list[str] = field(default_factory=list)
    log: bytes = b"\0"
    image: bytes | None = None


_PROGRAMS: Final[dict[int, _Program]] = {}
_NUMBERS: Final = itertools.count(1)
_CODES: Final = {
    None: nvrtcResult.NVRTC_SUCCESS,
    Fault.INVALID_VALUE: nvrtcResult.NVRTC_ERROR_INVALID_INPUT,
    Fault.INVALID_HANDLE: nvrtcResult.NVRTC_ERROR_INVALID_PROGRAM,
    Fault.LAUNCH_FAILED: nvrtcResult.NVRTC_ERROR_COMPILATION,
}
_code, _code_and_value = (Answering(_CODES, n) for n in range(2))


def _program(prog: SupportsIndex) -> _Program:
    if int(prog) not in _PROGRAMS:
        raise DeviceFault(Fault.INVALID_HANDLE)
    return _PROGRAMS[int(prog)]


def _image(prog: SupportsIndex) -> bytes:
    image = _program(prog).image
    if image is None:  # it was not compiled, or the compilation failed
        raise DeviceFault(Fault.INVALID_HANDLE)
    return image


def _text(text: bytes | str) -> str:
    return text if isinstance(text, str) else text.rstrip(b"\0").decode()


def nvrtcGetErrorString(result: nvrtcResult) -> tuple[nvrtcResult, bytes]:
    """The name of a code."""
    return nvrtcResult.NVRTC_SUCCESS, nvrtcResult(result).name.encode()


def nvrtcVersion() -> tuple[nvrtcResult, int, int]:
    """The version that is reported: CUDA 12."""
    return nvrtcResult.NVRTC_SUCCESS, CUDA_VERSION // 1000, CUDA_VERSION % 1000 // 10


@_code_and_value
def nvrtcCreateProgram(
    src: bytes | str,
    name: bytes | str = b"",
    numHeaders: int = 0,
    headers: Sequence[bytes] | None = None,
    includeNames: Sequence[bytes] | None = None,
) -> nvrtcProgram:
    """Create a program from a source; the text of `headers` replaces the #include lines that name them."""
    text = _text(src)
    for header, included in zip(headers or (), includeNames or (), strict=True):
        for quoted in (f'"{_text(included)}"', f"<{_text(included)}>"):
            text = text.replace(f"#include {quoted}", _text(header))
    number = next(_NUMBERS)
    _PROGRAMS[number] = _Program(text)
    return nvrtcProgram(number)


@_code
def nvrtcDestroyProgram(prog: SupportsIndex) -> None:
    """Destroy a program."""
    _program(prog)
    del _PROGRAMS[int(prog)]


@_code
def nvrtcAddNameExpression(prog: SupportsIndex, name_expression: bytes | str) -> None:
    """Request an instance of a template kernel, such as `scale<float>`."""
    _program(prog).names.append(_text(name_expression))


@_code
def nvrtcCompileProgram(prog: SupportsIndex, numOptions: int, options: Sequence[bytes]) -> None:
    """Compile a program; errors of the compiler go to the log. AR901 for features of GPUs without an
    equivalent."""
    program = _program(prog)
    texts = tuple(_text(o) for o in options[:numOptions])
    try:
        program.image, program.log = compiled(program.text, texts, tuple(program.names)), b"\0"
    except Rejected as rejected:
        program.log = str(rejected).encode() + b"\0"
        raise DeviceFault(Fault.LAUNCH_FAILED) from None


@_code_and_value
def nvrtcGetLoweredName(prog: SupportsIndex, name_expression: bytes | str) -> bytes:
    """The name in the module of the kernel of a name expression."""
    names = _program(prog).names
    if _text(name_expression) not in names:
        raise DeviceFault(Fault.INVALID_VALUE)
    return f"named_{names.index(_text(name_expression))}".encode()


@_code_and_value
def nvrtcGetProgramLogSize(prog: SupportsIndex) -> int:
    """The size of the log in bytes, with a zero byte at the end."""
    return len(_program(prog).log)


@_code
def nvrtcGetProgramLog(prog: SupportsIndex, log: object) -> None:
    """Write the log into a buffer, even if that is a `bytes` object, as cuda-python does."""
    write(log, _program(prog).log)


@_code_and_value
def nvrtcGetCUBINSize(prog: SupportsIndex) -> int:
    """The size of the image in bytes."""
    return len(_image(prog))


@_code
def nvrtcGetCUBIN(prog: SupportsIndex, cubin: object) -> None:
    """Write the image into a buffer."""
    write(cubin, _image(prog))


nvrtcGetPTXSize, nvrtcGetPTX = nvrtcGetCUBINSize, nvrtcGetCUBIN
