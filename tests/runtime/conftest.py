"""Hand-written native code: what the compiler makes, in its smallest form."""

from collections.abc import Callable

import pytest

from anyrt.backends.cpu.device import CpuDevice
from anyrt.codegen.image import flatten
from anyrt.codegen.llvm import compile_text, host
from anyrt.codegen.pool import compile_pool
from anyrt.plan.program import Compiled, Program


@pytest.fixture(scope="session")
def device() -> CpuDevice:
    return CpuDevice()


@pytest.fixture(scope="session")
def pool_code() -> Compiled:
    return compile_pool(host())


@pytest.fixture(scope="session")
def build() -> Callable[[str], Compiled]:
    """LLVM text to code with nothing but entries."""

    def compile_entries(text: str) -> Compiled:
        image, entries = flatten(compile_text(text, host()))
        return Compiled(Program((), 0, 0, 0, (), tuple(entries.items())), image)

    return compile_entries
