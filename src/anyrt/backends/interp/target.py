"""Executes the kernels of an engine, in the order of the host program, with NumPy: the reference for compiled
code, with every access checked."""

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
        """The outputs; CompileError AR810 for a kernel that accesses memory outside its buffers."""
        outputs = run(job, feeds, partial(run_kernel, lanes=job.machine.lanes))
        return Answer(outputs, f"computed by the interpreter, {len(job.kernels)} kernels")
