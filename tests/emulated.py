"""AArch64 emulated in this process with Unicorn: its code runs as on the device.

    with emulated():
        assert verify(lowered, host(), [{}]) == ()

The emulator uses the addresses of this process, so an array that holds addresses, such as an array of
arguments, works unchanged. Threads are not emulated: the emulator would keep an order of memory accesses that
hardware does not guarantee.
"""

import bisect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from anyrt.backends import loader
from anyrt.backends.cpu import processors
from anyrt.backends.cpu.device import CpuCode, CpuDevice
from anyrt.backends.cpu.pool import compile_pool
from anyrt.backends.cpu.processors import Level, Processor, forced
from anyrt.plan.pool import PARALLEL, STOP, WORKER
from anyrt.plan.program import Compiled
from tests.mmla import MODELS

try:
    import unicorn
    from unicorn import arm64_const as arm
except ImportError:  # an optional dependency for development
    unicorn = arm = None

MISSING = "unicorn is not installed: it comes with the extra dev"
ARM = forced(Level.NEON)
SDOT = replace(ARM, features="+dotprod", lacks=ARM.lacks - {"has_sdot"})  # emulated, but not BFDOT
STACK = 1 << 20
MOST = 1 << 24  # number of bytes mapped at once
PAGE = 1 << 12
UNDEFINED = 1  # the number of that exception


@contextmanager
def emulated(processor: Processor = ARM) -> Iterator[None]:
    """Replace this machine's processor and its device by an AArch64."""
    chosen = patch.multiple(processors, host=lambda: processor, choose=lambda level: processor)
    with chosen, patch.object(loader.Backend, "device", lambda backend: Emulated()):
        yield


class Emulated(CpuDevice):
    """Memory of this process, and code that Unicorn executes."""

    def identity(self) -> str:
        """The identity of no real machine."""
        return "emulated AArch64"

    def load(self, compiled: Compiled) -> "EmulatedCode":
        """Load an image where the emulator finds it."""
        return EmulatedCode(super().load(compiled), Machine())


@dataclass(frozen=True, slots=True, eq=False)
class EmulatedCode:
    """A loaded AArch64 image."""

    code: CpuCode
    machine: "Machine"

    def address(self, entry: str) -> int:
        """The address of `entry`."""
        return self.code.address(entry)

    def function(self, entry: str, arguments: int) -> Callable[..., int]:
        """`entry` as a callable that takes this many 64-bit arguments and returns an int32."""
        if entry in (WORKER, STOP):  # threads end at once; at Python's exit, emulators end before pools
            return lambda *values: 0
        self.machine.execute(self.code)
        return lambda *values: self.machine.call(self.address(entry), values)


@cache
def _pool() -> CpuCode:
    """The regions of a pool without threads: the caller runs one chunk after the other."""
    return CpuDevice().load(compile_pool(ARM))


class Machine:
    """A processor. It maps memory of this process on first access."""

    def __init__(self) -> None:
        self.uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        self.parts: list[tuple[int, int]] = []  # of the memory that it has mapped, in order
        self.lock = threading.Lock()
        self.stack = np.zeros(STACK, np.uint8)
        self.system: Callable[..., int] = lambda number, *arguments: 0  # its return value
        self.uc.hook_add(
            unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED,
            lambda uc, access, address, size, value, data: self.find(address),
        )
        self.uc.hook_add(unicorn.UC_HOOK_INTR, lambda uc, number, data: self.interrupt(number))
        self.execute(_pool())

    def execute(self, code: CpuCode) -> None:
        """Let the processor execute an image."""
        begin = code.base
        if (begin, begin + len(code.pages)) not in self.parts:
            self._map(begin, begin + len(code.pages), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)

    def call(self, address: int, arguments: tuple[int, ...]) -> int:
        """Call a function and return its value. Only one thread at a time uses this processor."""
        with self.lock:
            return self._call(address, arguments)

    def _call(self, address: int, arguments: tuple[int, ...]) -> int:
        end = _pool().base  # an arbitrary return address: execution stops there
        top = self.stack.ctypes.data + STACK & -16
        registers = {arm.UC_ARM64_REG_SP: top, arm.UC_ARM64_REG_LR: end}
        registers |= {arm.UC_ARM64_REG_X0 + n: x for n, x in enumerate(arguments)}
        for register, x in registers.items():
            self.uc.reg_write(register, x & (1 << 64) - 1)
        while address != end:
            try:
                self.uc.emu_start(address, end)
                address = self.uc.reg_read(arm.UC_ARM64_REG_PC)
            except unicorn.UcError as error:
                if error.errno not in (unicorn.UC_ERR_FETCH_UNMAPPED, unicorn.UC_ERR_FETCH_PROT):
                    where = self.uc.reg_read(arm.UC_ARM64_REG_PC)
                    raise AssertionError(f"{error} at {where:#x}") from error
                address = _pool().address(
                    PARALLEL
                )  # a pool of this machine's native code: replace it by the AArch64 one
        return (self.uc.reg_read(arm.UC_ARM64_REG_X0) + (1 << 31)) % (1 << 32) - (1 << 31)

    def interrupt(self, number: int) -> None:
        """Call the system, or compute an instruction that the processor does not support."""
        if number != UNDEFINED:
            return self.answer()
        at = self.uc.reg_read(arm.UC_ARM64_REG_PC)
        word = int.from_bytes(self.uc.mem_read(at, 4), "little")
        model = MODELS.get(word & 0xFFE0FC00)
        assert model is not None, f"the emulator lacks the instruction {word:#010x} at {at:#x}"
        numbers = (word & 31, word >> 5 & 31, word >> 16 & 31)
        total, a, b = (arm.UC_ARM64_REG_Q0 + n for n in numbers)
        result = model(*(self.uc.reg_read(r).to_bytes(16, "little") for r in (total, a, b)))
        self.uc.reg_write(total, int.from_bytes(result, "little"))
        self.uc.reg_write(arm.UC_ARM64_REG_PC, at + 4)
        return None

    def answer(self) -> None:
        """Call the system."""
        taken = [arm.UC_ARM64_REG_X8, *range(arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_X0 + 4)]
        answer = self.system(*map(self.uc.reg_read, taken))
        self.uc.reg_write(arm.UC_ARM64_REG_X0, answer)

    def find(self, address: int) -> bool:
        """Map the memory of this process around an address; return False if there is none."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            begin, end = (int(x, 16) for x in line.split(" ", 1)[0].split("-"))
            if begin <= address < end:
                begin, end = max(begin, address - MOST & -PAGE), min(end, address + MOST & -PAGE)
                at = bisect.bisect(self.parts, (address, address))
                begin = max([begin, *(e for _, e in self.parts[at - 1 : at])])
                end = min([end, *(b for b, _ in self.parts[at : at + 1])])
                self._map(begin, end, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
                return True
        return False

    def _map(self, begin: int, end: int, how: int) -> None:
        for part in [p for p in self.parts if p[0] < end and begin < p[1]]:
            self.uc.mem_unmap(part[0], part[1] - part[0])
            self.parts.remove(part)
        self.uc.mem_map_ptr(begin, end - begin, how, begin)
        bisect.insort(self.parts, (begin, end))
