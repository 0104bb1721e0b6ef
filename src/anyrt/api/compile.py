"""The one place where the API calls the compiler, which is loaded at the first build."""

from __future__ import annotations

from anyrt.compiler.cached import load_driver
from anyrt.compiler.request import BuildRequest
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Value
from anyrt.plan.file import PlanParts, read_plan
from anyrt.prims.reshape import Reshape


def compile_request(request: BuildRequest) -> PlanParts:
    """The plan of a network, whose weights are still those of the network."""
    built: PlanParts = load_driver().build_parts(request)
    return built


def stored_layers(plan: bytes | bytearray) -> frozenset[str]:
    """The layers whose outputs are stored between kernels."""
    lowered = load_driver().lower_plan(read_plan(plan, check_weights=False))
    stored = {v for v, b in lowered.schedule.buffers.items() if b.space is Space.ARENA}
    return frozenset(name for v, name in lowered.graph.names.items() if _elements(v) in stored)


def _elements(value: Value) -> Value:
    """The value whose elements `value` has: a layer may end with a reshape, which needs no memory."""
    while isinstance(value.op, Reshape):
        (value,) = value.args
    return value
