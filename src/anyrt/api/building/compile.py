"""The one place where the API calls the compiler, which is loaded at the first build."""

from __future__ import annotations

from anyrt.backends import loader
from anyrt.compiler.cached import load_driver
from anyrt.compiler.request import BuildRequest
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Space
from anyrt.plan.file import PlanParts, read_plan
from anyrt.prims.reshape import elements_of


def compile_request(request: BuildRequest) -> PlanParts:
    """Compile a network; the plan refers to the weights of the network."""
    built: PlanParts = load_driver().build_parts(request, loader.target(), loader.device())
    return built


def this_machine() -> Machine:
    """The machine for which builds compile."""
    machine: Machine = load_driver().build_machine(loader.target())
    return machine


def stored_layers(plan: bytes | bytearray) -> frozenset[str]:
    """The layers whose outputs are stored between kernels."""
    lowered = load_driver().lower_plan(read_plan(plan, check_weights=False), loader.target())
    stored = {v for v, b in lowered.schedule.buffers.items() if b.space is Space.ARENA}
    return frozenset(name for v, name in lowered.graph.names.items() if elements_of(v) in stored)
