"""A node of a model, as importers receive it.

@importer("Mish")
def mish(node: Node) -> Tensor:
    x = node.input(0)
    return x * node.layer("add_activation", node.layer("add_activation", x, SOFTPLUS), TANH)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from onnx import AttributeProto, NodeProto, ValueInfoProto, helper

from anyrt.api.compose.layers import Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.tensor import ITensor
from anyrt.api.plugins.named import Creator, Name, field_names, plugin_layers
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, GraphError, NotSupportedError
from anyrt.onnx.weights import data_type
from anyrt.ops._record import Array

A = TypeVar("A", int, float, str, bytes, tuple[int, ...], tuple[float, ...], tuple[str, ...])
V = TypeVar("V")
SHAPES = "tensorrt_plugin_shape_input_indices"
BROADCASTS = 7  # the first opset that aligns axes at the end, as in NumPy
# The value of a name of a model: a tensor, a sequence of tensors, or an optional without a value.
Held: TypeAlias = ITensor | list[ITensor] | None
Argument: TypeAlias = Tensor | list[Tensor] | None
Border: TypeAlias = Callable[[ITensor], ITensor]


class Reported(Exception):
    """An inner graph failed, and its problems are reported."""


class Body(Protocol):
    """A graph among a node's attributes; each call adds its layers."""

    def __call__(
        self,
        arguments: Sequence[Argument],
        border: Border | None = None,
        trial: bool = False,
        holds: Tensor | None = None,
    ) -> list[Argument]:
        """The outputs for these inputs. `border` receives each tensor that the graph reads from outside;
        `holds` is the condition under which the graph runs.

        Raises Reported once its problems are reported. A trial reports none and raises the first one."""


class Node(Layers):
    """One node: its operator, attributes and inputs, and methods that add layers.

    version: of the operator set of its domain; arguments: its inputs, tensors and sequences; bodies: graphs
    among its attributes, which a call adds to the network; around: the names of the functions and graphs that
    contain the node; moved: the int8 codes that stand for uint8 codes less 128, to which a node adds its own
    if only DequantizeLinear reads them.
    """

    def __init__(
        self,
        network: INetworkDefinition,
        proto: NodeProto,
        version: int,
        held: Sequence[Held],
        bodies: Mapping[str, Body],
        arrays: Callable[[AttributeProto], Array],
        around: Sequence[str] = (),
        conditions: Sequence[ITensor] = (),
    ) -> None:
        name = proto.name or next(filter(None, proto.output), proto.op_type)
        Layers.__init__(self, network, "/".join((*around, name)))
        self.proto = proto
        self.op = proto.op_type
        self.version = version
        self.arguments = [self.wrapped(h) for h in held]
        self.bodies = bodies
        self._arrays = arrays
        self._attributes = {a.name: a for a in proto.attribute}
        self.outputs_named = tuple(proto.output)
        self.moved: set[ITensor] | None = None
        self.conditions = tuple(map(self.tensor, conditions))  # those of its execution, outermost first

    def wrapped(self, held: Held) -> Argument:
        """The value of a name as `Tensor`s, which have arithmetic."""
        if isinstance(held, list):
            return [self.tensor(h) for h in held]
        return None if held is None else self.tensor(held)

    @property
    def inputs(self) -> list[Tensor | None]:
        """The inputs; None for omitted ones."""
        return [self.optional(i) for i in range(len(self.arguments))]

    def present(self) -> list[Tensor]:
        """The inputs that are not omitted."""
        return [x for x in self.inputs if x is not None]

    def input(self, i: int) -> Tensor:
        """Input `i`; raises GraphError AR417 if it is omitted."""
        x = self.optional(i)
        if x is None:
            raise GraphError("AR417", self.where, f"no input {i}", f"an input {i} for {self.op}")
        return x

    def optional(self, i: int) -> Tensor | None:
        """Input `i`; None if it is omitted."""
        x = self.arguments[i] if i < len(self.arguments) else None
        if isinstance(x, list):
            raise GraphError("AR417", self.where, f"a sequence for input {i}", f"a tensor for {self.op}")
        return x

    def asks(self, i: int) -> bool:
        """Whether the model uses output `i`."""
        return i < len(self.outputs_named) and bool(self.outputs_named[i])

    def sequence(self, i: int) -> list[Tensor]:
        """Input `i`, a sequence of tensors."""
        tensors = self.arguments[i] if i < len(self.arguments) else None
        if not isinstance(tensors, list):
            raise GraphError("AR417", self.where, f"no sequence for input {i}", f"a sequence for {self.op}")
        return tensors

    def has(self, name: str) -> bool:
        """Whether the node has the attribute."""
        return name in self._attributes

    def attr(self, name: str, default: A) -> A:
        """An attribute of the type of the default; text is decoded. Defaults are float32, like numbers of a
        model."""
        if name not in self._attributes:
            return type(default)(np.float32(default)) if isinstance(default, float) else default
        value = helper.get_attribute_value(self._attributes[name])
        value = _like(value, default)
        if not isinstance(value, type(default)):
            got = f"attribute {name} = {value!r}"
            raise ArgumentError("AR304", self.where, got, f"a {type(default).__name__}")
        return value

    def required(self, name: str, example: A) -> A:
        """An attribute of the example's type; raises GraphError AR417 if the node has none."""
        if not self.has(name):
            raise GraphError("AR417", self.where, f"no attribute {name}", f"an attribute {name} of {self.op}")
        return self.attr(name, example)

    def raw(self, name: str) -> object:
        """An attribute without conversion: an array, a number, bytes, or a list of these."""
        attribute = self._attributes[name]
        is_array = attribute.type == AttributeProto.TENSOR
        return self.array(name) if is_array else helper.get_attribute_value(attribute)

    def array(self, name: str) -> Array:
        """An attribute that is a tensor."""
        if not self.has(name):
            raise GraphError("AR417", self.where, f"no attribute {name}", f"an attribute {name} of {self.op}")
        return self._arrays(self._attributes[name])

    def choice(self, name: str, default: str, table: Mapping[str, V]) -> V:
        """The value in `table` for an attribute that is one of its keys; otherwise ArgumentError AR304."""
        value = self.attr(name, default)
        if value not in table:
            got, wanted = f"attribute {name} = {value[:40]!r}", f"one of {', '.join(table)}"
            raise ArgumentError("AR304", self.where, got, wanted)
        return table[value]

    def body(self, name: str) -> Body:
        """An attribute that is a graph."""
        if name not in self.bodies:
            raise GraphError("AR417", self.where, f"no graph {name}", f"a graph {name} of {self.op}")
        return self.bodies[name]

    def body_inputs(self, name: str) -> Sequence[ValueInfoProto]:
        """The inputs of a graph among the attributes, as the model declares them."""
        self.body(name)
        return tuple(self._attributes[name].g.input)

    def body_outputs(self, name: str) -> Sequence[ValueInfoProto]:
        """The outputs of a graph among the attributes, as the model declares them."""
        return tuple(self._attributes[name].g.output)

    def dtype(self, name: str, default: DataType) -> DataType:
        """An attribute that is the number of an element type."""
        number = self.attr(name, 0)
        return data_type(number, self.where) if number else default

    def axis(self, x: Tensor, name: str = "axis", default: int = 0) -> int:
        """An attribute that is an axis of `x`, from 0 on."""
        axis = self.attr(name, default)
        if not -x.rank <= axis < max(x.rank, 1):
            got = f"{name} {axis} for {x.rank} axes"
            raise ArgumentError("AR304", self.where, got, f"{-x.rank} to {x.rank - 1}")
        return axis % max(x.rank, 1)

    def axes(self, i: int, name: str = "axes") -> tuple[int, ...] | None:
        """Axes from an attribute, or from input `i` in later versions; None if there is neither.

        Raises NotSupportedError AR901 for data-dependent axes."""
        x = self.optional(i)
        if x is None:
            return self.attr(name, ()) if self.has(name) else None
        known = self.ints(x)
        if known is None:
            do = "make them constants of the model"
            raise NotSupportedError(
                "AR901", self.where, f"data-dependent {name}", "values known at build time", do
            )
        return known

    def unsupported(self, got: str, do: str = "") -> NotSupportedError:
        """The error for an unsupported form of the operator."""
        wanted = f"a supported form of {self.op}"
        return NotSupportedError("AR901", self.where, got, wanted, do or "compute it outside the model")


def named(node: Node, i: int) -> Tensor | Sequence[int] | None:
    """Axes from an attribute or input `i`, as numbers if they are constant; None if there is neither."""
    axes = node.optional(i)
    if axes is None:
        return node.attr("axes", (0,)) if node.has("axes") else None
    known = node.ints(axes)
    return axes if known is None else known


def _like(value: object, default: object) -> object:
    """The value of an attribute with text decoded, lists as tuples, and as float if the default is a
    float."""
    if isinstance(default, tuple) and isinstance(value, list | tuple):
        return tuple(_decoded(v) for v in value)
    if isinstance(default, float) and isinstance(value, int):
        return float(value)
    return value if isinstance(default, bytes) else _decoded(value)


def _decoded(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


# The outputs of a node in order; None for an output that the model does not name.
Outputs: TypeAlias = Tensor | Sequence[Argument]
Importer: TypeAlias = Callable[[Node], Outputs]
IMPORTERS: dict[tuple[str, str], Importer] = {}
ANY = "*"  # the domain of importers for an operator in any domain


def importer_of(name: tuple[str, str]) -> Importer | None:
    """The importer of an operator by its domain and name; None for an unknown operator."""
    return IMPORTERS.get(name) or IMPORTERS.get((ANY, name[1]))


def importer(*names: str, domain: str = "") -> Callable[[Importer], Importer]:
    """Register a function as the importer of these operators."""

    def keep(function: Importer) -> Importer:
        for name in names:
            assert (domain, name) not in IMPORTERS, f"a second importer of {domain}::{name}"
            IMPORTERS[domain, name] = function
        return function

    return keep


def plugin_name(node: NodeProto) -> Name:
    """The name, version and namespace of the plug-in for a node, if its operator is a plug-in."""
    attributes = {a.name: a.s.decode(errors="replace") for a in node.attribute}
    return node.op_type, attributes.get("plugin_version") or "1", attributes.get("plugin_namespace", "")


def plugin(creator: Creator, node: Node) -> list[Tensor]:
    """The outputs of a node, computed by the plug-in that `creator` makes from its attributes.

    `tensorrt_plugin_shape_input_indices`: the shape inputs of the plug-in; `aot`: the function that computes
    a plug-in with two."""
    values = {name: node.raw(name) for name in field_names(creator, node.op) if node.has(name)}
    inputs = [node.input(k) for k in range(len(node.arguments))]
    aot = bool(node.attr("aot", 0)) if node.has("aot") else None
    return plugin_layers(node, creator, inputs, values, node.attr(SHAPES, ()), aot)
