"""The expansion of a plug-in's layer: a `Plugin` primitive on its inputs, with the types and shapes that it
returns.

A network definition requests only types and shapes from the plug-in. The builder also sends it formats and
ranges, and requests its workspace and tactics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np

from anyrt.api.plugins.execution import fastest_tactic, interpreter_function
from anyrt.api.plugins.exprs import DimsExprs, IDimensionExpr, builder_of, declared, dim_of, sizes_of
from anyrt.api.plugins.formats import describe_dynamic, select_formats
from anyrt.api.plugins.kinds import Kind
from anyrt.core.counts import at_most, counts, highest
from anyrt.core.dims import INF, Dim, Sym, bounds, product, symbols
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import ProfileError
from anyrt.core.formats import in_memory
from anyrt.core.requirement import FINE, Assertion
from anyrt.ir.graph import Shape, Symbol, Type, Value, apply, apply_all
from anyrt.ops._elements import elements, tied
from anyrt.ops._math import number
from anyrt.ops._types import INTS
from anyrt.plan.plan import Range
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, map_, reshape, scalar, slice_
from anyrt.prims.count import Count
from anyrt.prims.formats import pack, unpack
from anyrt.prims.plugin import Plugin, PluginData, Tensor

Timings: TypeAlias = MutableMapping[str, tuple[int, float]]
Corner: TypeAlias = Mapping[str, int]
MOST_ELEMENTS = (1 << 31) - 1  # of any tensor
LARGEST = 1 << 40  # bytes of a workspace: larger ones result from unbounded dimensions


@dataclass(frozen=True, slots=True, eq=False)
class Building:
    """The data of a build for plug-ins. `weak`: the element types of tensors may be converted for them."""

    profiles: Sequence[Sequence[Range]]
    symbols: Mapping[str, Symbol]
    weak: bool
    timings: Timings

    def corners(self, profile: int) -> tuple[Corner, Corner, Corner]:
        """The minimum, optimum and maximum dimensions, by the names of symbols."""
        ranges = {(r.tensor, r.is_values): (r.min, r.opt, r.max) for r in self.profiles[profile]}
        least, best, most = (
            {
                s.sym.name: ranges[s.tensor, s.is_value][point][s.axis]
                for s in self.symbols.values()
                if (s.tensor, s.is_value) in ranges
            }
            for point in range(3)
        )
        return least, best, most


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The plug-in of a layer. `inputs`: the number of inputs before the shape inputs."""

    kind: Kind
    inputs: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a plug-in. `size_outputs`: the size tensors by output, with their symbols."""

    types: tuple[Type, ...]
    size_outputs: Mapping[int, Sym]


def expand_plugin(
    held: Held, name: str, values: Sequence[Value], scales: Sequence[float], building: Building | None
) -> tuple[Value, ...]:
    """The outputs of the layer `name` for `values`, inputs and then shape inputs. `scales`: the int8 scales
    of inputs and then outputs."""
    kind, inputs = held.kind, tuple(values[: held.inputs])
    shape_values = [elements(f"{name}#{k}", k, v) for k, v in enumerate(values[held.inputs :], held.inputs)]
    known = [DimsExprs([IDimensionExpr(size) for size, _ in row]) for row in shape_values]
    if building is not None:
        kind = kind.clone()
    outputs = _outputs(kind, name, inputs, known)
    if building is None:
        data = PluginData(np.zeros(0, np.uint8), DataType.UINT8)
        outs = tuple(replace(t, shape=_buffer_shape(t, outputs)) for t in outputs.types)
        raw = apply_all(Plugin(name, *kind.key, data, outs), *inputs)
        results = [_as_output(r, t) for r, t in zip(raw, outputs.types, strict=True)]
    else:
        results = _build(kind, name, inputs, outputs, scales, building)
    ties = [x for row in shape_values for _, x in row if x is not None]
    for k, sym in outputs.size_outputs.items():
        size, check = _size(kind.where, results[k], sym)
        results = [check(tied(y, (size,))) if sym in _count_symbols(y.shape) else y for y in results]
    return tuple(tied(y, tuple(ties)) for y in results)


def _size(where: str, value: Value, sym: Sym) -> tuple[Value, Callable[[Value], Value]]:
    """The value of a size tensor, clamped between 0 and its bound, and a function that adds the assertion
    that ends the inference if the value was outside."""
    most, n = sym.most, cast(value, DataType.INT64)
    if most is None or most == INF:
        return apply(Count(sym), n), lambda y: y
    size = apply(Count(sym), map_("max", map_("min", n, number(most, n)), scalar(0, n)))
    got, do = "a size tensor of {}", "write at most its upper_bound"
    rule = Assertion("AR822", where, got, f"0 to {most}", do)
    status = map_("select", map_("eq", size, n), scalar(FINE, n), n)
    return size, lambda y: apply(Asserted(rule), y, status)


def _outputs(kind: Kind, name: str, inputs: Sequence[Value], known: list[DimsExprs]) -> Outputs:
    """The types and shapes of the outputs."""
    kind.ranks = [len(v.shape) for v in inputs]
    types = kind.types([v.dtype for v in inputs])
    build = builder_of(name)
    exprs = [DimsExprs([IDimensionExpr(d) for d in v.shape]) for v in inputs]
    shapes = [_sizes(kind, dims) for dims in kind.shapes(exprs, known, build)]
    names = {sym.name for dims in (*exprs, *known) for size in dims for sym in symbols(dim_of(size))}
    names |= {sym.name for sym in declared(build).values()}
    for sym in {s for shape in shapes for d in shape for s in symbols(d)}:
        if sym.name not in names:
            got, do = f"a dimension {sym.name}, of another call", "use only inputs and expr_builder"
            raise kind.wrong("get_output_shapes", got, "expressions of this call", do)
    outputs = tuple(Type(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
    own = declared(build)
    used = {sym for shape in shapes for d in shape for sym in counts(d)}
    for output, sym in own.items():
        if not 0 <= output < len(outputs):
            raise kind.wrong(
                "get_output_shapes", f"output {output} as a size tensor", f"0 to {len(outputs) - 1}"
            )
        if outputs[output].shape != () or outputs[output].dtype not in INTS:
            got, wanted = (
                f"{outputs[output]} as output {output}, a size tensor",
                "an int32 or int64 of rank 0",
            )
            raise kind.wrong("get_output_shapes", got, wanted, "return trt.DimsExprs(0) for it")
        if sym not in used:
            own = {k: s for k, s in own.items() if s is not sym}
    return Outputs(outputs, own)


def _sizes(kind: Kind, dims: DimsExprs) -> Shape:
    """The shape of an output; PluginError AR822 for an invalid one."""
    if unset := [k for k, size in enumerate(sizes_of(dims)) if size is None]:
        do = "set every dimension: dims[0] = expr_builder.constant(1)"
        raise kind.wrong("get_output_shapes", f"no dimension {unset[0]}", f"{len(dims)} dimensions", do)
    shape = tuple(map(dim_of, dims))
    for d in shape:
        if bounds(d)[1] < 0:
            raise kind.wrong("get_output_shapes", f"a dimension of {d}", "0 or more")
    if not any(d == 0 for d in shape) and prod(max(1, bounds(d)[0]) for d in shape) > MOST_ELEMENTS:
        got, do = f"an output of {shape}", "return a smaller shape, or several outputs"
        raise kind.wrong("get_output_shapes", got, f"at most {MOST_ELEMENTS} elements", do)
    return shape


def _count_symbols(shape: Shape) -> frozenset[Sym]:
    return frozenset().union(*map(counts, shape))


def _is_data_dependent(of: Type, outputs: Outputs) -> bool:
    """Whether a size tensor of this call determines a dimension of the output."""
    return not _count_symbols(of.shape).isdisjoint(outputs.size_outputs.values())


def _buffer_shape(of: Type, outputs: Outputs) -> Shape:
    """The shape of the memory of an output: flat, of the maximum size, if the output is data-dependent."""
    return (product(map(highest, of.shape)),) if _is_data_dependent(of, outputs) else of.shape


def _as_output(result: Value, of: Type) -> Value:
    """A result of the plug-in in the shape of the output."""
    if result.type == of:
        return result
    return reshape(slice_(result, (0,), (product(of.shape),), (1,)), of.shape)


def _build(
    kind: Kind,
    name: str,
    inputs: Sequence[Value],
    reported: Outputs,
    scales: Sequence[float],
    building: Building,
) -> list[Value]:
    """The outputs of the built plug-in: with formats, workspace and tactic."""
    free = [not _is_data_dependent(t, reported) for t in reported.types]
    tensors = [Tensor(v.type, scale=s) for v, s in zip(inputs, scales, strict=False)]
    tensors += [Tensor(t, scale=s) for t, s in zip(reported.types, scales[len(inputs) :], strict=True)]
    corners = [building.corners(p) for p in range(max(1, len(building.profiles)))]
    corners = [tuple(_whole(c, tensors) for c in corner) for corner in corners]  # type: ignore[misc]  # three stay three
    tensors = select_formats(kind, tensors, len(inputs), free, corners[0], weak=building.weak)
    count = len(inputs)
    workspace = 0
    for corner in corners:
        descs = [describe_dynamic(t, *corner) for t in tensors]
        kind.configure(descs[:count], descs[count:])
        workspace = max(workspace, kind.workspace(descs[:count], descs[count:]))
    if workspace > LARGEST:
        do = "add an optimization profile with the largest shapes that you need"
        got = f"a workspace of {workspace} bytes"
        raise ProfileError("AR501", kind.where, got, "dimensions with a bound", do)
    packed = [_convert(v, t) for v, t in zip(inputs, tensors, strict=False)]
    outs = tuple(
        Type(_buffer_shape(t.type, reported) if t.format is TensorFormat.LINEAR else _memory(t), t.type.dtype)
        for t in tensors[count:]
    )
    over = tuple(_over(kind, k, tensors, count) for k in range(len(outs)))
    sees = tuple(
        replace(t, type=replace(t.type, shape=tuple(map(highest, t.type.shape)))) for t in tensors[count:]
    )
    op = Plugin(name, *kind.key, _no_data(), outs, (*tensors[:count], *sees), workspace, 0, over)
    tactic = fastest_tactic(kind, op, corners[0][1], building.timings)
    kind.set_tactic(tactic)
    serialized = np.frombuffer(kind.serialized(), np.uint8)
    data = PluginData(serialized, DataType.UINT8, f"{name} (plug-in)", call=interpreter_function(kind))
    raw = apply_all(replace(op, made=data, tactic=tactic), *packed)
    results = []
    for result, tensor, of in zip(raw, tensors[count:], reported.types, strict=False):
        plain = tensor.format is TensorFormat.LINEAR
        whole = (
            _as_output(result, replace(of, dtype=result.dtype))
            if plain
            else unpack(result, tensor.format, of.shape)
        )
        results.append(cast(whole, of.dtype))
    return results


def _no_data() -> PluginData:
    return PluginData(np.zeros(0, np.uint8), DataType.UINT8)


def _whole(corner: Corner, tensors: Sequence[Tensor]) -> Corner:
    """`corner` with the upper bounds of data-dependent dimensions."""
    syms: dict[Sym, None] = {}
    todo: list[Dim] = [d for t in tensors for d in t.type.shape]
    while todo:
        for sym in sorted(symbols(todo.pop()), key=lambda s: s.name):
            if sym.most is not None and sym not in syms:
                syms[sym] = None
                todo += [sym.most] if sym.most != INF else []
    return at_most(corner, reversed(syms))


def _memory(t: Tensor) -> Shape:
    return in_memory(t.format, t.type.dtype, t.type.shape)


def _convert(value: Value, t: Tensor) -> Value:
    """An input, converted to the type and format of the plug-in."""
    converted = cast(value, t.type.dtype)
    return converted if t.format is TensorFormat.LINEAR else pack(converted, t.format)


def _over(kind: Kind, output: int, tensors: Sequence[Tensor], inputs: int) -> int:
    """The input whose memory an output shares; −1 for none."""
    source = kind.aliased(output)
    if source < 0:
        return -1
    if source >= inputs:
        raise kind.wrong("get_aliased_input", f"input {source}", f"below {inputs}, or -1")
    mine, its = tensors[inputs + output], tensors[source]
    if (mine.type, mine.format) != (its.type, its.format):
        got, do = (
            f"input {source}, {its.type}, for output {output}, {mine.type}",
            "alias only tensors of equal type and format",
        )
        raise kind.wrong("get_aliased_input", got, "one type and shape", do)
    return source
