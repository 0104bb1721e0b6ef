"""Runs the kernels that engines are made of, in the order of the host program, with NumPy: what compiled code
is compared with, and where every access is checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from anyrt.backends.borrowed import Borrowed
from anyrt.backends.steps import run
from anyrt.codegen.target import Answer, Job
from anyrt.ir.prim import Array
from anyrt.ir.run import run as run_kernel


class InterpTarget(Borrowed):
    """The interpreter of kernels as a backend."""

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """The outputs; CompileError AR810 for a kernel that reads or writes outside of its memory."""
        outputs = run(job, feeds, partial(run_kernel, lanes=job.machine.lanes))
        return Answer(outputs, f"computed by the interpreter, {len(job.kernels)} kernels")
