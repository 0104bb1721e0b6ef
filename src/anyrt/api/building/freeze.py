"""The network as the user left it, frozen: a graph with symbols for dynamic sizes, ready for the compiler.

Here every mistake that was only looked at so far becomes final; names, profiles and outputs are checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast as typed

from anyrt.api.building.formats import chosen
from anyrt.api.building.marks import AGAIN, DEBUG, HIDDEN, UNFUSED, VALUES, print_values
from anyrt.api.building.precision import Precisions
from anyrt.api.building.profile import IOptimizationProfile
from anyrt.api.building.refittable import Refittable, refit_kind
from anyrt.api.model.expansion import Expansion, Limits, as_they_are
from anyrt.api.model.layer import ILayer
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.parts import Border, Part
from anyrt.api.model.tensor import ITensor
from anyrt.api.model.weights import Weights
from anyrt.api.plugins.expand import Building, Timings
from anyrt.api.plugins.lent import lender
from anyrt.compiler.precision import rounds_tensors
from anyrt.compiler.request import BuildRequest, Settings
from anyrt.core.counts import count, counts
from anyrt.core.dtype import short_name
from anyrt.core.enums import BuilderFlag, DataType, Severity, TensorFormat, TensorLocation
from anyrt.core.errors import AnyrtError, GraphError, ProfileError, ShapeError
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Value, apply, walk
from anyrt.ir.symbolic import known
from anyrt.ops._types import PACKED
from anyrt.passes.found_sizes import with_conditions
from anyrt.passes.open_sizes import told_once
from anyrt.plan.plan import LENT_BY, MEMORY_OF, Binding, LayerRecord, Range
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, reshape
from anyrt.prims.checked import Checked
from anyrt.prims.const import Blob, Param
from anyrt.prims.count import Count
from anyrt.prims.formats import with_formats

Profile = tuple[Range, ...]
# A tensor that sizes are taken from may also be a long table; runs write it, inferring shapes does not.
MANY_SIZES = 64

CODES = frozenset({DataType.FP8, DataType.FP4})
MOST = 2**31 - 1  # elements of a tensor, so that no size is greater
FAR = 2**62 - 1  # values that decide sizes, as the ends of slices
OFTEN = 128  # the best size of an open axis behind the first, where no profile says


def freeze(
    network: INetworkDefinition,
    profiles: Sequence[IOptimizationProfile],
    settings: Settings,
    unfused: Collection[str] = (),
    precisions: Precisions | None = None,
    timings: Timings | None = None,
) -> BuildRequest:
    """The request that builds `network`, without a monitor. `unfused`: layers to show besides. `precisions`:
    what layers compute in, None for the types of their tensors; `timings`: of the tactics of plug-ins."""
    kind = refit_kind(settings.flags)
    if kind is None:
        return _frozen(network, profiles, settings, unfused, precisions, timings, None)
    individual = bool(settings.flags >> int(BuilderFlag.REFIT_INDIVIDUAL) & 1)
    weights = Refittable(network, kind, individual and not settings.flags >> int(BuilderFlag.REFIT) & 1)
    while True:
        weights.begin()
        before = len(weights.fixed)
        request = _frozen(network, profiles, settings, unfused, precisions, timings, weights)
        if len(weights.fixed) == before:
            return replace(request, weights=weights.records(), refit=kind)


def _frozen(
    network: INetworkDefinition,
    profiles: Sequence[IOptimizationProfile],
    settings: Settings,
    unfused: Collection[str],
    precisions: Precisions | None,
    timings: Timings | None,
    refittable: Refittable | None,
) -> BuildRequest:
    shown = [t for layer in network._layers if layer._name in unfused for t in layer._outputs]
    outputs = list(dict.fromkeys([*_outputs(network), *shown]))
    _check_names([*network._inputs, *outputs])
    ranges = profiles_of(network, profiles)
    rounds = rounds_tensors(network._strongly_typed, settings.flags)
    expansion = _expansion(network, limits_of(network, ranges), precisions, refittable, rounds)
    if expansion is not network._expansion:
        weak = not network._strongly_typed
        expansion.building = Building(ranges, expansion.symbols, weak, {} if timings is None else timings)
    _judge(network, expansion)
    _check_updates(network)
    names = names_of(network, expansion)
    marked = network._marked
    held = _held(network, expansion, [t for t in outputs if t in marked], names)
    seen, turns, more = _seen(network, expansion, [t for t in outputs if t not in marked])
    values = {t: seen.get(t) or expansion.value(t) for t in (*network._inputs, *outputs)}
    for t, value in seen.items():
        names.setdefault(value, t._name if t._layer is None else t._layer._name)
    _check_outside(network, expansion, {t._name: values[t] for t in outputs})
    ends, ranks = _with_ranks(expansion, _as_numbers(network, values | held, names), names)
    formats = _formats(network, ends)
    plain = Graph(
        tuple((t._name, expansion.value(t)) for t in network._inputs),
        tuple((t._name, ends[t]) for t in outputs),
        names,
        tuple(expansion.symbols.values()),
        {t._name: t._layer._name for t in outputs if t._layer and names[ends[t]] != t._layer._name},
        tuple((y._name, x._name) for layer in network._layers for y, x in _updates(layer)),
    )
    sized = told_once(counted(plain, [*expansion.tells(), *more], ranks.values()))
    _check_outside(network, expansion, dict(sized.outputs[len(outputs) :]))
    graph = with_conditions(sized, next(iter(held))._name)
    given = dict((*graph.inputs, *graph.outputs))
    tells = (Binding(name, False, v.dtype, v.shape) for name, v in graph.outputs[len(outputs) :])
    return BuildRequest(
        name=network.name,
        graph=with_formats(graph, {n: f for n, f in formats.items() if f is not TensorFormat.LINEAR}),
        profiles=ranges,
        settings=settings,
        bindings=(
            *(_binding(t, given[t._name], formats[t._name], t in seen, ranks.get(t)) for t in values),
            *tells,
        ),
        layers=tuple(
            _layers(network, expansion, outputs, turns, {} if precisions is None else precisions.chosen)
        ),
        log=network._channel.log,
        aside=frozenset(t._name for t in outputs if t not in marked),
        title=network._title,
    )


def _expansion(
    network: INetworkDefinition,
    limits: Limits,
    precisions: Precisions | None,
    refittable: Refittable | None,
    rounds: bool,
) -> Expansion:
    """What layers mean to this build: what is known of them, where that says enough."""
    staged = as_they_are if precisions is None or not precisions.may_differ else precisions.staged
    is_usual = staged is as_they_are and refittable is None and rounds
    if is_usual and network._expansion.holds_of(network._inputs, network._layers):
        return network._expansion
    if precisions is not None and refittable is not None:
        precisions.held = refittable.scale
    return Expansion(limits, all_values=False, staged=staged, refittable=refittable, rounds=rounds)


def _outputs(network: INetworkDefinition) -> list[ITensor]:
    marked = network._marked
    if not marked:
        raise GraphError(
            "AR401", network.name, "no marked output", "at least one", "call network.mark_output(tensor)"
        )
    return list(dict.fromkeys([*marked, *(t for t in network._debug if t._layer is not None)]))


def _check_names(tensors: Iterable[ITensor]) -> None:
    seen: set[str] = set()
    for tensor in tensors:
        if tensor._name in seen:
            got = "a second input or output of this name"
            raise GraphError("AR402", tensor._name, got, "another name", "set tensor.name")
        seen.add(tensor._name)


def _judge(network: INetworkDefinition, expansion: Expansion) -> None:
    """Judge every layer, those that nothing reads included; log all mistakes, raise the first."""
    mistakes: dict[AnyrtError, None] = {}
    for layer in network._layers:
        try:
            expansion.values(layer)
        except AnyrtError as error:
            mistakes[error] = None
    for mistake in [*mistakes][1:]:
        network._channel.log(Severity.ERROR, str(mistake))
    for mistake in mistakes:
        raise mistake


def _check_updates(network: INetworkDefinition) -> None:
    """What is updated in place is an input with one update, and that is an output."""
    first: dict[ITensor, ILayer] = {}
    every = [(layer, *pair) for layer in network._layers for pair in _updates(layer)]
    for layer, output, source in every:
        if source._layer is not None:
            got, do = f"{source._name}, which is computed", "pass an input of the network itself"
            raise GraphError("AR409", layer._place, got, "a network input", do)
        if (other := first.setdefault(source, layer)) is not layer:
            got, do = f"{source._name}, which {other._place} updates, too", "give each update its own input"
            raise GraphError("AR409", layer._place, got, "a cache with one update", do)
        if output not in network._outputs:
            do = "call network.mark_output(layer.get_output(0))"
            raise GraphError("AR409", layer._place, "an update that is no output", "one that is marked", do)


def _seen(
    network: INetworkDefinition, expansion: Expansion, tensors: Iterable[ITensor]
) -> tuple[dict[ITensor, Value], Counter[ITensor], list[Value]]:
    """Debug tensors that are computed inside loops and conditionals: all their values in a run, inside how
    many these are, each an axis, and what tells sizes that these need."""
    borders = [typed("Border", x) for x in network._layers if x._op.within and x._outputs]
    inside = {expansion.value(x._outputs[0]): x._part for x in borders}
    inside = {v: part for v, part in inside.items() if isinstance(v.op, Param)}

    def parts_of(values: Iterable[Value]) -> set[Part]:
        return {inside[v] for v in walk(values) if v in inside}

    # Those around each one, as far as values come from there.
    around = {part: set[Part]() for part in inside.values()}
    for x in borders:
        if not x._is_output:
            around[x._part] |= parts_of([expansion.value(x._first)]) - {x._part}
    seen, depth, tells = dict[ITensor, Value](), Counter[ITensor](), list[Value]()
    todo = {t: expansion.value(t) for t in tensors}
    todo = {t: v for t, v in todo.items() if v.dtype not in PACKED}  # parts of bytes have no address
    beside: dict[ITensor, tuple[Value, ...]] = dict.fromkeys(todo, ())
    while todo:
        parts: dict[Part, dict[ITensor, Value]] = {}
        for tensor, value in todo.items():
            found = parts_of([value])
            innermost = found.difference(*(around[part] for part in found))
            if len(innermost) == 1:
                parts.setdefault(innermost.pop(), {})[tensor] = value
        todo = {}
        for part, named in parts.items():
            made = part._seen(expansion, {t._name: (v, *beside[t]) for t, v in named.items()})
            todo |= dict(zip(named, made.values, strict=True))
            tells += made.tells
            ends = expansion.part(part) if any(x._is_output for x in part._layers) else ()
            beside |= {t: (*beside[t], *ends) for t in named}
        seen |= todo
        depth.update(todo.keys())
    return seen, depth, tells


def _check_outside(network: INetworkDefinition, expansion: Expansion, outputs: Mapping[str, Value]) -> None:
    """What is computed inside a loop or conditional, sizes included, leaves it by its outputs alone."""
    borders = [x for x in network._layers if x._op.within and x._outputs]
    inside = {expansion.value(x._outputs[0]): x for x in borders}
    known = {expansion.value(t) for t in network._inputs}
    for name, output in outputs.items() if borders else ():
        for value in walk([output]):
            if isinstance(value.op, Param) and value not in known:
                got = f"{name}, which is made of {inside[value]._place}, inside of it"
                do = "pass it through the output of the loop or conditional"
                raise GraphError("AR414", name, got, "what has left it", do)


def _updates(layer: ILayer) -> Iterator[tuple[ITensor, ITensor]]:
    """Each output of `layer` that has the memory of an operand, and that operand."""
    for output, operand in layer._op.shares:
        source = layer._inputs[operand]
        assert source is not None, f"{layer._name} was judged"
        yield layer._outputs[output], source


def names_of(network: INetworkDefinition, expansion: Expansion) -> dict[Value, str]:
    names = {expansion.value(t): t._name for t in network._inputs}
    for layer in network._layers:
        for value in (v for tensor in layer._outputs for v in expansion.forms(tensor)):
            names.setdefault(value, layer._name)
    return names


def _held(
    network: INetworkDefinition,
    expansion: Expansion,
    outputs: Sequence[ITensor],
    names: dict[Value, str],
) -> dict[ITensor, Value]:
    """An output with all that layers without outputs ask for. It is the one that costs least: one that no
    layer reads, as others would have to be copied, and that updates no cache."""
    updates = {y for layer in network._layers for y, _ in _updates(layer)}
    waits = min(outputs, key=lambda t: (t in updates, bool(t._consumers)))
    value = expansion.value(waits)
    for layer in network._layers:
        for asked in () if layer._outputs else expansion.values(layer):
            if isinstance(asked.op, Checked | Asserted):
                names.setdefault(asked.args[-1], layer._name)
                value = apply(asked.op, value, *asked.args[1:])
    names.setdefault(value, names[expansion.value(waits)])
    return {waits: value}


def _as_numbers(
    network: INetworkDefinition, ends: Mapping[ITensor, Value], names: dict[Value, str]
) -> dict[ITensor, Value]:
    """Inputs and outputs; of a weakly typed network, outputs of codes are the numbers that these stand for,
    as TensorRT gives them."""
    found = dict(ends)
    for t in () if network._strongly_typed else network._marked:
        if found[t].dtype in CODES:
            found[t] = cast(ends[t], DataType.FLOAT)
            names.setdefault(found[t], names[ends[t]])
    return found


def _with_ranks(
    expansion: Expansion, ends: Mapping[ITensor, Value], names: dict[Value, str]
) -> tuple[dict[ITensor, Value], dict[ITensor, Value]]:
    """Inputs and outputs of the ranks that the build has decided; and what tells the others in a run."""
    found, tells = dict(ends), dict[ITensor, Value]()
    for t, value in ends.items():
        if t._rank is None:
            continue
        told = expansion.value(t._rank)
        elements = known(told)
        rank = None if elements is None else elements.reshape(-1)[0]
        if isinstance(rank, int):
            found[t] = reshape(value, value.shape[:rank])
            names.setdefault(found[t], names[value])
        else:
            tells[t] = apply(Count(count(f"rank of {t._name}", len(value.shape))), told)
    return found, tells


def _formats(network: INetworkDefinition, values: Mapping[ITensor, Value]) -> dict[str, TensorFormat]:
    """How the memory of each input and output lies, by name."""
    updated = {t for layer in network._layers for pair in _updates(layer) for t in pair}
    return {t._name: chosen(network, t, value.type, updated) for t, value in values.items()}


def _binding(
    tensor: ITensor, value: Value, format: TensorFormat, is_seen: bool, rank: Value | None
) -> Binding:
    is_shape = tensor.is_shape_tensor and not is_seen
    return Binding(
        name=tensor._name,
        is_input=tensor._layer is None,
        dtype=value.dtype,
        shape=value.shape,
        is_shape=is_shape,
        is_host=is_shape or tensor._location is TensorLocation.HOST,
        format=format,
        dim_names=() if is_seen else _dim_names(tensor),
        rank=None if rank is None or rank.op.tells is None else rank.op.tells.dim,
    )


def _dim_names(tensor: ITensor) -> tuple[str, ...]:
    return tuple(tensor.get_dimension_name(i) for i in range(len(tensor._shape) if tensor._dim_names else 0))


def _layers(
    network: INetworkDefinition,
    expansion: Expansion,
    outputs: Collection[ITensor],
    turns: Counter[ITensor],
    chosen: Mapping[ILayer, DataType],
) -> Iterator[LayerRecord]:
    shown = [(DEBUG, t._name) for t in network._inputs if t in network._debug]
    for layer in network._layers:
        details = [("source", layer._source), ("metadata", layer._metadata)]
        details += shown if layer is network._layers[0] else []  # no layer makes an input
        details += [("precision", short_name(chosen[layer]))] if layer in chosen else []
        details += [(n, _shown(x)) for n, x in layer._attributes.items()]
        details += [(MEMORY_OF, source._name) for _, source in _updates(layer)]
        lenders = (lender(expansion, t) for t in layer._outputs if t in outputs)
        details += [(LENT_BY, x._name) for x in lenders if x is not None]
        for tensor in layer._outputs:
            details += _marks(network, expansion, tensor) if tensor in outputs else ()
            details += [(AGAIN, tensor._name)] * turns[tensor]
        inputs = tuple(t._name for t in layer._inputs if t is not None)
        makes = tuple(t._name for t in layer._outputs)
        yield LayerRecord(layer._name, layer._op.title, inputs, makes, tuple((k, v) for k, v in details if v))


def _marks(network: INetworkDefinition, expansion: Expansion, tensor: ITensor) -> Iterator[tuple[str, str]]:
    """What the engine must know of a tensor besides the bindings, see `marks`."""
    value = expansion.value(tensor)
    shown = tensor in network._marked
    if tensor in network._debug:
        yield (DEBUG if shown else HIDDEN), tensor._name
    elif not shown:
        yield UNFUSED, tensor._name
    asked = tensor in network._shape_outputs
    if asked or (shown and tensor.is_shape_tensor and len(value.shape) <= 1):
        elements = known(value)
        if elements is not None and any(map(counts, elements.reshape(-1).tolist())):
            elements = None
        if elements is not None and (asked or elements.size <= MANY_SIZES):
            yield VALUES, print_values(tensor._name, elements.reshape(-1).tolist())
        elif asked:
            do = "compute it from shapes, constants and shape tensors"
            raise ShapeError("AR121", tensor._name, "values that depend on the run", "shape arithmetic", do)


def _shown(x: object) -> str:
    match x:
        case Weights() | Blob():
            return f"{x.size} of {x.dtype.name}" if x.size else ""
        case None:
            return ""
    return str(x)


def profiles_of(network: INetworkDefinition, profiles: Sequence[IOptimizationProfile]) -> tuple[Profile, ...]:
    """For every profile the ranges of every input, in the order of inputs; a static network needs none."""
    known = {t._name for t in network._inputs}
    for profile in profiles:
        for name in [*profile._shapes, *profile._values]:
            if name not in known:
                raise ProfileError("AR506", name, "a profile for it", f"one of {', '.join(sorted(known))}")
    return tuple(tuple(_ranges(network, p)) for p in profiles or [_any_shapes(network)])


def _any_shapes(network: INetworkDefinition) -> IOptimizationProfile:
    """The profile of a build without one: every size and value, with batches of 1 as the best."""
    profile, told = IOptimizationProfile(), []
    for tensor in network._inputs:
        shape = tensor._shape
        if -1 in shape:
            told.append(tensor._name)
            best = [OFTEN if axis else 1 for axis in range(len(shape))]
            low, opt, high = (
                [other[axis] if d < 0 else d for axis, d in enumerate(shape)]
                for other in ([0] * len(shape), best, [MOST] * len(shape))
            )
            profile.set_shape(tensor._name, low, opt, high)
        if tensor.is_shape_tensor:
            told.append(tensor._name)
            count = shape[0] if shape else 1
            profile.set_shape_input(tensor._name, [-FAR] * count, [1] * count, [FAR] * count)
    if told:
        network._channel.log(Severity.INFO, f"no profile: the engine takes every shape of {', '.join(told)}")
    return profile


def _ranges(network: INetworkDefinition, profile: IOptimizationProfile) -> Iterator[Range]:
    for tensor in network._inputs:
        yield _shapes(tensor, profile._shapes.get(tensor._name))
    for tensor in network._inputs:
        if tensor.is_shape_tensor:
            yield _values(tensor, profile._values.get(tensor._name))


def _shapes(tensor: ITensor, given: Range | None) -> Range:
    name, shape = tensor._name, tensor._shape
    if given is None:
        if -1 in shape:
            do = f"profile.set_shape({name!r}, min, opt, max) and config.add_optimization_profile(profile)"
            raise ProfileError("AR501", name, f"shape {shape} and no profile", "a profile", do)
        return Range(name, False, shape, shape, shape)
    if len(given.min) != len(shape):
        raise ProfileError("AR502", name, f"a profile of rank {len(given.min)}", f"rank {len(shape)}")
    for axis, size in enumerate(shape):
        if size >= 0 and (given.min[axis], given.max[axis]) != (size, size):
            got = f"{given.min[axis]} to {given.max[axis]} for dimension {axis}"
            raise ProfileError("AR504", name, got, f"{size}, as the network says")
    return given


def _values(tensor: ITensor, given: Range | None) -> Range:
    count = tensor._shape[0] if tensor._shape else 1
    if given is None:
        got, do = (
            "values that decide sizes, and no range for them",
            f"profile.set_shape_input({tensor._name!r}, …)",
        )
        raise ProfileError("AR501", tensor._name, got, "a profile", do)
    if len(given.min) != count:
        raise ProfileError("AR502", tensor._name, f"{len(given.min)} values", f"{count}")
    return given


def limits_of(network: INetworkDefinition, profiles: tuple[Profile, ...]) -> Limits:
    """The range of each dynamic size and shape value over all profiles; named dimensions share theirs."""
    limits: dict[tuple[str, int, bool], tuple[int, int]] = {}
    for group in _groups(network):
        spans = [_span(group, profile) for profile in profiles]
        span = min(low for low, _ in spans), max(high for _, high in spans)
        limits |= dict.fromkeys(group, span)
    return limits


def _groups(network: INetworkDefinition) -> list[list[tuple[str, int, bool]]]:
    groups: dict[str, list[tuple[str, int, bool]]] = {}
    for tensor in network._inputs:
        for axis, size in enumerate(tensor._shape):
            if size < 0:
                name = tensor._dim_names.get(axis) or f"{tensor._name}.{axis}"
                groups.setdefault(name, []).append((tensor._name, axis, False))
        if tensor.is_shape_tensor:
            for i in range(tensor._shape[0] if tensor._shape else 1):
                groups[f"{tensor._name}#{i}"] = [(tensor._name, i, True)]
    return list(groups.values())


def _span(group: list[tuple[str, int, bool]], profile: Profile) -> tuple[int, int]:
    """What every member of the group allows in one profile."""
    ranges = {(r.tensor, r.is_values): r for r in profile}
    lows = [ranges[tensor, is_value].min[axis] for tensor, axis, is_value in group]
    highs = [ranges[tensor, is_value].max[axis] for tensor, axis, is_value in group]
    if max(lows) > min(highs):
        where = ", ".join(f"{tensor} dimension {axis}" for tensor, axis, _ in group)
        got = f"ranges from {max(lows)} and to {min(highs)}"
        raise ProfileError(
            "AR503",
            where,
            got,
            "a size that all of them allow, as they share a name",
            "widen the profile of one of them",
        )
    return max(lows), min(highs)
