"""Programs and kernels of `cuda.core`, which a C++ compiler compiles for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from anyrt.compat.cuda.driver_kernels import run
from anyrt.compat.kernels.module import Kernel as Compiled
from anyrt.compat.kernels.module import compiled, laid_out, loaded
from anyrt.core.errors import NotSupportedError


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """The configuration of a launch: grid, block and shared memory."""

    grid: int | tuple[int, ...] = 1
    block: int | tuple[int, ...] = 1
    cluster: int | tuple[int, ...] | None = None
    shmem_size: int = 0


def ProgramOptions(**options: object) -> dict[str, object]:
    """Options of the compiler: only `define_macro` and `include_path` have an effect."""
    return options


class Kernel:
    """A kernel, for `launch`."""

    def __init__(self, code: Compiled) -> None:
        self._code = code


class ObjectCode:
    """A compiled module, which has kernels by name."""

    def __init__(self, code: bytes, code_type: str = "cubin", names: Sequence[str] = ()) -> None:
        self.code, self.code_type, self._names = code, code_type, tuple(names)
        self._module = loaded(code)

    @staticmethod
    def from_cubin(module: bytes, **more: object) -> ObjectCode:
        """Load an image that this package compiled."""
        return ObjectCode(module)

    def get_kernel(self, name: str | bytes) -> Kernel:
        """A kernel by its name, or by the name expression of a template instance."""
        text = name if isinstance(name, str) else name.decode()
        lowered = f"named_{self._names.index(text)}" if text in self._names else text
        return Kernel(self._module.kernel(lowered))


class Program:
    """The source of kernels: `Program(text, "c++").compile("cubin").get_kernel("name")`."""

    def __init__(self, code: str, code_type: str, options: dict[str, object] | None = None) -> None:
        if code_type != "c++":
            do = "pass the source of the kernel"
            raise NotSupportedError("AR901", "Program", f"code_type={code_type!r}", "code_type='c++'", do)
        self.code, self.options = code, options or {}

    def compile(
        self, target_type: str = "cubin", name_expressions: Sequence[str] = (), logs: object = None
    ) -> ObjectCode:
        """Compile the source."""
        flags = [f"-D{x}" for x in _defined(self.options.get("define_macro"))]
        flags += [f"-I{x}" for x in _listed(self.options.get("include_path"))]
        image = compiled(self.code, tuple(flags), tuple(name_expressions))
        return ObjectCode(image, target_type, name_expressions)

    def close(self) -> None:
        """Do nothing: a program holds no resources."""


def _listed(items: object) -> list[object]:
    return [] if items is None else [*items] if isinstance(items, list) else [items]


def _defined(definitions: object) -> list[str]:
    """Macros as options of the compiler, from names and pairs of name and value."""
    return ["=".join(map(str, x)) if isinstance(x, tuple) else str(x) for x in _listed(definitions)]


class _HasStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...


def launch(stream: _HasStream, config: LaunchConfig, kernel: Kernel, *kernel_args: object) -> None:
    """Execute a kernel for all threads. Arguments: buffers, addresses, numbers of NumPy and Python."""
    values = laid_out([_address(x) for x in kernel_args])
    name, sizes = kernel._code.name, kernel._code.sizes
    if len(values) != len(sizes):
        raise TypeError(f"{name} takes {len(sizes)} arguments, got {len(values)}")
    held = [x.tobytes()[:n] for x, n in zip(values, sizes, strict=True)]
    grid, block = _three(config.grid), _three(config.block)
    run(kernel._code, grid, block, stream.__cuda_stream__()[1], held, config.shmem_size)


def _address(value: object) -> object:
    """The address of a buffer; other values unchanged."""
    return getattr(value, "handle", value)


def _three(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    return (*(sizes if isinstance(sizes, tuple) else (sizes,)), 1, 1)[:3]


__all__: Final = ["Kernel", "LaunchConfig", "ObjectCode", "Program", "ProgramOptions", "launch"]
