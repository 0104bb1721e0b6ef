"""Walks the nodes of a model and adds their layers to a network.

Functions of the model, and operators that ONNX defines as functions, are walked like graphs. The outputs of a
node that fails are unknown. The walk skips nodes that need them and continues with all others, so that it
reports all problems at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from anyrt.api.compose.layers import MALFORMED, Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.api.plugins.named import creator_of
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError, GraphError, NotSupportedError, ShapeError
from anyrt.onnx.functions import Key, bound, function_of, is_function, key
from anyrt.onnx.joined import Numbered, RanksDiffer, is_needed, ranked, read_only_as_numbers, with_rest
from anyrt.onnx.model import versions
from anyrt.onnx.node import (
    BROADCASTS,
    Argument,
    Border,
    Held,
    Importer,
    Node,
    Reported,
    importer_of,
    plugin,
    plugin_name,
)
from anyrt.onnx.weights import Reader, data_type, to_weights
from anyrt.ops._record import Array

DEEPEST = 60  # nested functions and graphs; a function that calls itself would not end
MOST = 1 << 16  # nodes of functions and inner graphs, counted for each expansion
MOST_REPORTED = 1000  # reported problems of a model; others are counted


@dataclass(frozen=True, slots=True)
class Failure:
    """A problem: its error, its node, and the functions around the node, outermost first."""

    error: AnyrtError
    index: int = -1
    name: str = ""
    op: str = ""
    stack: tuple[str, ...] = ()

    def placed(self) -> AnyrtError:
        """The error with the name of the node, unless its place has the name already."""
        error = self.error
        if not self.op or self.name in error.where or self.op in error.where:
            return error
        return error.at(f"{self.op} node {self.name or self.index}: {error.where}".removesuffix(": "))


UNREPORTED = GraphError(
    "AR417",
    "the model",
    f"more than {MOST_REPORTED} problems",
    "no problems",
    "correct the reported problems first",
)


class Scope:
    """The values of names in a graph and in the graphs around it; tensors of the latter pass `border`."""

    def __init__(self, outer: Scope | None = None, border: Border | None = None) -> None:
        self.outer = outer
        self.border = border
        self.held: dict[str, Held] = {}
        self.failed: set[str] = set()

    def find(self, name: str) -> Held:
        """The value of a name as an input of a node; None for the empty name, an omitted input. Raises
        ShapeError AR123 for a tensor with a data-dependent rank: a layer is built for one rank."""
        held = self.end(name)
        if isinstance(held, ITensor) and state_of(held).rank is not None:
            got, wanted = "a tensor with a data-dependent rank", "a fixed rank, or an output of the model"
            do = "reshape the output of one branch of its If, or make the condition constant"
            raise ShapeError("AR123", name, got, wanted, do)
        return held

    def end(self, name: str) -> Held:
        """The value of a name as a result of the graph."""
        if not name:
            return None
        if name in self.held:
            return self.held[name]
        if self.outer is None:
            got, wanted = "a name that no earlier node computes", "nodes in order, without cycles"
            raise GraphError("AR417", name, got, wanted)
        held = self.outer.find(name)
        return held if self.border is None else _passed(held, self.border)

    def lost(self, name: str) -> bool:
        """Whether the node that computes `name` failed."""
        return name in self.failed or (self.outer is not None and self.outer.lost(name))


@dataclass(slots=True)
class Walk:
    """The conversion of a model to a network; `failures`: the problems so far.

    opsets: the version of each domain; functions: those of the model; node_outputs: those of each named node;
    stack: the current functions and graphs; times: the number of expansions of each; inner: the number of
    nodes in them; conditions: those of the branches among them; moved: int8 codes that stand for uint8 codes
    less 128, which do not have the names of these.
    """

    network: INetworkDefinition
    reader: Reader
    opsets: Mapping[str, int]
    functions: Mapping[Key, FunctionProto]
    failures: list[Failure] = field(default_factory=list)
    node_outputs: dict[str, list[Held]] = field(default_factory=dict)
    stack: tuple[str, ...] = ()
    named: set[ITensor] = field(default_factory=set)
    moved: set[ITensor] = field(default_factory=set)
    times: Counter[tuple[str, ...]] = field(default_factory=Counter)
    inner: int = 0
    conditions: tuple[ITensor, ...] = ()

    def graph(self, graph: GraphProto, scope: Scope) -> None:
        """Add all initializers and nodes of a graph; its inputs are in `scope` already."""
        for tensor in graph.initializer:
            if tensor.name not in scope.held:
                self._try(scope, (tensor.name,), partial(self._initializer, tensor, scope))
        for sparse in graph.sparse_initializer:
            error = NotSupportedError(
                "AR901",
                sparse.values.name,
                "sparse weights",
                "dense weights",
                "convert them to a dense initializer",
            )
            self._failed(scope, (sparse.values.name,), Failure(error, stack=self.stack))
        self.nodes(graph.node, scope, [v.name for v in graph.output])

    def _initializer(self, tensor: TensorProto, scope: Scope) -> None:
        dtype = data_type(tensor.data_type, tensor.name)
        scope.held[tensor.name] = self._constant(self.reader.array(tensor), dtype, tensor.name)

    def _constant(self, array: Array, dtype: DataType, name: str) -> ITensor:
        """Weights as a tensor of the network."""
        layers = Layers(self.network, name or "constant")
        return layers.weights(to_weights(array, dtype), array.shape, name).it

    def nodes(self, nodes: Sequence[NodeProto], scope: Scope, results: Sequence[str]) -> None:
        """Add nodes in the order of the model: each needs only the results of earlier ones. `results`: the
        names that are needed afterwards."""
        self.inner += len(nodes) if self.stack else 0
        if self.inner > MOST:
            got, do = f"more than {MOST} nodes in functions and inner graphs", "nest fewer functions"
            raise NotSupportedError("AR901", self.stack[-1], got, "a smaller model", do)
        todo = list(enumerate(nodes))
        numbers = read_only_as_numbers(nodes, results)
        while todo:
            (index, node), *todo = todo
            if any(scope.lost(name) for name in node.input):
                scope.failed.update(node.output)
                continue
            if node.op_type == "If" and self._is_last(node, todo, results):
                node = ranked(node)
            before = self.network.num_layers
            try:
                self._try(
                    scope,
                    node.output,
                    partial(self.node, node, scope, not numbers.isdisjoint(node.output)),
                    index,
                    node,
                )
            except RanksDiffer:
                state_of(self.network).retract(before)
                apart, whole = with_rest(node, todo, results)
                todo = [*apart, (index, whole)]

    def _is_last(self, node: NodeProto, rest: Sequence[Numbered], results: Sequence[str]) -> bool:
        """Whether a node of the main graph computes only outputs of the model, which no other node needs."""
        return not self.stack and not set(results).isdisjoint(node.output) and not is_needed(node, rest)

    def _try(
        self,
        scope: Scope,
        names: Sequence[str],
        make: Callable[[], None],
        index: int = -1,
        node: NodeProto | None = None,
    ) -> None:
        try:
            make()
        except AnyrtError as error:
            name, op = (node.name, node.op_type) if node is not None else (names[0], "")
            self._failed(scope, names, Failure(error, index, name, op, self.stack))
        except Reported:
            scope.failed.update(names)
        except MALFORMED as error:
            if node is None:
                raise
            problem = _malformed(node, index, error)
            self._failed(scope, names, Failure(problem, index, node.name, node.op_type, self.stack))

    def fail(self, failure: Failure) -> None:
        """Store a problem; of many problems only the place, since exceptions keep their frames alive."""
        is_reported = len(self.failures) < MOST_REPORTED
        self.failures.append(failure if is_reported else Failure(UNREPORTED, failure.index))

    def _failed(self, scope: Scope, names: Sequence[str], failure: Failure) -> None:
        self.fail(failure)
        scope.failed.update(names)

    def node(self, proto: NodeProto, scope: Scope, moves_codes: bool = False) -> None:
        """Add one node, with its importer or as a function."""
        held = [scope.find(name) for name in proto.input]
        name = key(proto)
        importer = None if name in self.functions else importer_of(name)
        if importer is None and not self._is_function(name):
            importer = self._plugin(proto)
        if importer is None:
            outputs = self._function(proto, name, held)
        else:
            bodies = {a.name: partial(self.body, a.g, scope) for a in proto.attribute if a.HasField("g")}
            version = self.opsets.get(name[0], 1)
            around = self.stack, self.conditions
            node = Node(self.network, proto, version, held, bodies, self._array, *around)
            node.moved = self.moved if moves_codes or name[1] == "DequantizeLinear" else None
            if node.version < BROADCASTS and node.has("axis") and node.attr("broadcast", 0):
                node.arguments[1] = _placed(node.input(0), node.input(1), node.attr("axis", 0))
            outputs = [_plain(x) for x in self._described(node, importer)]
        self._keep(proto, outputs, scope)

    def _described(self, node: Node, importer: Importer) -> Sequence[Argument]:
        """The outputs of this node. Its layers are marked as parts of it; layers of inner nodes are not."""
        network = state_of(self.network)
        before, network.node = network.node, node
        try:
            outputs = importer(node)
            return [outputs] if isinstance(outputs, Tensor) else outputs
        finally:
            network.node = before

    def _is_function(self, name: Key) -> bool:
        return name in self.functions or is_function(name, self.opsets.get(name[0], 1))

    def _plugin(self, proto: NodeProto) -> Importer | None:
        """The importer of a node whose operator is a plug-in."""
        creator = creator_of(plugin_name(proto))
        return None if creator is None else partial(plugin, creator)

    def _array(self, attribute: AttributeProto) -> Array:
        return self.reader.array(attribute.t)

    def _keep(self, proto: NodeProto, outputs: Sequence[Held], scope: Scope) -> None:
        for name, held in zip(proto.output, outputs, strict=False):
            if not name:
                continue
            if isinstance(held, ITensor):
                self._settle(held, name)
            scope.held[name] = held
        if not self.stack and proto.name:
            self.node_outputs[proto.name] = list(outputs)

    def _settle(self, tensor: ITensor, name: str) -> None:
        """Check the layer of a tensor now, so that an error belongs to this node; name the tensor if it is
        new."""
        state_of(self.network).expansion.value(state_of(tensor))
        if tensor not in self.named and tensor not in self.moved and not tensor.is_network_input:
            self.named.add(tensor)
            tensor.name = name

    def _function(self, proto: NodeProto, name: Key, held: Sequence[Held]) -> list[Held]:
        """The outputs of a node whose operator is a function."""
        function = self.functions.get(name) or function_of(proto, held, self.opsets.get(name[0], 1))
        if function is None:
            got = f"operator {'::'.join(filter(None, name))}"
            where = proto.name or proto.op_type
            raise NotSupportedError("AR904", where, got, "a supported operator")
        inner = Scope()
        inner.held = dict(zip(function.input, (*held, *[None] * len(function.input)), strict=False))
        with self._within(proto.name or proto.op_type):
            opsets = self.opsets
            self.opsets = {**opsets, **versions(function.opset_import)}
            try:
                self.nodes([bound(n, proto, function) for n in function.node], inner, function.output)
            finally:
                self.opsets = opsets
        asked = [result for result, name in zip(function.output, proto.output, strict=False) if name]
        values = dict(zip(asked, self._results(asked, inner), strict=True))
        return [values.get(result) for result in function.output]

    def body(
        self,
        graph: GraphProto,
        scope: Scope,
        arguments: Sequence[Argument],
        border: Border | None = None,
        trial: bool = False,
        holds: Tensor | None = None,
    ) -> list[Argument]:
        """The outputs of a graph inside a node for these inputs; it may read all values around it: a `Body`.
        `holds`: the condition under which it is executed."""
        before, around = len(self.failures), self.conditions
        self.conditions += () if holds is None else (holds.it,)
        inner = Scope(scope, border)
        inner.held = {v.name: _plain(x) for v, x in zip(graph.input, arguments, strict=False)}
        node = Node(self.network, NodeProto(name=graph.name), 1, (), {}, self._array)
        try:
            with self._within(graph.name):
                self.graph(graph, inner)
            return [node.wrapped(h) for h in self._results([v.name for v in graph.output], inner)]
        except Reported:
            if not trial or len(self.failures) == before:
                raise
            first = self.failures[before].error
            del self.failures[before:]
            raise first from None
        finally:
            self.conditions = around

    def _results(self, names: Sequence[str], scope: Scope) -> list[Held]:
        if any(scope.lost(name) for name in names):
            raise Reported
        return [scope.end(name) for name in names]

    @contextmanager
    def _within(self, name: str) -> Iterator[None]:
        if len(self.stack) >= DEEPEST:
            raise GraphError("AR417", name, f"more than {DEEPEST} nested functions or graphs", "fewer levels")
        place = (*self.stack, name)
        self.times[place] += 1  # repeated expansions, such as iterations of a loop, get their own names
        self.stack += (f"{name}#{n}" if (n := self.times[place]) > 1 else name,)
        try:
            yield
        finally:
            self.stack = self.stack[:-1]


def _malformed(node: NodeProto, index: int, error: Exception) -> GraphError:
    """The problem of a node whose importer raised an unexpected exception; strict also shows the
    traceback."""
    got = f"{type(error).__name__}: {error}".splitlines()[0]
    do = "check the model: onnx.checker.check_model(path, full_check=True); if that finds nothing, report it"
    problem = GraphError(
        "AR417",
        node.name or f"{node.op_type} node {index}",
        got,
        f"valid inputs and attributes of {node.op_type}",
        do,
    )
    problem.__cause__ = error
    return problem


def _placed(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """`b` with axes of size 1 appended, so that its first axis is aligned with `axis` of `a`."""
    behind = a.rank - axis % max(a.rank, 1) - b.rank
    return b.unsqueeze(*range(b.rank, b.rank + behind)) if behind > 0 else b


def _plain(value: Argument) -> Held:
    if isinstance(value, list):
        return [x.it for x in value]
    return None if value is None else value.it


def _passed(held: Held, border: Border) -> Held:
    if isinstance(held, list):
        return [border(x) for x in held]
    return held if held is None else border(held)
