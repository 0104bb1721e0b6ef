"""LLVM behind one typed module: text in, object or assembly out; and LLVM's facts about this machine.

This is the only module that imports llvmlite. Every call uses a context of its own, so that any number of
threads may compile at once (llvmlite itself lets one of them at a time into LLVM).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from anyrt.core.errors import CompileError
from anyrt.plan.room import require_room

T = TypeVar("T")

# In a child that is forked while another thread is inside LLVM, llvmlite's lock would be held for ever, and
# LLVM's global state might be half changed; so a fork waits for the call to end.
_lock = ffi.lib._lock
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_lock.__enter__, after_in_parent=_lock.__exit__, after_in_child=_lock.__exit__)


class Target(Protocol):
    """The target of a compilation, in LLVM's names; features as "+avx2,+fma"."""

    @property
    def triple(self) -> str:
        """Architecture and system."""

    @property
    def cpu(self) -> str:
        """The processor, "generic" where it is not known."""

    @property
    def features(self) -> str:
        """Its features beyond the baseline."""


def this_processor() -> tuple[str, str, Mapping[str, bool]]:
    """(triple, processor, whether each feature is available) of this machine."""
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features()


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of LLVM; by default it vectorises nothing, since kernels contain their vectors."""

    speed: int = 2
    vectorize: bool = False
    unroll: bool = True
    instructions: int = 3  # how hard it looks for good ones, when all else is done


NORMAL = Effort()
VERSION = f"llvmlite {llvmlite.__version__}, LLVM {llvm.llvm_version_info}, {NORMAL}"

# Measured on texts of 32 KB to 2 MB: 1 MB and 5.3 times the text; three times as much is required.
_ROOM, _ROOM_PER_BYTE = 32 << 20, 16


def compile_text(ir: str, target: Target, effort: Effort = NORMAL) -> bytes:
    """A position-independent object file of the module `ir`."""
    return _with_module(ir, target, effort, lambda machine, module: bytes(machine.emit_object(module)))


def assembly(ir: str, target: Target, effort: Effort = NORMAL) -> str:
    """The assembly of the object that `compile_text` returns."""
    return _with_module(ir, target, effort, lambda machine, module: str(machine.emit_assembly(module)))


def parameters(ir: str, name: str) -> tuple[str, ...] | None:
    """Types of the parameters of a function, as LLVM writes them; None if the function does not exist."""
    context = llvm.create_context()
    try:
        with llvm.parse_assembly(ir, context) as module:
            function = next((f for f in module.functions if f.name == name and not f.is_declaration), None)
            return None if function is None else tuple(str(x.type) for x in function.arguments)
    except RuntimeError as error:
        raise _refused(str(error), ir) from None


def quoted(name: str) -> str:
    """A function's name as assembly shows it within quotes."""
    return name.replace("\\", r"\\").replace('"', r"\"")


def optimised(ir: str, target: Target, effort: Effort = NORMAL) -> str:
    """The module after LLVM's own passes."""
    return _with_module(ir, target, effort, lambda _, module: str(module))


def _with_module(
    ir: str, target: Target, effort: Effort, emit: Callable[[llvm.TargetMachine, llvm.ModuleRef], T]
) -> T:
    require_room(_ROOM + _ROOM_PER_BYTE * len(ir), "LLVM")
    _initialise()
    context = llvm.create_context()
    try:
        machine = _machine(target.triple, target.cpu, target.features, effort.instructions)
        with llvm.parse_assembly(ir, context) as module:
            module.triple, module.data_layout = target.triple, str(machine.target_data)
            module.verify()
            _optimise(module, machine, effort)
            return emit(machine, module)
    except RuntimeError as error:  # llvmlite's exception for every message of LLVM
        raise _refused(str(error), ir) from None


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, effort: Effort) -> None:
    tuning = llvm.create_pipeline_tuning_options(effort.speed)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = effort.vectorize
    tuning.loop_unrolling = effort.unroll
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


@cache
def _machine(triple: str, cpu: str, features: str, instructions: int) -> llvm.TargetMachine:
    """One target machine for all modules: creating it reads the processor's features and builds tables of its
    instructions, which takes as long as compiling a small kernel. Threads share it, since only one thread at
    a time is in LLVM."""
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=instructions, reloc="pic", codemodel="small"
    )


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # for inline assembly


def _refused(message: str, ir: str) -> CompileError:
    """LLVM's message, with the line of the text that it names."""
    place = re.search(r"<string>:(\d+):(\d+)", message)
    lines = ir.splitlines()
    if place is None or not 0 < int(place[1]) <= len(lines):
        return CompileError("AR808", "generated code", got=message.strip())
    text = re.sub(r"\s+", " ", message.split("error:", 1)[-1]).strip()
    where = f"generated code, line {place[1]} column {place[2]} ({lines[int(place[1]) - 1].strip()})"
    return CompileError("AR808", where, got=text)
