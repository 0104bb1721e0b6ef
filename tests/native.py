"""`compiler/` with the strategies and the device of this machine, or of the emulated one."""

from typing import Any

from anyrt.backends import loader
from anyrt.compiler import driver, native, trial
from anyrt.compiler import verify as verification
from anyrt.compiler.native import Lowered, compile_lowered, scratch_bytes, text
from anyrt.compiler.request import BuildRequest
from anyrt.compiler.trial import Loaded
from anyrt.compiler.verify import Mismatch
from anyrt.plan.file import CHUNK, PlanFile

__all__ = [
    "Lowered",
    "build",
    "compile_lowered",
    "load",
    "lower",
    "lower_plan",
    "scratch_bytes",
    "text",
    "verify",
]


def build(request: BuildRequest) -> bytes:
    """The plan of a network for this machine's target and device."""
    return b"".join(driver.build_parts(request, loader.target(), loader.device()).chunks(CHUNK))


def lower_plan(file: PlanFile, *target: native.Target) -> Lowered:
    """The kernels of a plan for this machine's target, or for another one."""
    return driver.lower_plan(file, *target or (loader.target(),))


def lower(*arguments: Any, **named: Any) -> Lowered:
    """`native.lower` with the strategies of this machine's target, or with those of the `strategies`
    argument."""
    return native.lower(*arguments, **{"strategies": loader.target().strategies} | named)


def load(lowered: Lowered, target: native.Target) -> Loaded:
    """Code in the memory of this machine's device."""
    return trial.load(lowered, target, loader.device())


def verify(lowered: Lowered, target: native.Target, *arguments: Any, **named: Any) -> tuple[Mismatch, ...]:
    """The differences from the interpreter on this machine's device."""
    return verification.verify(lowered, target, loader.device(), *arguments, **named)
