"""Stand-in for `pycuda.compiler`: a C++ compiler compiles CUDA C++ kernels for this machine."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.codegen.foreign import Rejected
from anyrt.compat.host.refusing import refusing
from anyrt.compat.kernels.module import compiled
from anyrt.compat.pycuda.errors import CompileError
from anyrt.compat.pycuda.kernels import Module


def compile(source: str, nvcc: str = "nvcc", options: Sequence[str] | None = None, **more: object) -> bytes:
    """Compile a source and return its image, which `module_from_buffer` loads."""
    whole = source if more.get("no_extern_c") else f'extern "C" {{\n#line 1 "kernel"\n{source}\n}}\n'
    try:
        return compiled(whole, tuple(options or ()))
    except Rejected as rejected:
        raise CompileError(f"compilation of the kernel failed: {rejected}") from None


class SourceModule(Module):
    """The kernels of a source: `SourceModule(text).get_function("name")`."""

    def __init__(
        self, source: str, nvcc: str = "nvcc", options: Sequence[str] | None = None, **more: object
    ) -> None:
        Module.__init__(self, compile(source, nvcc, options, **more))


DynamicModule = refusing("DynamicModule")
