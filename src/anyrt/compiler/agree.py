"""Compares a plan with its graph: the caller allocates memory by the plan, and the code is generated from the
graph.

A checksum does not prove honesty, so a plan whose parts contradict each other must be rejected before its
code can access memory outside the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, equal
from anyrt.core.dimtext import print_dim
from anyrt.core.dimvalues import substitute
from anyrt.core.dtype import short_name
from anyrt.core.errors import AnyrtError, PlanError
from anyrt.core.requirement import Requirement
from anyrt.ir.graph import Graph
from anyrt.passes import requirements
from anyrt.passes.implied_sizes import implied
from anyrt.plan.plan import Binding, LayerRecord, Plan, SymbolRecord


def symbol_records(graph: Graph) -> tuple[SymbolRecord, ...]:
    """The dynamic sizes of a graph as a plan lists them."""
    return tuple(SymbolRecord.of(s.sym, s.tensor, s.axis, s.is_value) for s in graph.symbols)


def conditions(
    layers: Iterable[LayerRecord], *graphs: Graph, before: Iterable[Requirement] = ()
) -> tuple[Requirement, ...]:
    """The conditions that an inference must check for all of the graphs, each once, in the wording of the
    first graph, or those known `before`.

    Each names the line of the user's program that added its layer."""
    places = {x.name: f"{x.name} ({source})" for x in layers if (source := dict(x.details).get("source"))}
    needs = {_condition(need): need for need in before}
    try:
        for graph in graphs:
            for need in requirements(graph):
                needs.setdefault(_condition(need), replace(need, where=places.get(need.where, need.where)))
    except AnyrtError as error:
        raise error.at(places.get(error.where, error.where)) from None
    return tuple(needs.values())


def check_agreement(plan: Plan, graph: Graph) -> None:
    """PlanError AR607 if bindings, symbols or conditions of a plan differ from those of its graph."""
    if sorted(map(repr, plan.symbols)) != sorted(map(repr, symbol_records(graph))):
        got, wanted = _names(plan.symbols), _names(symbol_records(graph))
        raise PlanError("AR607", "plan, symbols", got=got, wanted=f"{wanted}, as the graph has them")
    _check_bindings(plan, graph)
    _check_updates(plan, graph)
    for profile in plan.profiles or ((),):
        dynamic = {(s.tensor, s.is_value) for s in plan.symbols if s.most is None}
        missing = dynamic - {(r.tensor, r.is_values) for r in profile}
        for tensor, is_value in sorted(missing):
            what = "values" if is_value else "shapes"
            got = f"a profile without {what} of {tensor!r}"
            raise PlanError("AR607", "plan, profiles", got, "ranges of all that is dynamic")
    kept = set(map(_condition, plan.requirements))
    for need in requirements(graph):
        if _condition(need) not in kept:
            wanted = f"{need.left} {need.relation.value} {need.right}"
            raise PlanError("AR607", "plan, requirements", got="a condition left out", wanted=wanted)


def _condition(need: Requirement) -> tuple[str, str, str]:
    return print_dim(need.left), need.relation.value, print_dim(need.right)


def _names(symbols: tuple[SymbolRecord, ...]) -> str:
    return ", ".join(f"{s.name} ({s.lo} to {s.hi})" for s in symbols) or "none"


def bindings_of(graph: Graph) -> tuple[Binding, ...]:
    """Those of the graph alone."""
    inputs = [Binding(n, True, v.dtype, v.shape) for n, v in graph.inputs]
    return (*inputs, *(Binding(n, False, v.dtype, v.shape) for n, v in graph.outputs))


def _check_bindings(plan: Plan, graph: Graph) -> None:
    bindings, ports = plan.bindings, bindings_of(graph)
    if len(ports) != len(bindings):
        wanted = f"{len(ports)}, as the graph has them"
        raise PlanError("AR607", "plan, bindings", got=f"{len(bindings)} tensors", wanted=wanted)
    try:
        sizes = implied(plan.requirements, [s.sym for s in plan.symbols])
    except AnyrtError as error:
        raise PlanError("AR607", "plan, requirements", str(error), "conditions that can hold") from None
    for binding, port in zip(bindings, ports, strict=True):
        if not _fits(binding, port, sizes):
            got = _show(binding)
            raise PlanError("AR607", f"plan, binding {binding.name!r}", got=got, wanted=_show(port))


def _check_updates(plan: Plan, graph: Graph) -> None:
    """Contexts let outputs share the memory of inputs as the plan declares, kernels as the graph declares."""
    said = {plan.bindings[y].name: plan.bindings[x].name for y, x in plan.sources.items()}
    if said != dict(graph.updates):
        got, wanted = (
            ", ".join(f"{y} in {x}" for y, x in some.items()) for some in (said, dict(graph.updates))
        )
        raise PlanError("AR607", "plan, layers", f"outputs in inputs: {got or 'none'}", wanted or "none")


def _fits(binding: Binding, port: Binding, sizes: Mapping[Sym, Dim]) -> bool:
    """`sizes`: the sizes that inferences check, so the graph may have numbers in their place."""
    shape = port.shape
    readable = not (binding.is_shape and port.is_input) or len(shape) <= 1
    names = (binding.name, binding.is_input, binding.dtype) == (port.name, port.is_input, port.dtype)
    if not names or not readable or len(binding.memory) != len(shape):
        return False
    pairs = ((substitute(d, sizes) for d in pair) for pair in zip(binding.memory, shape, strict=True))
    return all(equal(a, b) == 1 for a, b in pairs)


def _show(port: Binding) -> str:
    sizes = ", ".join(map(print_dim, port.memory))
    return (
        f"{'input' if port.is_input else 'output'} {port.name!r} of {short_name(port.dtype)}, shape ({sizes})"
    )
