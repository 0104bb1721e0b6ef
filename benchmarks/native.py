"""Kernels in LLVM text, compiled by AnyRT's code generator and run on AnyRT's thread pool.

Measurements of the machine use the tools of the engines: the same pool wakes the same threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from anyrt.backends.cpu import processors
from anyrt.backends.cpu.device import CpuCode, CpuDevice
from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.target import CpuTarget
from anyrt.codegen import llvm
from anyrt.compiler.cached import obtain_pool
from anyrt.plan import abi
from anyrt.plan.program import Compiled, Program
from anyrt.runtime.pool import shared_pool

# A region of kernel @k over the pool; the first binding holds the items, each thread claims one at a time.
_RUN = f"""
define i32 @run(ptr %args) #0 {{
  %pool = load ptr, ptr %args
  %parallel = load ptr, ptr %pool
  %items.at = getelementptr i64, ptr %args, i64 {abi.FIRST_BINDING}
  %items = load i64, ptr %items.at
  call void %parallel(ptr %pool, ptr @k, ptr %args, i64 %items, i64 1)
  ret i32 0
}}
attributes #0 = {{ nounwind "no-builtins" }}
!0 = !{{i32 1}}
"""
SCRATCH_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A compiled kernel with its arguments; call it to run it."""

    code: CpuCode
    words: NDArray[np.int64]
    held: tuple[object, ...]
    address: int
    function: Callable[[int], int]

    def __call__(self) -> int:
        return self.function(self.address)


def region(
    kernel: str, items: int, words: tuple[int, ...], threads: int, held: tuple[object, ...] = ()
) -> Region:
    """Kernel text with a function @k(args, begin, end, scratch); `words` follow the items.

    held: objects that must live as long as the region, since words are addresses."""
    code = _compiled(kernel)
    device = CpuDevice()
    pool = shared_pool(threads, device, lambda: obtain_pool(device, CpuTarget))
    pool.ensure()
    scratch = np.zeros(SCRATCH_BYTES * threads, np.uint8)
    args = np.zeros(abi.FIRST_BINDING + 1 + len(words), np.int64)
    args[abi.POOL], args[abi.SCRATCH], args[abi.SCRATCH_STRIDE] = (
        pool.address,
        scratch.ctypes.data,
        SCRATCH_BYTES,
    )
    args[abi.FIRST_BINDING :] = (items, *words)
    return Region(code, args, (scratch, *held), args.ctypes.data, code.function("run", 1))


@cache
def _compiled(kernel: str) -> CpuCode:
    image, entries = flatten(llvm.compile_text(kernel + _RUN, processors.host()))
    program = Program((), 0, 0, 0, 0, (), tuple(entries.items()))
    return CpuDevice().load(Compiled(program, image))


def word(name: str, index: int) -> str:
    """LLVM text that loads word `index` after the items as %name."""
    at = abi.FIRST_BINDING + 1 + index
    return f"  %{name}.at = getelementptr i64, ptr %args, i64 {at}\n  %{name} = load i64, ptr %{name}.at\n"
