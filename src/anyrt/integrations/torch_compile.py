"""`torch.compile(model, backend="anyrt")` for inference: graphs of PyTorch as engines.

    compiled = torch.compile(model.eval(), backend="anyrt")
    with torch.inference_mode():
        y = compiled(x)

Weights become constants of the engine. After a change of the weights, which PyTorch counts, the engine is
built again. PyTorch does not count changes through `weight.data`; AnyRT detects those of whole tensors.
Operators that ONNX or AnyRT lacks stay in PyTorch, with one warning, and the rest of the graph becomes
engines.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule

from anyrt.integrations.torch_engine import Refused, Run, engine_of
from anyrt.integrations.torch_inputs import is_number, is_weight, with_constants, with_numbers
from anyrt.integrations.torch_parts import parts_of

# Any: tensors, and numbers for dynamic sizes.
Values: TypeAlias = Sequence[Any]
# Bytes of each weight that are compared before each call.
SAMPLES: Final = 256
_said: set[str] = set()


def anyrt(graph: GraphModule, examples: Values, **options: object) -> Callable[..., Values]:
    """The backend that `torch.compile` calls for each graph; builds engines at the first call."""
    # A build traces the graph; other threads must not call compiled functions then, unless PyTorch executes
    # them without compilation.
    torch._dynamo.config.error_on_nested_fx_trace = False
    return _Compiled(graph)


class _Compiled:
    """A graph that is built at its first call, and again after a change of its weights."""

    def __init__(self, graph: GraphModule) -> None:
        self._graph = graph
        inputs = list(graph.graph.find_nodes(op="placeholder"))
        self._fixed = [i for i, node in enumerate(inputs) if is_weight(node) or is_number(node)]
        self._names = [node.name for node in inputs]
        self._open: list[int] = []
        self._seen: list[tuple[int, float]] = []
        self._samples: list[tuple[NDArray[np.uint8], bytes]] = []
        self._run: Run | None = None
        self._lock = threading.Lock()

    def __call__(self, *inputs: Any) -> Values:  # Any: as above
        if torch.is_grad_enabled() and any(_wants_gradient(x) for x in inputs):
            _say("the inputs require gradients, so the graph stays in PyTorch; use torch.no_grad()")
            outputs: Values = self._graph(*inputs)
            return outputs
        with self._lock:
            run = self._runner(inputs)
        return run(*(inputs[i] for i in self._open))

    def _runner(self, inputs: Values) -> Run:
        """The function that executes the graph with the current weights, built again if these changed."""
        seen = [_state(inputs[i]) for i in self._fixed]
        is_same = seen == self._seen and all(now.tobytes() == then for now, then in self._samples)
        if self._run is None or not is_same:
            samples = [_sample(inputs[i]) for i in self._fixed]
            self._samples = [(now, now.tobytes()) for now in samples]
            self._run, self._seen = self._build(inputs), seen
        return self._run

    def _build(self, inputs: Values) -> Run:
        """Build the function that executes the graph with the current weights."""
        with torch.no_grad():
            frozen = with_constants(self._graph, inputs)
            left = {node.name for node in frozen.graph.find_nodes(op="placeholder")}
            self._open = [i for i, name in enumerate(self._names) if name in left]
            return with_numbers(frozen, lambda graph: _built(graph, [inputs[i] for i in self._open]))


def _built(graph: GraphModule, tensors: Values) -> Run:
    """An engine; if an operator is not supported, engines and parts in PyTorch."""
    try:
        return engine_of(graph, tensors)
    except Refused as refused:
        where = "the rest becomes engines" if refused.operators else "the graph stays in PyTorch"
        _say(f"{refused}; {where}")
        return parts_of(graph, tensors, refused, _say)


def _wants_gradient(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _state(x: torch.Tensor) -> tuple[int, float]:
    """A value that differs after each change that PyTorch counts; tensors of inference mode have no count."""
    if x.dim() == 0:
        return 0, x.item()
    return x.data_ptr(), 0 if x.is_inference() else x._version


def _sample(x: torch.Tensor) -> NDArray[np.uint8]:
    """Some bytes of a weight, without a copy: PyTorch does not count changes through `weight.data`."""
    storage = x.untyped_storage()
    flat: NDArray[np.uint8] = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) + 1
    start, nbytes = x.storage_offset() * x.itemsize, last * x.itemsize * bool(x.numel())
    # An odd distance covers every byte position of an element: some changes affect only its exponent.
    return flat[start : start + nbytes : nbytes // SAMPLES | 1]


def _say(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(f'torch.compile(backend="anyrt"): {text}', stacklevel=2)
