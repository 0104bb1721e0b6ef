"""Freezes a network: creates a graph with symbols for dynamic sizes, for the compiler.

Errors of layers that were only recorded so far are raised here; names, profiles and outputs are checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from anyrt.api.building.formats import chosen
from anyrt.api.building.marks import AGAIN, DEBUG, HIDDEN, UNFUSED, VALUES, print_values
from anyrt.api.building.precision import Precisions
from anyrt.api.building.profile import IOptimizationProfile, shape_ranges, value_ranges
from anyrt.api.building.refittable import Refittable, refit_kind
from anyrt.api.model.expansion import Expansion, Limits, as_they_are
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.parts import PartState
from anyrt.api.model.state import LayerState, state_of
from anyrt.api.model.view import LayerView, NetworkView, TensorView, view_of
from anyrt.api.model.weights import Weights
from anyrt.api.plugins.expand import Building, Timings
from anyrt.api.plugins.lent import lender
from anyrt.compiler.precision import rounds_tensors, stored_once
from anyrt.compiler.request import BuildRequest, Settings
from anyrt.core.counts import count, counts
from anyrt.core.dtype import short_name
from anyrt.core.enums import BuilderFlag, DataType, Severity, TensorFormat, TensorLocation
from anyrt.core.errors import AnyrtError, GraphError, ProfileError, ShapeError
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Value, apply, walk
from anyrt.ir.symbolic import known
from anyrt.ops._types import PACKED
from anyrt.passes.data_dependent_sizes import with_conditions
from anyrt.passes.open_sizes import read_once
from anyrt.passes.order_exchanges import order_exchanges
from anyrt.plan.plan import LENT_BY, MEMORY_OF, Binding, LayerRecord, Range
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, reshape
from anyrt.prims.checked import Checked
from anyrt.prims.const import Blob, Param
from anyrt.prims.count import Count
from anyrt.prims.formats import with_formats

Profile = tuple[Range, ...]
# A tensor with sizes may also be a long table; inferences write it, `infer_shapes` does not.
MANY_SIZES = 64

CODES = frozenset({DataType.FP8, DataType.FP4})
MOST = 2**31 - 1  # maximum number of elements of a tensor, which bounds each size
FAR = 2**62 - 1  # bound of values that determine sizes, such as the ends of slices
OFTEN = 128  # the optimum size of a dynamic dimension after the first, without a profile


def freeze(
    network: INetworkDefinition,
    profiles: Sequence[IOptimizationProfile],
    settings: Settings,
    unfused: Collection[str] = (),
    precisions: Precisions | None = None,
    timings: Timings | None = None,
) -> BuildRequest:
    """The request that builds `network`, without a monitor. `unfused`: layers whose results are debug
    tensors, too. `precisions`: the types in which layers compute, None for the types of their tensors.
    `timings`: those of the tactics of plug-ins."""
    kind, view = refit_kind(settings.flags), view_of(network)
    if kind is None:
        return _frozen(view, profiles, settings, unfused, precisions, timings, None)
    individual = bool(settings.flags >> int(BuilderFlag.REFIT_INDIVIDUAL) & 1)
    weights = Refittable(
        state_of(network), kind, individual and not settings.flags >> int(BuilderFlag.REFIT) & 1
    )
    while True:
        weights.begin()
        before = len(weights.fixed)
        request = _frozen(view, profiles, settings, unfused, precisions, timings, weights)
        if len(weights.fixed) == before:
            return replace(request, weights=weights.records(), refit=kind)


def _frozen(
    view: NetworkView,
    profiles: Sequence[IOptimizationProfile],
    settings: Settings,
    unfused: Collection[str],
    precisions: Precisions | None,
    timings: Timings | None,
    refittable: Refittable | None,
) -> BuildRequest:
    shown = [t for layer in view.layers if layer.name in unfused for t in layer.outputs]
    outputs = list(dict.fromkeys([*_outputs(view), *shown]))
    _check_names([*view.inputs, *outputs])
    ranges = profiles_of(view, profiles)
    rounds = rounds_tensors(view.is_strong, settings.flags)
    expansion = _expansion(view, limits_of(view, ranges), precisions, refittable, rounds)
    if expansion is not view.expansion:
        weak = not view.is_strong
        expansion.building = Building(ranges, expansion.symbols, weak, {} if timings is None else timings)
    _judge(view, expansion)
    _check_updates(view)
    names = names_of(view, expansion)
    held = _held(view, expansion, [t for t in outputs if t in view.marked], names)
    seen, turns, more = _seen(view, expansion, [t for t in outputs if t not in view.marked])
    values = {t: seen.get(t) or expansion.value(t.it) for t in (*view.inputs, *outputs)}
    for t, value in seen.items():
        names.setdefault(value, t.maker_name or t.name)
    _check_outside(view, expansion, {t.name: values[t] for t in outputs})
    ends, ranks = _with_ranks(expansion, _as_numbers(view, values | held, names), names)
    formats = {t.name: chosen(view, t, value.type) for t, value in ends.items()}
    plain = Graph(
        tuple((t.name, expansion.value(t.it)) for t in view.inputs),
        tuple((t.name, ends[t]) for t in outputs),
        names,
        tuple(expansion.symbols.values()),
        {t.name: t.maker_name for t in outputs if t.maker and names[ends[t]] != t.maker_name},
        tuple((y.name, x.name) for layer in view.layers for y, x in layer.updates),
    )
    plain = stored_once(plain, view.is_strong, settings.flags)
    sized = read_once(counted(plain, [*expansion.tells(), *more], ranks.values()))
    _check_outside(view, expansion, dict(sized.outputs[len(outputs) :]))
    graph = order_exchanges(with_conditions(sized, next(iter(held)).name))
    ends_of = dict((*graph.inputs, *graph.outputs))
    tells = (Binding(name, False, v.dtype, v.shape) for name, v in graph.outputs[len(outputs) :])
    return BuildRequest(
        name=view.name,
        graph=with_formats(graph, {n: f for n, f in formats.items() if f is not TensorFormat.LINEAR}),
        profiles=ranges,
        settings=settings,
        bindings=(
            *(_binding(t, ends_of[t.name], formats[t.name], t in seen, ranks.get(t)) for t in values),
            *tells,
        ),
        layers=tuple(
            _layers(view, expansion, outputs, turns, {} if precisions is None else precisions.chosen)
        ),
        log=view.log,
        aside=frozenset(t.name for t in outputs if t not in view.marked),
        title=view.title,
    )


def _expansion(
    view: NetworkView,
    limits: Limits,
    precisions: Precisions | None,
    refittable: Refittable | None,
    rounds: bool,
) -> Expansion:
    """The expansions of layers for this build: the existing ones, if they suffice."""
    staged = as_they_are if precisions is None or not precisions.may_differ else precisions.staged
    is_usual = staged is as_they_are and refittable is None and rounds
    inputs, layers = [t.it for t in view.inputs], [layer.it for layer in view.layers]
    if is_usual and view.expansion.holds_of(inputs, layers):
        return view.expansion
    if precisions is not None and refittable is not None:
        precisions.held = refittable.scale
    return Expansion(limits, all_values=False, staged=staged, refittable=refittable, rounds=rounds)


def _outputs(view: NetworkView) -> list[TensorView]:
    if not view.marked:
        do = "call network.mark_output(tensor)"
        raise GraphError("AR401", view.name, "no marked output", "at least one output", do)
    return list(dict.fromkeys([*view.marked, *(t for t in view.debug if t.maker is not None)]))


def _check_names(tensors: Iterable[TensorView]) -> None:
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            got = "a second input or output of this name"
            raise GraphError("AR402", tensor.name, got, "a unique name", "set tensor.name")
        seen.add(tensor.name)


def _judge(view: NetworkView, expansion: Expansion) -> None:
    """Check every layer, including those that nothing reads; log all errors, raise the first."""
    mistakes: dict[AnyrtError, None] = {}
    for layer in view.layers:
        try:
            expansion.values(layer.it)
        except AnyrtError as error:
            mistakes[error] = None
    for mistake in [*mistakes][1:]:
        view.log(Severity.ERROR, str(mistake))
    for mistake in mistakes:
        raise mistake


def _check_updates(view: NetworkView) -> None:
    """Check that a tensor updated in place is an input with only one update, which is an output."""
    first: dict[TensorView, LayerView] = {}
    every = [(layer, *pair) for layer in view.layers for pair in layer.updates]
    for layer, output, source in every:
        if source.maker is not None:
            got, do = f"{source.name}, a computed tensor", "pass an input of the network"
            raise GraphError("AR409", layer.place, got, "a network input", do)
        if (other := first.setdefault(source, layer)) is not layer:
            got, do = (
                f"{source.name}, which {other.place} also updates",
                "use a different input for each update",
            )
            raise GraphError("AR409", layer.place, got, "a cache with one update", do)
        if output not in view.outputs:
            do = "call network.mark_output(layer.get_output(0))"
            raise GraphError(
                "AR409",
                layer.place,
                "an update that is not an output",
                "an update that is a marked output",
                do,
            )


def _seen(
    view: NetworkView, expansion: Expansion, tensors: Iterable[TensorView]
) -> tuple[dict[TensorView, Value], Counter[TensorView], list[Value]]:
    """Debug tensors inside loops and conditionals: all their values in an inference, with one axis per
    enclosing loop or branch, and the outputs for the data-dependent sizes that these need."""
    inside = {expansion.value(x.outputs[0].it): x.part for x in view.borders if x.part is not None}
    inside = {v: part for v, part in inside.items() if isinstance(v.op, Param)}

    def parts_of(values: Iterable[Value]) -> set[PartState]:
        return {inside[v] for v in walk(values) if v in inside}

    # The enclosing loops and branches from which its values come.
    around = {part: set[PartState]() for part in inside.values()}
    for x in view.borders:
        if x.part is not None and x.inputs[0] is not None and not x.is_part_output:
            around[x.part] |= parts_of([expansion.value(x.inputs[0].it)]) - {x.part}
    seen, depth, tells = dict[TensorView, Value](), Counter[TensorView](), list[Value]()
    todo = {t: expansion.value(t.it) for t in tensors}
    todo = {
        t: v for t, v in todo.items() if v.dtype not in PACKED
    }  # elements smaller than a byte have no address
    beside: dict[TensorView, tuple[Value, ...]] = dict.fromkeys(todo, ())
    while todo:
        parts: dict[PartState, dict[TensorView, Value]] = {}
        for tensor, value in todo.items():
            parts_read = parts_of([value])
            innermost = parts_read.difference(*(around[part] for part in parts_read))
            if len(innermost) == 1:
                parts.setdefault(innermost.pop(), {})[tensor] = value
        todo = {}
        for part, named in parts.items():
            results = part.seen(expansion, {t.name: (v, *beside[t]) for t, v in named.items()})
            todo |= dict(zip(named, results.values, strict=True))
            tells += results.tells
            leaves = any(x.part is part and x.is_part_output for x in view.borders)
            ends = expansion.part(part) if leaves else ()
            beside |= {t: (*beside[t], *ends) for t in named}
        seen |= todo
        depth.update(todo.keys())
    return seen, depth, tells


def _check_outside(view: NetworkView, expansion: Expansion, outputs: Mapping[str, Value]) -> None:
    """Check that values inside a loop or conditional, including sizes, are read outside only through
    outputs."""
    inside = {expansion.value(x.outputs[0].it): x for x in view.borders}
    known = {expansion.value(t.it) for t in view.inputs}
    for name, output in outputs.items() if view.borders else ():
        for value in walk([output]):
            if isinstance(value.op, Param) and value not in known:
                got = f"{name}, which depends on {inside[value].place} inside a loop or conditional"
                do = "pass it through add_loop_output, or add_output of the conditional"
                raise GraphError("AR414", name, got, "an output of the loop or conditional", do)


def names_of(view: NetworkView, expansion: Expansion) -> dict[Value, str]:
    names = {expansion.value(t.it): t.name for t in view.inputs}
    for layer in view.layers:
        for value in (v for tensor in layer.outputs for v in expansion.forms(tensor.it)):
            names.setdefault(value, layer.name)
    return names


def _held(
    view: NetworkView,
    expansion: Expansion,
    outputs: Sequence[TensorView],
    names: dict[Value, str],
) -> dict[TensorView, Value]:
    """The outputs, one of which also holds the requirements of layers without outputs. That is the cheapest
    one: an output that no layer reads, since others would be copied, and that updates no cache."""
    updates = {y for layer in view.layers for y, _ in layer.updates}
    waits = min(outputs, key=lambda t: (t in updates, bool(t.readers)))
    value = expansion.value(waits.it)
    for layer in view.layers:
        for check in () if layer.outputs else expansion.values(layer.it):
            if isinstance(check.op, Checked | Asserted):
                names.setdefault(check.args[-1], layer.name)
                value = apply(check.op, value, *check.args[1:])
    names.setdefault(value, names[expansion.value(waits.it)])
    return {waits: value}


def _as_numbers(
    view: NetworkView, ends: Mapping[TensorView, Value], names: dict[Value, str]
) -> dict[TensorView, Value]:
    """Inputs and outputs; in a weakly typed network, an output of codes is dequantized, as in TensorRT."""
    converted = dict(ends)
    for t in () if view.is_strong else view.marked:
        if converted[t].dtype in CODES:
            converted[t] = cast(ends[t], DataType.FLOAT)
            names.setdefault(converted[t], names[ends[t]])
    return converted


def _with_ranks(
    expansion: Expansion, ends: Mapping[TensorView, Value], names: dict[Value, str]
) -> tuple[dict[TensorView, Value], dict[TensorView, Value]]:
    """Inputs and outputs with the ranks that the build determines, and additional outputs for ranks that an
    inference determines."""
    ranked, tells = dict(ends), dict[TensorView, Value]()
    for t, value in ends.items():
        if t.rank is None:
            continue
        rank_value = expansion.value(t.rank)
        elements = known(rank_value)
        rank = None if elements is None else elements.reshape(-1)[0]
        if isinstance(rank, int):
            ranked[t] = reshape(value, value.shape[:rank])
            names.setdefault(ranked[t], names[value])
        else:
            tells[t] = apply(Count(count(f"rank of {t.name}", len(value.shape))), rank_value)
    return ranked, tells


def _binding(
    tensor: TensorView, value: Value, format: TensorFormat, is_seen: bool, rank: Value | None
) -> Binding:
    is_shape = tensor.it.is_shape_tensor and not is_seen
    return Binding(
        name=tensor.name,
        is_input=tensor.maker is None,
        dtype=value.dtype,
        shape=value.shape,
        is_shape=is_shape,
        is_host=is_shape or tensor.location is TensorLocation.HOST,
        format=format,
        dim_names=() if is_seen else _dim_names(tensor),
        rank=None if rank is None or rank.op.tells is None else rank.op.tells.dim,
    )


def _dim_names(tensor: TensorView) -> tuple[str, ...]:
    return tuple(tensor.dim_names.get(i, "") for i in range(len(tensor.shape) if tensor.dim_names else 0))


def _layers(
    view: NetworkView,
    expansion: Expansion,
    outputs: Collection[TensorView],
    turns: Counter[TensorView],
    chosen: Mapping[LayerState, DataType],
) -> Iterator[LayerRecord]:
    shown = [(DEBUG, t.name) for t in view.inputs if t in view.debug]
    for layer in view.layers:
        details = [("source", layer.source), ("metadata", layer.metadata)]
        details += shown if layer is view.layers[0] else []  # no layer computes an input
        details += [("precision", short_name(chosen[layer.it]))] if layer.it in chosen else []
        details += [(n, _shown(x)) for n, x in layer.attributes.items()]
        details += [(MEMORY_OF, source.name) for _, source in layer.updates]
        lenders = (lender(view, expansion, t) for t in layer.outputs if t in outputs)
        details += [(LENT_BY, x.name) for x in lenders if x is not None]
        for tensor in layer.outputs:
            details += _marks(view, expansion, tensor) if tensor in outputs else ()
            details += [(AGAIN, tensor.name)] * turns[tensor]
        inputs = tuple(t.name for t in layer.inputs if t is not None)
        makes = tuple(t.name for t in layer.outputs)
        yield LayerRecord(layer.name, layer.op.title, inputs, makes, tuple((k, v) for k, v in details if v))


def _marks(view: NetworkView, expansion: Expansion, tensor: TensorView) -> Iterator[tuple[str, str]]:
    """The marks of a tensor, which the engine needs in addition to the bindings; see `marks`."""
    value = expansion.value(tensor.it)
    shown = tensor in view.marked
    if tensor in view.debug:
        yield (DEBUG if shown else HIDDEN), tensor.name
    elif not shown:
        yield UNFUSED, tensor.name
    is_shape_output = tensor in view.shape_outputs
    if is_shape_output or (shown and tensor.it.is_shape_tensor and len(value.shape) <= 1):
        elements = known(value)
        if elements is not None and any(map(counts, elements.reshape(-1).tolist())):
            elements = None
        if elements is not None and (is_shape_output or elements.size <= MANY_SIZES):
            yield VALUES, print_values(tensor.name, elements.reshape(-1).tolist())
        elif is_shape_output:
            do = "compute it from shapes, constants and shape tensors"
            raise ShapeError(
                "AR121", tensor.name, "values that depend on data", "values that depend only on shapes", do
            )


def _shown(x: object) -> str:
    match x:
        case Weights() | Blob():
            return f"{x.size} of {x.dtype.name}" if x.size else ""
        case None:
            return ""
    return str(x)


def profiles_of(view: NetworkView, profiles: Sequence[IOptimizationProfile]) -> tuple[Profile, ...]:
    """The ranges of all inputs in each profile, in the order of the inputs; none for a static network."""
    known = {t.name for t in view.inputs}
    for profile in profiles:
        for name in (*shape_ranges(profile), *value_ranges(profile)):
            if name not in known:
                raise ProfileError(
                    "AR506", name, "a profile for an unknown input", f"one of {', '.join(sorted(known))}"
                )
    return tuple(tuple(_ranges(view, p)) for p in profiles or [_any_shapes(view)])


def _any_shapes(view: NetworkView) -> IOptimizationProfile:
    """The profile of a build without profiles: every size and value, with an optimum batch of 1."""
    profile, names = IOptimizationProfile(), []
    for tensor in view.inputs:
        shape = tensor.shape
        if -1 in shape:
            names.append(tensor.name)
            best = [OFTEN if axis else 1 for axis in range(len(shape))]
            low, opt, high = (
                [other[axis] if d < 0 else d for axis, d in enumerate(shape)]
                for other in ([0] * len(shape), best, [MOST] * len(shape))
            )
            profile.set_shape(tensor.name, low, opt, high)
        if tensor.it.is_shape_tensor:
            names.append(tensor.name)
            count = shape[0] if shape else 1
            profile.set_shape_input(tensor.name, [-FAR] * count, [1] * count, [FAR] * count)
    if names:
        view.log(Severity.INFO, f"no profile: the engine accepts every shape of {', '.join(names)}")
    return profile


def _ranges(view: NetworkView, profile: IOptimizationProfile) -> Iterator[Range]:
    for tensor in view.inputs:
        yield _shapes(tensor, shape_ranges(profile).get(tensor.name))
    for tensor in view.inputs:
        if tensor.it.is_shape_tensor:
            yield _values(tensor, value_ranges(profile).get(tensor.name))


def _shapes(tensor: TensorView, limits: Range | None) -> Range:
    name, shape = tensor.name, tensor.shape
    if limits is None:
        if -1 in shape:
            call = f"call profile.set_shape({name!r}, min, opt, max)"
            do = f"{call} and config.add_optimization_profile(profile)"
            raise ProfileError("AR501", name, f"shape {shape} and no profile", "a profile", do)
        return Range(name, False, shape, shape, shape)
    if len(limits.min) != len(shape):
        raise ProfileError("AR502", name, f"a profile of rank {len(limits.min)}", f"rank {len(shape)}")
    for axis, size in enumerate(shape):
        if size >= 0 and (limits.min[axis], limits.max[axis]) != (size, size):
            got = f"{limits.min[axis]} to {limits.max[axis]} for dimension {axis}"
            raise ProfileError("AR504", name, got, f"{size}, the size in the network")
    return limits


def _values(tensor: TensorView, limits: Range | None) -> Range:
    count = tensor.shape[0] if tensor.shape else 1
    if limits is None:
        got, do = (
            "a shape tensor without a range of values",
            f"profile.set_shape_input({tensor.name!r}, …)",
        )
        raise ProfileError("AR501", tensor.name, got, "a profile", do)
    if len(limits.min) != count:
        raise ProfileError("AR502", tensor.name, f"{len(limits.min)} values", f"{count} values")
    return limits


def limits_of(view: NetworkView, profiles: tuple[Profile, ...]) -> Limits:
    """The range of each dynamic size and shape value over all profiles; named dimensions share theirs."""
    limits: dict[tuple[str, int, bool], tuple[int, int]] = {}
    for group in _groups(view):
        spans = [_span(group, profile) for profile in profiles]
        span = min(low for low, _ in spans), max(high for _, high in spans)
        limits |= dict.fromkeys(group, span)
    return limits


def _groups(view: NetworkView) -> list[list[tuple[str, int, bool]]]:
    groups: dict[str, list[tuple[str, int, bool]]] = {}
    for tensor in view.inputs:
        for axis, size in enumerate(tensor.shape):
            if size < 0:
                name = tensor.dim_names.get(axis) or f"{tensor.name}.{axis}"
                groups.setdefault(name, []).append((tensor.name, axis, False))
        if tensor.it.is_shape_tensor:
            for i in range(tensor.shape[0] if tensor.shape else 1):
                groups[f"{tensor.name}#{i}"] = [(tensor.name, i, True)]
    return list(groups.values())


def _span(group: list[tuple[str, int, bool]], profile: Profile) -> tuple[int, int]:
    """The range that all members of a group allow in one profile."""
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
            "a common size in all ranges of this name",
            "widen the profile of one of them",
        )
    return max(lows), min(highs)
