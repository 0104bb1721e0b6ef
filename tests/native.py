"""What `compiler/` makes and runs of graphs, handed the strategies and the device of this machine, or of the
emulated one."""

from typing import Any

from anyrt.backends import loader
from anyrt.compiler import native, trial
from anyrt.compiler import verify as verification
from anyrt.compiler.native import Lowered, compile_lowered, scratch_bytes, text
from anyrt.compiler.trial import Loaded
from anyrt.compiler.verify import Mismatch

__all__ = ["Lowered", "compile_lowered", "load", "lower", "scratch_bytes", "text", "verify"]


def lower(*given: Any, **named: Any) -> Lowered:
    """`native.lower`, with the strategies of this machine's target unless others are named."""
    return native.lower(*given, **{"strategies": loader.target().strategies} | named)


def load(lowered: Lowered, target: native.Target) -> Loaded:
    """Code in the memory of this machine's device."""
    return trial.load(lowered, target, loader.device())


def verify(lowered: Lowered, target: native.Target, *given: Any, **named: Any) -> tuple[Mismatch, ...]:
    """What differs from the interpreter on this machine's device."""
    return verification.verify(lowered, target, loader.device(), *given, **named)
