"""A request with the sizes that its network's conditions imply (passes/implied_sizes.py)."""

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
    """The request, with numbers in its graph where no other sizes are valid. `needs` has the conditions that
    an inference checks, in the network's wording, and tensors keep their dynamic sizes."""
    needs = conditions(request.layers, request.graph)
    sizes = implied(needs, [s.sym for s in request.graph.symbols])
    graph = with_implied(request.graph, sizes)
    bindings = request.bindings or bindings_of(request.graph)
    pairs = zip(bindings, bindings_of(graph), strict=True)
    bindings = tuple(_settled(binding, port, sizes) for binding, port in pairs)
    return replace(request, graph=graph, bindings=bindings, needs=needs, implied=tuple(sizes.items()))


def _settled(binding: Binding, port: Binding, sizes: Mapping[Sym, Dim]) -> Binding:
    """An output keeps a size of the network if it implies the graph's size. A size that broadcasts with 3 is
    3 in the graph; conditions imply that, the algebra does not."""
    if binding.is_input or binding.format is not TensorFormat.LINEAR or len(binding.shape) != len(port.shape):
        return binding
    pairs = zip(binding.shape, port.shape, strict=True)
    return replace(binding, shape=tuple(d if equal(substitute(d, sizes), g) == 1 else g for d, g in pairs))
