"""The `add_*` methods of a network, derived from the operators' records.

>>> list(inspect.signature(add_methods()["add_unary"]).parameters)
['self', 'input', 'op']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anyrt.api.derived.arguments import REQUIRED, bound, tensor
from anyrt.api.derived.convert import accepted, take
from anyrt.api.derived.describe import method_text
from anyrt.api.derived.layers import enter, layer_class
from anyrt.api.edge.quiet import quiet, user_line, wrong_type
from anyrt.api.model.layer import ILayer
from anyrt.api.model.scope import Between
from anyrt.api.model.state import NetworkState, TensorState, state_of
from anyrt.core.errors import GraphError
from anyrt.ops import OPS
from anyrt.ops._record import AnyOp, AttrSpec, Method

Adder = Callable[..., Any]  # Any: the method has its own signature, see __signature__
EMPTY = inspect.Parameter.empty


def add_methods(ops: Iterable[AnyOp] = tuple(OPS.values())) -> dict[str, Adder]:
    """The methods that add layers of `ops` to a network; those for boundary layers of a loop or conditional
    are methods of that."""
    return {m.name: _adder(op, m) for op in ops for m in op.methods}


def _adder(op: AnyOp, method: Method) -> Adder:
    specs = {s.name: s for s in op.specs()}
    renamed = dict(method.renamed)
    signature = _signature(op, method, specs)

    def add(
        self: Any, *args: object, **named: object
    ) -> ILayer | Between:  # Any: the network, or the loop or conditional, of whose class this is a method
        network = state_of(self).network if op.within else state_of(self)
        arguments = bound(method.name, signature, args, named)
        tensors = _operands(op, method, arguments, network)
        attributes = _defaults(op) | dict(method.fixed)
        for name, value in arguments.items():
            spec = specs.get(renamed.get(name, name))
            if spec is not None and name not in _operand_names(op, method):
                attributes[spec.name] = take(spec, value, f"{method.name}: {name}")
        label = f"(Unnamed Layer* {len(network.layers)}) [{method.label or op.title}]"
        layer = layer_class(op.cls)(network, op, label, tensors, attributes, user_line())
        network.layers.append(state_of(layer))
        if op.within:
            state_of(self).adopt(state_of(layer))
        return layer if op.scope is None else enter(layer)

    owner = op.within or "INetworkDefinition"
    return _dressed(add, f"{owner}.{method.name}", signature, method_text(op, method))


def _dressed(add: Adder, name: str, signature: inspect.Signature, doc: str) -> Adder:
    add.__name__, add.__qualname__, add.__doc__ = name.partition(".")[2], name, doc
    wrapped = quiet(None)(add)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = signature.replace(parameters=[first, *signature.parameters.values()])
    vars(wrapped)["__signature__"] = shown
    return wrapped


def _signature(op: AnyOp, method: Method, specs: Mapping[str, AttrSpec]) -> inspect.Signature:
    defaults, renamed, operands = dict(method.defaults), dict(method.renamed), _operand_names(op, method)
    parameters, optional = [], False
    for name in method.params:
        default = defaults.get(name, REQUIRED if optional else EMPTY)
        optional = default is not EMPTY
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        shown = operands[name] if name in operands else accepted(specs[renamed.get(name, name)])
        if default is None:
            shown += " | None"
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=shown))
    return inspect.Signature(parameters, return_annotation=op.owner)


def _operand_names(op: AnyOp, method: Method) -> dict[str, str]:
    """The parameters that are tensors, with their annotation."""
    if method.variadic:
        return {method.params[0]: "Sequence[ITensor]"}
    return {i.name: "ITensor" for i in op.inputs if i.required and i.name in method.params}


def _operands(
    op: AnyOp, method: Method, arguments: Mapping[str, object], network: NetworkState
) -> tuple[TensorState, ...]:
    if method.variadic:
        listed = arguments[method.params[0]]
        if not isinstance(listed, list | tuple):
            where = f"{method.name}: {method.params[0]}"
            raise wrong_type(where, listed, "a list of ITensor", "write [tensor, ...]")
        if not listed:
            raise GraphError(
                "AR406", method.name, "an empty list", "at least one tensor", "pass the tensors as a list"
            )
        operands = [(method.params[0], x) for x in listed]
    else:
        operands = [(name, arguments[name]) for name in _operand_names(op, method)]
    return tuple(state_of(tensor(method.name, name, x, network)) for name, x in operands)


def _defaults(op: AnyOp) -> dict[str, object]:
    return {f.name: f.default for f in op.attrs.__dataclass_fields__.values()}
