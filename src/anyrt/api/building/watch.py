"""A network whose outputs are the statistics for calibration: magnitudes of the tensors that products
read."""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.api.building.freeze import limits_of, names_of, profiles_of
from anyrt.api.building.precision import readers
from anyrt.api.building.profile import IOptimizationProfile, shape_ranges, value_ranges
from anyrt.api.model.expansion import Expansion
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import TensorState
from anyrt.api.model.view import NetworkView, view_of
from anyrt.compiler.magnitudes import watching
from anyrt.compiler.request import BuildRequest, Settings
from anyrt.core.dimvalues import substitute
from anyrt.ir.attributes import graph_with_sizes
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Value, walk
from anyrt.passes.open_sizes import read_once
from anyrt.plan.plan import Binding, Range
from anyrt.prims.const import Param


@dataclass(frozen=True, slots=True)
class Watched:
    """The request for the engine that outputs the tensors, the tensors in their order, and the inputs."""

    tensors: tuple[TensorState, ...]
    inputs: tuple[Binding, ...]
    request: BuildRequest


def watch(
    network: INetworkDefinition,
    profile: IOptimizationProfile | None,
    batch: int,
    *,
    most: bool,
    some: bool,
) -> Watched:
    """The tensors of `network` that products read, except those with a range and those inside loops and
    branches. Inputs have the optimum shapes of `profile`; without one, dynamic first dimensions have the size
    `batch`."""
    view = view_of(network)
    ranges = profiles_of(view, [_fixed(view, profile, batch)])
    expansion = Expansion(limits_of(view, ranges), all_values=False)
    inputs = {t.name: expansion.value(t.it) for t in view.inputs}
    input_values = {*inputs.values()}
    values: dict[TensorState, Value] = {}
    for tensor in readers(view, expansion):
        value = expansion.value(tensor.it)
        if tensor.scale is None and not _is_inside(value, input_values):
            values[tensor.it] = value
    if not values:
        sizes = {(r.tensor, r.is_values): r.opt for r in ranges[0]}
        seen = ((t.name, inputs[t.name]) for t in view.inputs)
        bound = tuple(Binding(n, True, v.dtype, sizes.get((n, False), v.shape)) for n, v in seen)
        return Watched((), bound, BuildRequest(view.name, Graph((), ())))
    named = tuple((str(n), v) for n, v in enumerate(values.values()))
    plain = Graph(tuple(inputs.items()), named, names_of(view, expansion), (*expansion.symbols.values(),))
    sized = read_once(counted(plain, expansion.tells()))
    whole = _sized(sized, ranges[0])
    values = {t: v for (t, _), (_, v) in zip(values.items(), whole.outputs, strict=False) if 0 not in v.shape}
    graph = watching(whole, values.values(), most=most, some=some)
    bindings = tuple(Binding(name, True, v.dtype, v.shape) for name, v in graph.inputs)
    request = BuildRequest(f"calibration of {view.name}", graph, settings=Settings(num_threads=1))
    return Watched(tuple(values), bindings, request)


def _fixed(view: NetworkView, profile: IOptimizationProfile | None, batch: int) -> IOptimizationProfile:
    """A profile whose shapes are all the optimum of `profile`."""
    optimum = IOptimizationProfile()
    for tensor in view.inputs:
        name, shape = tensor.name, tensor.shape
        range_ = None if profile is None else shape_ranges(profile).get(name)
        if range_ is not None:
            shape = range_.opt
        elif shape[:1] == (-1,):
            shape = (batch, *shape[1:])
        if -1 not in shape:
            optimum.set_shape(name, shape, shape, shape)
        values = None if profile is None else value_ranges(profile).get(name)
        if values is not None:
            optimum.set_shape_input(name, values.opt, values.opt, values.opt)
    return optimum


def _sized(graph: Graph, ranges: tuple[Range, ...]) -> Graph:
    """`graph` at its only shapes."""
    corners = {(r.tensor, r.is_values): r.opt for r in ranges}
    known = (s for s in graph.symbols if s.sym.most is None)
    sizes = {s.sym: corners[s.tensor, s.is_value][s.axis] for s in known}
    resized = graph_with_sizes(graph, lambda size: substitute(size, sizes))
    left = tuple(s for s in graph.symbols if s.sym not in sizes)
    return Graph(resized.inputs, resized.outputs, resized.names, left)


def _is_inside(value: Value, inputs: set[Value]) -> bool:
    """Whether a tensor is inside a loop or a branch."""
    return any(isinstance(v.op, Param) and v not in inputs for v in walk([value]))
