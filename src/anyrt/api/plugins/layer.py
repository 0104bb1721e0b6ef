"""The layers of plug-ins, and the methods of a network that add them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeVar, cast

from anyrt.api.derived.arguments import tensor
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import tried
from anyrt.api.edge.quiet import WrongType, WrongValue, boolean, type_name, user_line, wrong_type
from anyrt.api.model.layer import ILayer
from anyrt.api.model.state import LayerState, NetworkState, TensorState, state_of
from anyrt.api.plugins.composed import Composed, values_of
from anyrt.api.plugins.expand import Held, expand_plugin
from anyrt.api.plugins.kind2 import DynamicVersion2, FormattedVersion2, StaticVersion2, Version2
from anyrt.api.plugins.kindquick import version3
from anyrt.api.plugins.kinds import Kind
from anyrt.api.plugins.user_calls import failure
from anyrt.api.plugins.v2 import IPluginV2, IPluginV2DynamicExt, IPluginV2IOExt
from anyrt.api.plugins.v3 import IPluginV3
from anyrt.core.enums import DataType, LayerType, NetworkDefinitionCreationFlag
from anyrt.core.enums import QuickPluginCreationRequest as Request
from anyrt.core.errors import PluginError
from anyrt.ir.graph import Value
from anyrt.ops._record import AnyOp, Array, Attrs, Input, Layer, Method, Op
from anyrt.ops._types import EVERY, FLOATS
from anyrt.prims.build import cast as convert

if TYPE_CHECKING:
    from anyrt.api.model.expansion import Expansion
    from anyrt.api.model.network import INetworkDefinition
    from anyrt.api.model.tensor import ITensor


L = TypeVar("L", bound="PluginLayer")
Planned: TypeAlias = "tuple[Sequence[ITensor], Sequence[ITensor], IPluginV3]"


@dataclass(slots=True, eq=False, repr=False)
class PluginState(LayerState):
    """The state of a plug-in layer."""

    held: Held = field(init=False)

    def expand(self, expansion: Expansion) -> tuple[Value, ...]:
        """The outputs of the plug-in for the inputs."""
        values, kind, inputs = [expansion.value(t) for t in self.operands], self.held.kind, self.held.inputs
        if isinstance(kind.plugin, Composed):
            return self._convert(self._composed(kind.plugin, values))
        scales = [expansion.fixed_scale(t) for t in self.inputs[:inputs] if t is not None]
        scales += [1.0 if t.scale is None else t.scale for t in self.outputs]
        held = Held(type(kind)(kind.plugin, self.place), inputs)
        return self._convert(expand_plugin(held, self.name, values, scales, expansion.building))

    def _composed(self, plugin: Composed, values: Sequence[Value]) -> Sequence[Value]:
        """The outputs of the composition for these values. In weakly typed networks, a half type in the
        fields of a plug-in is the type of its memory in TensorRT; tensors between layers remain float32."""
        if self.network.is_strong:
            return values_of(plugin, self.name, values)
        floats = {v.dtype for v in values} & FLOATS
        wide = values if len(floats) < 2 else [_widen(v) for v in values]
        results = values_of(plugin, self.name, wide)
        return results if floats - {DataType.FLOAT} else [_widen(v) for v in results]

    def _convert(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """The outputs in the requested types."""
        pairs = zip(values, self.outputs, strict=True)
        return tuple(convert(v, t.dtype or v.dtype) for v, t in pairs)


class PluginLayer(ILayer):
    """The base class of plug-in layers."""

    __slots__ = ()
    _state: PluginState
    _kind_of_state = PluginState


@fold
class IPluginV2Layer(PluginLayer):
    """A layer of a plug-in of version 2; made by `INetworkDefinition.add_plugin_v2`."""

    __slots__ = ()

    @property
    def plugin(self) -> IPluginV2:
        """The plug-in."""
        return cast("IPluginV2", self._state.held.kind.plugin)


@fold
class IPluginV3Layer(PluginLayer):
    """A layer of a plug-in of version 3; made by `INetworkDefinition.add_plugin_v3`."""

    __slots__ = ()

    @property
    def plugin(self) -> IPluginV3:
        """The plug-in."""
        return cast("IPluginV3", self._state.held.kind.plugin)


def _widen(v: Value) -> Value:
    """`v` in float32 if it has another floating-point type."""
    return convert(v, DataType.FLOAT) if v.dtype in FLOATS else v


def _expand(layer: Layer[Attrs]) -> NoReturn:
    raise AssertionError(f"{layer.name} expands by PluginState.expand")


def _ref(attrs: Attrs, arrays: tuple[Array, ...]) -> NoReturn:
    raise AssertionError("a plug-in has no reference")


def _op(layer: LayerType, cls: str, method: str) -> AnyOp:
    return Op(layer, cls, (Method(method, ("inputs", "plugin")),), (), Attrs, _expand, _ref, "", tuple)


V2: Final = _op(LayerType.PLUGIN_V2, "IPluginV2Layer", "add_plugin_v2")
V3: Final = _op(LayerType.PLUGIN_V3, "IPluginV3Layer", "add_plugin_v3")


def kind_of(plugin: object, where: str) -> Kind:
    """The kind of a plug-in of any version; TypeError for anything else."""
    match plugin:
        case IPluginV3():
            return version3(plugin, where)
        case IPluginV2DynamicExt():
            return DynamicVersion2(plugin, where)
        case IPluginV2IOExt():
            return FormattedVersion2(plugin, where)
        case IPluginV2():
            return StaticVersion2(plugin, where)
    raise wrong_type(where, plugin, "a plug-in: an IPluginV3 or IPluginV2")


def add_plugin_v3(
    self: INetworkDefinition, inputs: Sequence[ITensor], shape_inputs: Sequence[ITensor], plugin: IPluginV3
) -> IPluginV3Layer:
    """Add a layer that calls a plug-in of version 3.

        layer = network.add_plugin_v3([x], [], plugin)

    shape_inputs: integer tensors whose elements the plug-in receives as expressions, to compute output
    shapes.

    Errors: AR403, a tensor of a different network; AR822, a plug-in without a name or outputs; AR824, an
    exception in the plug-in. Its methods for types and shapes are called when these are needed."""
    if not isinstance(plugin, IPluginV3):
        raise wrong_type("add_plugin_v3: plugin", plugin, "an IPluginV3", "make one: MyPlugin()")
    kind = version3(plugin, f"add_plugin_v3 ({user_line()})")
    first, second = (
        _tensors(state_of(self), f"add_plugin_v3: {n}", x)
        for n, x in (("inputs", inputs), ("shape_inputs", shape_inputs))
    )
    return _add_layer(state_of(self), V3, IPluginV3Layer, kind, first, second)


def add_plugin_v2(self: INetworkDefinition, inputs: Sequence[ITensor], plugin: IPluginV2) -> IPluginV2Layer:
    """Add a layer that calls a plug-in of version 2.

        layer = network.add_plugin_v2([x], plugin)

    Errors: AR403, a tensor of a different network; AR822, a plug-in without a name or outputs; AR824, an
    exception in the plug-in. Its methods for types and shapes are called when these are needed."""
    if not isinstance(plugin, IPluginV2):
        raise wrong_type("add_plugin_v2: plugin", plugin, "an IPluginV2", "make one: MyPlugin()")
    kind = kind_of(plugin, f"add_plugin_v2 ({user_line()})")
    assert isinstance(kind, Version2), f"{kind} is of version 2"
    return _add_layer(
        state_of(self),
        V2,
        IPluginV2Layer,
        kind,
        _tensors(state_of(self), "add_plugin_v2: inputs", inputs),
        [],
    )


def add_plugin(
    self: INetworkDefinition, func: Planned | Callable[[Request], Planned], aot: bool | None = None
) -> IPluginV3Layer:
    """Add a layer that calls a plug-in made from functions.

        layer = network.add_plugin(trtp.op.my.scaled(x, factor=2.0))

    func: the result of `trtp.op`, a function that returns the inputs, the shape inputs and the plug-in; or a
    tuple of these. aot: whether `aot_impl` or `impl` computes the plug-in (default: the one that exists; if
    both exist, the one that the network's flags prefer).

    Errors: AR822, an invalid tuple; AR824, an exception in a function."""
    where = f"add_plugin ({user_line()})"
    planned: object = func
    if not isinstance(func, tuple):
        if not callable(func):
            raise wrong_type(
                "add_plugin: func", func, "the result of anyrt.plugin.op", "write op.space.name(x)"
            )
        planned, error = tried(func, request_of(self, aot))
        if isinstance(error, WrongType | WrongValue):
            raise error
        if error is not None:
            raise failure(where, type_name(func), error) from error
    if not isinstance(planned, tuple) or len(planned) != 3:
        got = f"{type_name(planned)} from func"
        raise PluginError("AR822", where, got, "a tuple of inputs, shape inputs and a plug-in")
    return add_plugin_v3(self, *planned)


def request_of(network: INetworkDefinition, aot: bool | None) -> Request:
    """Which function shall compute a plug-in: `impl` or `aot_impl`."""
    if aot is not None:
        return Request.STRICT_AOT if boolean(aot, "add_plugin: aot") else Request.STRICT_JIT
    if network.get_flag(NetworkDefinitionCreationFlag.PREFER_AOT_PYTHON_PLUGINS):
        return Request.PREFER_AOT
    if network.get_flag(NetworkDefinitionCreationFlag.PREFER_JIT_PYTHON_PLUGINS):
        return Request.PREFER_JIT
    return Request.UNKNOWN


def _tensors(network: NetworkState, where: str, argument: object) -> list[TensorState]:
    if not isinstance(argument, Sequence) or isinstance(argument, str):
        raise wrong_type(where, argument, "a list of ITensor", "write [tensor, ...]")
    method, _, name = where.partition(": ")
    return [state_of(tensor(method, name, x, network)) for x in argument]


def _add_layer(
    network: NetworkState,
    op: AnyOp,
    cls: type[L],
    kind: Kind,
    inputs: list[TensorState],
    shapes: list[TensorState],
) -> L:
    """A new layer of a plug-in; requests its name and its number of outputs."""
    name, version, space = kind.key
    slots = [Input(f"input{k}", EVERY) for k in range(len(inputs))]
    slots += [Input(f"shape{k}", EVERY, shape_values=True) for k in range(len(shapes))]
    outputs = tuple(f"output{k}" for k in range(kind.outputs))
    own = replace(op, inputs=tuple(slots), outputs=outputs)
    label = f"(Unnamed Layer* {len(network.layers)}) [{op.title}]"
    details: dict[str, object] = {"plugin": name, "version": version, "namespace": space}
    layer = cls(network, own, label, (*inputs, *shapes), details, user_line())
    state = state_of(layer)
    state.metadata = kind.metadata
    state.held = Held(kind, len(inputs))
    network.layers.append(state)
    # A plug-in selects the types of its outputs, so half types and float32 may meet.
    network.widens = network.widens or not network.is_strong
    return layer
