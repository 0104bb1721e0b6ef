"""Runs the kernels that engines are made of, in the order of the host program, with NumPy: what compiled code
is compared with, and where every access is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from anyrt.backends import loader
from anyrt.backends.steps import run
from anyrt.codegen.target import Answer, Job
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Intrinsic
from anyrt.ir.prim import Array
from anyrt.ir.run import run as run_kernel
from anyrt.schedule.step import Strategies


class InterpTarget:
    """The interpreter of kernels as a backend."""

    @property
    def strategies(self) -> Strategies:
        """Those of native code, so that its kernels are run."""
        return loader.target().strategies

    @property
    def intrinsics(self) -> Sequence[Intrinsic]:
        """Those of native code."""
        return loader.target().intrinsics

    def limited(self, machine: Machine) -> Machine:
        """The machine of native code."""
        return loader.target().limited(machine)

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """The outputs; CompileError AR810 for a kernel that reads or writes outside of its memory."""
        outputs = run(job, feeds, partial(run_kernel, lanes=job.machine.lanes))
        return Answer(outputs, f"computed by the interpreter, {len(job.kernels)} kernels")
