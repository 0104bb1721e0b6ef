"""A request with the sizes that its network can only have (passes/implied_sizes.py)."""

from __future__ import annotations

from dataclasses import replace

from anyrt.compiler.agree import bindings_of, conditions
from anyrt.compiler.request import BuildRequest
from anyrt.passes.implied_sizes import implied, with_implied


def settled(request: BuildRequest) -> BuildRequest:
    """The request, whose graph has numbers where no other ones can run. What a run must check is in `needs`,
    as the network words it, and its tensors keep their open sizes."""
    needs = conditions(request.layers, request.graph)
    sizes = implied(needs, [s.sym for s in request.graph.symbols])
    graph = with_implied(request.graph, sizes)
    bindings = request.bindings or bindings_of(request.graph)
    return replace(request, graph=graph, bindings=bindings, needs=needs, implied=tuple(sizes.items()))
