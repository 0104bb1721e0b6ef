"""Runs the graph itself, node by node: what compiled code is compared with."""

from __future__ import annotations

from collections.abc import Mapping

from anyrt.codegen.target import Answer, Job
from anyrt.ir.interpret import interpret
from anyrt.ir.prim import Array
from anyrt.schedule.step import Strategies


class InterpTarget:
    """The interpreter as a backend."""

    @property
    def strategies(self) -> Strategies:
        """Serial loops: whatever is made of them, the interpreter runs."""
        return Strategies({})

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """The outputs; kernels are not used."""
        return Answer(interpret(job.graph, feeds, job.sizes), "computed by the reference interpreter")
