"""Methods of layers that set several attributes and inputs at once, derived from the operators' records.

>>> from anyrt.core.enums import LayerType
>>> from anyrt.ops import OPS
>>> list(inspect.signature(setters(OPS[LayerType.MOE])["set_swiglu_params"]).parameters)
['self', 'limit', 'alpha', 'beta']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from anyrt.api.derived.arguments import bound, tensor
from anyrt.api.derived.convert import accepted, take
from anyrt.api.derived.describe import setter_text
from anyrt.api.edge.quiet import quiet
from anyrt.api.model.layer import ILayer
from anyrt.api.model.state import state_of
from anyrt.ops._record import AnyOp, Setter


def setters(op: AnyOp) -> dict[str, Callable[..., None]]:
    """The setters of an operator, by name."""
    return {s.name: _setter(op, s) for s in op.setters}


def _setter(op: AnyOp, setter: Setter) -> Callable[..., None]:
    specs = {s.name: s for s in op.specs()}
    operands = {x.name: i for i, x in enumerate(op.inputs)}
    signature = _signature(op, setter)

    def assign(self: ILayer, *args: object, **named: object) -> None:
        arguments, state = bound(setter.name, signature, args, named, "layer"), state_of(self)
        inputs, attributes = {}, {}
        for parameter, name in setter.params:
            x, where = arguments[parameter], f"{setter.name}: {parameter}"
            if name in operands:
                inputs[operands[name]] = tensor(setter.name, parameter, x, state.network)
            else:
                attributes[name] = take(specs[name], x, where)
        for index, connected in inputs.items():
            self.set_input(index, connected)
        state.attributes.update(attributes)
        state.reset(setter.clears)

    assign.__name__, assign.__qualname__ = setter.name, f"{op.owner}.{setter.name}"
    assign.__doc__ = setter_text(op, setter)
    wrapped: Callable[..., None] = quiet(None)(assign)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = signature.replace(parameters=[first, *signature.parameters.values()])
    vars(wrapped)["__signature__"] = shown
    return wrapped


def _signature(op: AnyOp, setter: Setter) -> inspect.Signature:
    specs, kind = {s.name: s for s in op.specs()}, inspect.Parameter.POSITIONAL_OR_KEYWORD
    types = [accepted(specs[name]) if name in specs else "ITensor" for _, name in setter.params]
    parameters = [
        inspect.Parameter(p, kind, annotation=t) for (p, _), t in zip(setter.params, types, strict=True)
    ]
    return inspect.Signature(parameters, return_annotation="None")
