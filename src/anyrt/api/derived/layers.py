"""The layer classes, each created from its operator's record on first use.

>>> layer_class("IScaleLayer").mode.__doc__
'coefficients per tensor, channel or element; ScaleMode, set by the method'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from anyrt.api.derived.convert import show, take
from anyrt.api.derived.describe import attribute_text, boundary_text, class_text, operand_text
from anyrt.api.derived.setters import setters
from anyrt.api.edge.fold import fold
from anyrt.api.edge.missing import REMOVED, lookup_error, mark_absences
from anyrt.api.edge.quiet import quiet
from anyrt.api.model.layer import ILayer
from anyrt.api.model.parts import BORDER_CLASSES, PARTS
from anyrt.api.model.scope import Between
from anyrt.api.model.state import LayerState, state_of
from anyrt.api.model.tensor import ITensor
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, WrongName
from anyrt.ir.graph import Value
from anyrt.ops import ALL_OPS, BORDERS, OPS
from anyrt.ops._record import AnyOp, Attrs, AttrSpec, Input, Layer, Query, Scope

# Attributes of weak typing, which TensorRT rejects on strongly typed networks.
WEAK_ONLY = frozenset({"compute_precision"})


@cache
def layer_class(name: str) -> type[ILayer]:
    """The class of that name, current or removed; AttributeError if no operator has it."""
    for op in ALL_OPS:
        if op.scope is None and op.cls == name:
            answers = {q.name: _answer(q) for q in op.queries}
            return _new(name, {"__doc__": class_text(op), **_attributes(op), **answers, **setters(op)})
        if op.scope is not None and name in (op.cls, op.scope.exit_cls, op.scope.boundary):
            return _boundary_class(op, op.scope, name)
    for op in BORDERS.values():
        if op.cls == name:
            body = {"__doc__": class_text(op), **_attributes(op)}
            return _new(name, body, BORDER_CLASSES[op.within])
    raise lookup_error("anyrt", name)


def class_named(name: str) -> type:
    """The current class of that name, of layers or of boundary layers of loops and conditionals."""
    if name not in layer_class_names():
        raise lookup_error("anyrt", name)
    plain = {**PARTS, **{c.__name__: c for c in BORDER_CLASSES.values()}}
    if name in plain:
        return plain[name]
    scopes = {op.scope.cls for op in OPS.values() if op.scope is not None}
    return scope_class(name) if name in scopes else layer_class(name)


@cache
def scope_class(name: str) -> type[Between]:
    """The class of that name for boundary layers; AttributeError if no operator has it."""
    for op in OPS.values():
        if op.scope is not None and op.scope.cls == name:
            passed = {n: _passed_on(x) for n, x in _attributes(op).items()}
            cls: type[Between] = fold(
                type(name, (Between,), {"__module__": "anyrt", "__slots__": (), **passed})
            )
            cls.__doc__ = class_text(op)
            return cls
    raise lookup_error("anyrt", name)


def enter(entry: ILayer) -> Between:
    """The object that the add method of a layer in a scope returns; adds its layer to the network."""
    state = state_of(entry)
    op, network = state.op, state.network
    assert op.scope is not None, f"{op.cls} has no scope"
    name = f"(Unnamed Layer* {len(network.layers)}) [{op.title}Output]"
    exit_class = layer_class(op.scope.exit_cls)
    behind = exit_class(network, _exit(op), name, state.outputs[:1], {}, state.source)
    network.layers.append(state_of(behind))
    between = scope_class(op.scope.cls)(entry, behind)
    state.scope = state_of(behind).scope = between
    return between


@cache
def _exit(op: AnyOp) -> AnyOp:
    """The operator of the layer that returns the result of `op` from the scope."""
    assert op.scope is not None, f"{op.cls} has no scope"
    inputs = (Input("input", frozenset(DataType)),)
    layer, cls = op.scope.exit, op.scope.exit_cls
    return replace(op, layer=layer, cls=cls, inputs=inputs, attrs=Attrs, expand=_pass_on, scope=None)


def _pass_on(layer: Layer[Attrs]) -> tuple[Value, ...]:
    return (layer.input(0),)


def layer_class_names() -> list[str]:
    """All names for `class_named`."""
    scopes = [op.scope for op in OPS.values() if op.scope is not None]
    around = {n for s in scopes for n in (s.cls, s.boundary, s.exit_cls)}
    around |= {*PARTS, *(c.__name__ for c in BORDER_CLASSES.values())}
    return sorted({op.cls for op in (*OPS.values(), *BORDERS.values())} | around)


def _new(name: str, body: dict[str, object], base: type[ILayer] = ILayer) -> type[ILayer]:
    # No additional slots: all layer classes have one layout, so that `layer.__class__ = X` is possible.
    kind = type(name, (base,), {"__module__": "anyrt", "__slots__": (), **body})
    if name in REMOVED:
        mark_absences(kind)
    return kind


def _boundary_class(op: AnyOp, scope: Scope, name: str) -> type[ILayer]:
    body: dict[str, object] = {"__doc__": boundary_text(op, scope)}
    if name != scope.boundary:
        return _new(name, body, layer_class(scope.boundary))

    def get(self: ILayer) -> object:
        return state_of(self).scope

    return _new(name, {**body, scope.attribute: property(get, doc=f"the {scope.cls} of the layer")})


def _attributes(op: AnyOp) -> dict[str, property]:
    """The properties of a layer for its attributes, and for operands with a property."""
    operands = {x.name: _operand(op, i) for i, x in enumerate(op.inputs) if x.is_property}
    return {**{s.name: _property(op, s) for s in op.specs()}, **operands}


def _answer(query: Query[Any]) -> Callable[[ILayer], bool]:  # Any: the attributes of any operator
    def ask(self: ILayer) -> bool:
        state = state_of(self)
        return query.answer(state.op.attrs(**state.attributes))

    ask.__name__, ask.__qualname__, ask.__doc__ = query.name, query.name, query.doc
    return ask


def _operand(op: AnyOp, index: int) -> property:
    def get(self: ILayer) -> object:
        return self.get_input(index)

    def assign(self: ILayer, tensor: ITensor) -> None:
        self.set_input(index, tensor)

    return property(get, assign, doc=f"{operand_text(op, op.inputs[index])}; ITensor, default: None")


def _passed_on(of_layer: property) -> property:
    """The property of a layer, for the boundary layers of a scope."""

    def get(self: Between) -> object:
        return of_layer.__get__(self._entry)

    def assign(self: Between, value: object) -> None:
        of_layer.__set__(self._entry, value)

    return property(get, assign if of_layer.fset else None, doc=of_layer.__doc__)


def _check_kind(layer: LayerState, spec: AttrSpec) -> None:
    """Raise WrongName if a program assigned a class of another kind to the layer."""
    if not spec.sets and spec.name not in layer.attributes:
        wanted = f"an attribute of {layer.op.owner}, the class of the layer"
        raise WrongName("AR313", layer.place, repr(spec.name), wanted, "keep the class of the layer")


def _property(op: AnyOp, spec: AttrSpec) -> property:
    def get(self: ILayer) -> object:
        if spec.sets:
            return getattr(self, spec.sets[0])
        state = state_of(self)
        _check_kind(state, spec)
        value = state.attributes[spec.name]
        first = state.inputs[0] if state.inputs else None
        if value is None and spec.from_rank is not None and first is not None:
            sizes = first.sizes
            return 0 if sizes is None else spec.from_rank(len(sizes))
        if value is None and spec.from_attr is not None:
            name, stands_for = spec.from_attr
            return show(spec, stands_for(state.attributes[name]))
        return show(spec, value)

    @quiet(None)
    def assign(self: ILayer, value: object) -> None:
        state = state_of(self)
        _check_kind(state, spec)
        converted = take(spec, value, f"{state.op.owner}.{spec.name}")
        if spec.name in WEAK_ONLY:
            state.refuse_when_strong(spec.name)
        locked = spec.locked_by
        if locked is not None and self.get_input(locked) is not None:
            operand = state.op.operand(locked).name
            got = f"{spec.name} while input {locked} ({operand}) is connected"
            wanted, do = (
                "the input or the attribute, not both",
                "set the attribute before the input, or use the input only",
            )
            raise ArgumentError("AR310", state.place, got, wanted, do)
        state.attributes.update(dict.fromkeys(spec.sets or (spec.name,), converted))
        self._give_outputs()
        if spec.drops is not None:
            state.drop(spec.drops)
        state.reset(spec.clears)

    return property(get, None if spec.read_only else assign, doc=attribute_text(op, spec))
