"""A request with the sizes that its network can only have (passes/implied_sizes.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anyrt.compiler.agree import bindings_of, conditions
from anyrt.compiler.request import BuildRequest
from anyrt.core.dims import Dim, Sym, equal
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import TensorFormat
from anyrt.passes.implied_sizes import implied, with_implied
from anyrt.plan.plan import Binding


def settled(request: BuildRequest) -> BuildRequest:
    """The request, whose graph has numbers where no other ones can run. What a run must check is in `needs`,
    as the network words it, and its tensors keep their open sizes."""
    needs = conditions(request.layers, request.graph)
    sizes = implied(needs, [s.sym for s in request.graph.symbols])
    graph = with_implied(request.graph, sizes)
    bindings = request.bindings or bindings_of(request.graph)
    pairs = zip(bindings, bindings_of(graph), strict=True)
    bindings = tuple(_settled(binding, port, sizes) for binding, port in pairs)
    return replace(request, graph=graph, bindings=bindings, needs=needs, implied=tuple(sizes.items()))


def _settled(binding: Binding, port: Binding, sizes: Mapping[Sym, Dim]) -> Binding:
    """An output keeps a size as the network has it, where that follows to be the graph's. What broadcasts
    with 3 is 3 in the graph, which conditions say and no algebra."""
    if binding.is_input or binding.format is not TensorFormat.LINEAR or len(binding.shape) != len(port.shape):
        return binding
    pairs = zip(binding.shape, port.shape, strict=True)
    return replace(binding, shape=tuple(d if equal(substitute(d, sizes), g) == 1 else g for d, g in pairs))
