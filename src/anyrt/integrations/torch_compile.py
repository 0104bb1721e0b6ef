"""`torch.compile(model, backend="anyrt")` for inference: graphs of PyTorch as engines.

    compiled = torch.compile(model.eval(), backend="anyrt")
    with torch.inference_mode():
        y = compiled(x)

Weights become constants of the engine; an engine is made again after they have changed. What ONNX or AnyRT
has no operator for stays in PyTorch, which a warning says once, and the rest around it becomes engines.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule

from anyrt.integrations.torch_engine import Refused, Run, engine_of
from anyrt.integrations.torch_inputs import is_number, is_weight, with_constants, with_numbers
from anyrt.integrations.torch_parts import parts_of

# Any: tensors, and numbers where sizes are dynamic.
Values: TypeAlias = Sequence[Any]
_said: set[str] = set()


def anyrt(graph: GraphModule, examples: Values, **options: object) -> Callable[..., Values]:
    """What `torch.compile` calls for each graph; engines are built when it first runs."""
    return _Compiled(graph)


class _Compiled:
    """A graph that is built at its first call, and again when its weights have changed."""

    def __init__(self, graph: GraphModule) -> None:
        self._graph = graph
        inputs = list(graph.graph.find_nodes(op="placeholder"))
        self._fixed = [i for i, node in enumerate(inputs) if is_weight(node) or is_number(node)]
        held = [node.meta.get("example_value") for node in inputs]
        self._open = [i for i, x in enumerate(held) if isinstance(x, torch.Tensor) and i not in self._fixed]
        self._seen: list[tuple[int, float]] = []
        self._run: Run | None = None

    def __call__(self, *inputs: Any) -> Values:  # Any: as above
        if torch.is_grad_enabled() and any(_wants_gradient(x) for x in inputs):
            _say("gradients are wanted, so that the graph stays in PyTorch; torch.no_grad() says otherwise")
            outputs: Values = self._graph(*inputs)
            return outputs
        seen = [_state(inputs[i]) for i in self._fixed]
        if self._run is None or seen != self._seen:
            self._run, self._seen = self._build(inputs), seen
        return self._run(*(inputs[i] for i in self._open))

    def _build(self, inputs: Values) -> Run:
        """What runs the graph with these weights."""
        with torch.no_grad():
            frozen = with_constants(self._graph, inputs)
            return with_numbers(frozen, lambda graph: _built(graph, [inputs[i] for i in self._open]))


def _built(graph: GraphModule, tensors: Values) -> Run:
    """An engine; or engines and PyTorch, if one operator or another is missing."""
    try:
        return engine_of(graph, tensors)
    except Refused as refused:
        where = "the rest becomes engines" if refused.operators else "the graph stays in PyTorch"
        _say(f"{refused}; {where}")
        return parts_of(graph, tensors, refused, _say)


def _wants_gradient(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _state(x: torch.Tensor) -> tuple[int, float]:
    """Another one after any change that PyTorch counts: tensors of inference mode have no count."""
    if x.dim() == 0:
        return 0, x.item()
    return x.data_ptr(), 0 if x.is_inference() else x._version


def _say(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(f'torch.compile(backend="anyrt"): {text}', stacklevel=2)
